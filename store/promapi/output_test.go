package promapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestSettledResponse completes a large response: from then on its bytes, compressed or not, are charged to
// the budget of responses, and no other memory is kept for it.
func TestSettledResponse(t *testing.T) {
	body := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range body {
		body[i] = 'a' + byte(random.IntN(16))
	}
	for _, accept := range []encoding{identity, gzipped, zstandard} {
		t.Run(accept.String(), func(t *testing.T) {
			budget := newResponses(NewResponseBudget(64<<20), time.Minute)
			w := httptest.NewRecorder()
			var pools encoderPools
			o := output{w: w, code: http.StatusOK, accept: accept, buffered: true, whole: true, buf: bytes.Clone(body), pools: &pools, budget: budget}
			o.settle()
			kept := int64(len(o.parts)) * partBytes
			if cap(o.buf) > keptBytes {
				kept += int64(cap(o.buf))
			}
			if o.sent || kept > budget.Reserved() || budget.Reserved() == 0 {
				t.Errorf("sent: %v, %d bytes are kept, %d charged", o.sent, kept, budget.Reserved())
			}
			if err := o.finish(); err != nil || budget.Reserved() != 0 {
				t.Errorf("%d bytes are charged after the response, %v", budget.Reserved(), err)
			}
			got := w.Body.Bytes()
			if accept == gzipped {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				if got, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			if accept != zstandard && !bytes.Equal(got, body) {
				t.Errorf("%d bytes were sent, want %d", len(got), len(body))
			}
		})
	}
}
