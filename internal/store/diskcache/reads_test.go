package diskcache

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A readDisk is a file of which reads fail from the n-th on.
type readDisk struct {
	storage
	left   int // reads; negative: none fails
	failed error
}

func (d *readDisk) ReadAt(p []byte, off int64) (int, error) {
	if d.left == 0 {
		return 0, d.failed
	}
	d.left--
	return d.storage.ReadAt(p, off)
}

// TestFailedReads has the header or the page of a lookup not read: it is a miss and an error, not a damaged page, and the page is
// not looked up again. A cache whose table is not read at the start does without the file.
func TestFailedReads(t *testing.T) {
	broken := errors.New("broken disk")
	for left, part := range []string{"the header", "the page"} {
		d := &readDisk{left: -1, failed: broken}
		c := open(t, Options{Dir: t.TempDir(), storage: func(f *os.File) storage { d.storage = f; return d }})
		pages := somePages(1, 1, 2)
		fill(t, c, pages)
		d.left = left
		if pages[0].get(t, c, 1) {
			t.Errorf("%s: a page was read", part)
		}
		if s := c.Stats(); s.Errors != 1 || s.Damaged != 0 || s.Entries != 1 {
			t.Errorf("%s: %+v", part, s)
		}
		d.left = -1
		if pages[0].get(t, c, 1) || !pages[1].get(t, c, 1) {
			t.Errorf("%s: afterwards", part)
		}
	}
	var log logBuffer
	c, err := Open(Options{Dir: t.TempDir(), Bytes: MinBytes, Log: log.logger(), storage: func(f *os.File) storage { return &readDisk{storage: f, failed: broken} }})
	if err == nil {
		closeOnce(t, c)
		if !strings.Contains(log.String(), broken.Error()) {
			t.Errorf("log:\n%s", &log)
		}
	} else if !errors.Is(err, broken) {
		t.Errorf("at the start: %v", err)
	}
}
