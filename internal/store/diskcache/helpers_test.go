package diskcache

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// A logBuffer records log lines.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// lines returns the number of lines of a level.
func (b *logBuffer) lines(level slog.Level) int {
	return strings.Count(b.String(), "level="+level.String()+" ")
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// open opens a cache that the test closes.
func open(t *testing.T, o Options) *Cache {
	t.Helper()
	if o.Bytes == 0 {
		o.Bytes = MinBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeOnce(t, c) })
	return c
}

func closeOnce(t *testing.T, c *Cache) {
	t.Helper()
	select {
	case <-c.stop:
		return
	default:
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// reopen closes the cache and opens it with the same options.
func reopen(t *testing.T, c *Cache) *Cache {
	t.Helper()
	closeOnce(t, c)
	return open(t, c.options)
}

// written blocks until the queue is empty.
func written(t *testing.T, c *Cache) {
	t.Helper()
	testwait.Equal(t, "pages that wait to be written", 0, func() int64 { return c.Stats().Queued })
}

// A testPage is a page of the n-th object of a block.
type testPage struct {
	block, file int
	page        uint32
}

func (p testPage) object() Object {
	return testBlock(p.block).Object(int64(p.block), fmt.Sprintf("chunks/%06d", p.file))
}

func testBlock(n int) Block { return BlockOf(fmt.Sprintf("tenant/block-%d", n)) }

// content returns the content of a page in one of its versions. Some are shorter than PageSize.
func (p testPage) content(version int) []byte {
	rng := rand.New(rand.NewPCG(uint64(p.block)<<32|uint64(p.file), uint64(p.page)<<32|uint64(version)))
	data := make([]byte, PageSize)
	if rng.IntN(4) == 0 {
		data = data[:rng.IntN(PageSize)]
	}
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return data
}

func (p testPage) set(c *Cache, version int) { c.Set(p.object(), p.page, p.content(version)) }

// get reads the page and reports whether it is in the cache. It fails the test if the content is that of no version
// below versions.
func (p testPage) get(t *testing.T, c *Cache, versions int) bool {
	t.Helper()
	dst := make([]byte, PageSize)
	n, ok := c.Get(p.object(), p.page, dst)
	if !ok {
		return false
	}
	for v := range versions {
		if bytes.Equal(dst[:n], p.content(v)) {
			return true
		}
	}
	t.Fatalf("%+v: %d bytes of another page", p, n)
	return false
}

func somePages(blocks, files, pages int) []testPage {
	var all []testPage
	for b := range blocks {
		for f := range files {
			for p := range pages {
				all = append(all, testPage{b, f, uint32(p)})
			}
		}
	}
	return all
}

// fill stores pages, and waits so that none is dropped.
func fill(t *testing.T, c *Cache, pages []testPage) {
	t.Helper()
	for i, p := range pages {
		if i%100 == 99 {
			written(t, c)
		}
		p.set(c, 0)
	}
	written(t, c)
}

// hits returns the number of pages that the cache has.
func hits(t *testing.T, c *Cache, pages []testPage) (n int) {
	t.Helper()
	for _, p := range pages {
		if p.get(t, c, 1) {
			n++
		}
	}
	return n
}

func pagesFile(c *Cache) string { return filepath.Join(c.options.Dir, pagesName) }

// A fakeDisk is a file whose writes can be made to fail, stop or wait.
type fakeDisk struct {
	storage
	mu     sync.Mutex
	failed error         // result of writes
	once   bool          // only the next write fails
	left   int           // writes until all are lost, as after kill -9; negative: none is
	torn   bool          // half of the last write arrives
	gate   chan struct{} // writes wait until it is closed; nil: they do not
}

func (d *fakeDisk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	gate, failed, left := d.gate, d.failed, d.left
	if left > 0 {
		d.left--
	}
	if d.once {
		d.failed, d.once = nil, false
	}
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	switch {
	case failed != nil:
		return 0, failed
	case left == 0 && d.torn:
		d.torn = false
		_, err := d.storage.WriteAt(p[:len(p)/2], off)
		return len(p), err
	case left == 0:
		return len(p), nil
	}
	return d.storage.WriteAt(p, off)
}

func (d *fakeDisk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
}

// on returns the option that puts the disk below a cache.
func (d *fakeDisk) on(f *os.File) storage {
	d.storage = f
	return d
}

var _ io.ReaderAt = (*fakeDisk)(nil)
