package web

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
)

// TestPageRecorder keeps a response up to graphBytes, in however many parts, and nothing after one that is larger.
func TestPageRecorder(t *testing.T) {
	part := bytes.Repeat([]byte("x"), graphBytes/4)
	for _, c := range []struct {
		name  string
		parts [][]byte
		kept  int
		full  bool
	}{
		{"nothing", nil, 0, false},
		{"the most", [][]byte{part, part, part, part}, 4 * len(part), false},
		{"one byte more", [][]byte{part, part, part, part, {'y'}}, 4 * len(part), true},
		{"more at once", [][]byte{part, bytes.Repeat(part, 4)}, len(part), true},
		{"more after it", [][]byte{bytes.Repeat(part, 5), {'y'}}, 0, true},
	} {
		w := &pageRecorder{header: http.Header{}}
		failed := false
		for _, p := range c.parts {
			n, err := w.Write(p)
			if failed = failed || err != nil; failed != errors.Is(err, errGraphBytes) || !failed && n != len(p) || failed && n != 0 {
				t.Errorf("%s: %d of %d bytes, %v", c.name, n, len(p), err)
			}
		}
		if w.body.Len() != c.kept || w.full != c.full || failed != c.full {
			t.Errorf("%s: %d bytes, full %t; want %d, %t", c.name, w.body.Len(), w.full, c.kept, c.full)
		}
	}
}
