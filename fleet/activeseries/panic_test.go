package activeseries

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/panics"
)

// A failingReader reads a text and panics at its end.
type failingReader struct{ r io.Reader }

func (f failingReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil {
		panic("BUG: a decoder read too far")
	}
	return n, nil
}

// TestPanicFailsTheResponse lets the read of one source panic in any goroutine: the response fails, all
// bodies are closed, and the client does not see the text of the panic.
func TestPanicFailsTheResponse(t *testing.T) {
	long := `{"data":[` + strings.Repeat(`{"a":"b"},`, 20_000) + `{"a":"b"}]}`
	for _, workers := range []int{1, 4} {
		for at := range 4 {
			for name, o := range map[string]Request{"scanner": {}, "compared": {Compare: func(Difference) {}}} {
				var closed atomic.Int64
				bodies := texts(&closed, long, long, long, long)
				bodies[at].Body = countedBody{failingReader{strings.NewReader(long[:len(long)/2])}, &closed}
				b := NewMerger(MergerOptions{Workers: workers}).Merge(bodies, o)
				var out bytes.Buffer
				_, err := b.WriteTo(&out)
				p := panics.Of(err)
				if p == nil || !strings.Contains(string(p.Stack), "failingReader") {
					t.Errorf("%s, source %d with %d workers: %v, want the panic with its stack", name, at, workers, err)
				}
				if text := out.String(); strings.Contains(text, "too far") || !strings.Contains(text, "internal error") {
					t.Errorf("%s: the response ends with %q", name, text[max(0, len(text)-200):])
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if closed.Load() != 4 {
					t.Errorf("%s, source %d with %d workers: %d bodies are closed, want 4", name, at, workers, closed.Load())
				}
			}
		}
	}
}

// TestPanicOfTheOtherDecoder lets the decoder panic that only compares: this counts as a difference.
func TestPanicOfTheOtherDecoder(t *testing.T) {
	var seen []Difference
	var closed atomic.Int64
	o := Request{Compare: func(d Difference) { seen = append(seen, d) }}
	sources := texts(&closed, `{"data":[{"a":"b"}]}`)
	c := newComparison(&o, &sources[0])
	c.other = panicDecoder{c.other}
	c.Reset(sources[0].Body)
	var err error
	for err == nil {
		_, _, err = c.Next()
	}
	if !errors.Is(err, io.EOF) || len(seen) != 1 || panics.Of(seen[0].OtherErr) == nil {
		t.Errorf("ends with %v, differences %v", err, seen)
	}
}

type panicDecoder struct{ Decoder }

func (panicDecoder) Next() ([]byte, int, error) { panic("BUG: in the other decoder") }
