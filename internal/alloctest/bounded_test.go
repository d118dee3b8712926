package alloctest

import (
	"fmt"
	"testing"
)

// failures counts the errors of a test.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n++ }

var sink []byte

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		bytes int
		most  uint64
		fails int
	}{{16 << 20, 8 << 20, 1}, {1 << 20, 64 << 20, 0}} {
		t.Run(fmt.Sprint(c.bytes), func(t *testing.T) {
			f := &failures{TB: t}
			check := Bounded(f, c.most)
			sink = make([]byte, c.bytes)
			check()
			if f.n != c.fails {
				t.Errorf("%d failures, want %d", f.n, c.fails)
			}
		})
	}
}
