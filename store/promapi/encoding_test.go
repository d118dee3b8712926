package promapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]encoding{
		"":                                   identity,
		"gzip":                               gzipped,
		"gzip, deflate, br, zstd":            zstandard,
		"zstd;q=0.5, gzip":                   gzipped,
		"gzip;q=0, zstd;q=0":                 identity,
		"identity, gzip;q=0.5":               identity,
		"GZIP ; q=0.3":                       gzipped,
		"br":                                 identity,
		"gzip;q=2, zstd;q=x, identity;q=0.1": identity,
		"*":                                  zstandard,
		"gzip;Q=0":                           identity,
		"gzip;x=1;q=0":                       identity,
		"gzip;q=":                            identity,
	} {
		if got := negotiate(http.Header{"Accept-Encoding": {accept}}); got != want {
			t.Errorf("%q: got %v, want %v", accept, got, want)
		}
	}
}

// TestCompressed sends responses in several pieces with each coding, twice: the second time with a used
// compressor.
func TestCompressed(t *testing.T) {
	want := strings.Repeat("0123456789", 20_000)
	pools := new(encoderPools)
	for _, e := range []encoding{identity, gzipped, zstandard, gzipped, zstandard} {
		w := httptest.NewRecorder()
		out := output{w: w, accept: e, code: http.StatusOK, pools: pools}
		for i := 0; i < len(want); i += 1000 {
			out.buf = append(out.buf, want[i:i+1000]...)
			if len(out.buf) >= flushAt {
				out.buf = out.spill(out.buf)
			}
		}
		if err := out.finish(); err != nil {
			t.Fatal(err)
		}
		var r io.Reader = w.Body
		var err error
		switch e {
		case gzipped:
			r, err = gzip.NewReader(w.Body)
		case zstandard:
			var z *zstd.Decoder
			if z, err = zstd.NewReader(w.Body); err == nil {
				defer z.Close()
				r = z
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want || out.bytes != int64(len(want)) {
			t.Errorf("%v: %d bytes, %v, counted %d; want %d", e, len(got), err, out.bytes, len(want))
		}
		if name := w.Header().Get("Content-Encoding"); e != identity && name != e.String() {
			t.Errorf("%v: Content-Encoding is %q", e, name)
		}
	}
	w := httptest.NewRecorder()
	out := output{w: w, accept: gzipped, code: http.StatusOK, pools: pools, buf: []byte("{}")}
	if err := out.finish(); err != nil || w.Header().Get("Content-Encoding") != "" || w.Header().Get("Content-Length") != "2" || w.Body.String() != "{}" {
		t.Errorf("a small answer: %v, %v, %s", err, w.Header(), w.Body)
	}
}
