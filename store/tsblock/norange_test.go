package tsblock

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// rangeless is a bucket that ignores ranges.
type rangeless struct{ text string }

func (b rangeless) GetRange(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(b.text)), nil
}

func (b rangeless) Attributes(context.Context, string) (struct{ Size int64 }, error) {
	return struct{ Size int64 }{int64(len(b.text))}, nil
}

// TestNoRange reads ranges from a bucket that returns whole objects: none of their bytes is used.
func TestNoRange(t *testing.T) {
	s := Bucket[struct{ Size int64 }](rangeless{"0123456789"})
	for off, want := range map[int64]error{0: errNoRange, 4: errNoRange} {
		dst := make([]byte, 6)
		if n, err := s.ReadRange(t.Context(), "x", off, dst); n != 0 || !errors.Is(err, want) {
			t.Errorf("at %d: %d bytes, %v", off, n, err)
		}
	}
	for off, want := range map[int64]error{0: ErrObjectEnd, 4: errNoRange, 9: errNoRange} { // the last range is beyond the end
		if n, err := s.ReadRange(t.Context(), "x", off, make([]byte, 20)); !errors.Is(err, want) || n != 0 && off > 0 {
			t.Errorf("20 bytes at %d: %d bytes, %v", off, n, err)
		}
	}
	dst := make([]byte, 10)
	if n, err := s.ReadRange(t.Context(), "x", 0, dst); n != 10 || err != nil || string(dst) != "0123456789" {
		t.Errorf("whole: %d bytes %q, %v", n, dst, err)
	}
}
