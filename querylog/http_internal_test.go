package querylog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRingWraps fills a ring many times with lines that wrap at all offsets: it always contains the newest
// lines, whole.
func TestRingWraps(t *testing.T) {
	for pad := 1; pad < 24; pad++ {
		const size = 4096
		r := newRing(size+pad, "b")
		if len(r.buf) != size {
			t.Fatalf("a ring of %d bytes has %d", size+pad, len(r.buf))
		}
		for i := range 200 {
			line := fmt.Appendf(nil, "kind:statement\tseq:%d\tpad:%s\n", i, strings.Repeat("x", i*pad%150))
			r.append(&batch{buf: line, lines: 1})
			rd := r.attach(true)
			got, missed, _ := rd.read(nil)
			rd.detach()
			if missed != 0 || !bytes.HasSuffix(got, line) {
				t.Fatalf("ring of %d after line %d: missed %d, ends %q", size, i, missed, got[max(0, len(got)-50):])
			}
			for line := range bytes.Lines(got) {
				if !bytes.HasPrefix(line, []byte("kind:statement\tseq:")) || line[len(line)-1] != '\n' {
					t.Fatalf("ring of %d: not a line: %q", size, line)
				}
			}
			first := fmt.Appendf(nil, "seq:%d\t", r.first)
			if !bytes.Contains(got[:min(40, len(got))], first) || int(r.next) != i+1 {
				t.Fatalf("ring of %d after line %d begins %q, want %s", size, i, got[:min(40, len(got))], first)
			}
		}
	}
}

// A lateResponse accepts a number of bytes, and then the stream's time is over.
type lateResponse struct {
	bytes.Buffer
	most int
	late func()
}

func (w *lateResponse) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.Len() >= w.most {
		w.late()
	}
	return n, err
}

// TestStreamEndsWithALine lets a stream's time expire while lines are left: the last one is whole, and the
// others are counted.
func TestStreamEndsWithALine(t *testing.T) {
	const lines = 4000
	line := []byte(`{"kind":"query","text":"` + strings.Repeat("x", 100) + `"}` + "\n")
	long := append(bytes.Repeat([]byte("y"), 3*pieceBytes), '\n')
	all := append(bytes.Repeat(line, lines), long...)
	for _, most := range []int{1, pieceBytes, 3 * pieceBytes, len(all)} {
		s := streamer{stop: time.Now().Add(time.Hour), deadline: func(time.Time) error { return nil }}
		w := &lateResponse{most: most, late: func() { s.stop = time.Time{} }}
		s.w = w
		n, err := s.writeLines(all)
		got := w.Bytes()
		if n != len(got) || !bytes.HasPrefix(all, got) || got[n-1] != '\n' || n > most+len(long)+pieceBytes {
			t.Errorf("after %d bytes: %d are written, the last ones %q", most, n, got[max(n-10, 0):])
		}
		if (err == nil) != (n == len(all)) {
			t.Errorf("after %d bytes: %d of %d, %v", most, n, len(all), err)
		}
	}
}
