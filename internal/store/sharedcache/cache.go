package sharedcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/gomemcache/memcache"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/store/diskcache"
)

// Options configure a Cache. Servers, Bucket and Log are required.
type Options struct {
	Servers []string // host:port, each once; host names are resolved for each connection
	Bucket  Bucket
	Timeout time.Duration // of one call, including the connection; default: DefaultTimeout
	Retry   time.Duration // pause after failures of a server; default: DefaultRetry
	Log     *slog.Logger
}

// Defaults of Options.
const (
	DefaultTimeout = 100 * time.Millisecond
	DefaultRetry   = 10 * time.Second
)

// Bounds of memory.
const (
	batchPages = 16  // in one call
	maxBatches = 32  // concurrent calls that read: 8.3 MiB
	maxQueued  = 512 // pages that wait to be written: 9 MiB
)

// A Cache is a client of memcached servers. It is safe for concurrent use. Only Get waits for a server.
type Cache struct {
	options Options
	servers []*server
	batches pool[batch]
	writes  pool[insertion]

	queue  chan *insertion
	stop   chan struct{}
	writer sync.WaitGroup

	counts counts
}

// An insertion is a page to be written.
type insertion struct {
	object diskcache.Object
	page   uint32
	value  []byte // in data
	data   [valueSize]byte
}

// ValidateServers returns an error if the addresses are not distinct ones of the form host:port.
func ValidateServers(servers []string) error {
	for i, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			return fmt.Errorf("memcached server %q: want host:port", s)
		}
		if slices.Contains(servers[:i], s) {
			return fmt.Errorf("memcached server %s is given twice", s)
		}
	}
	return nil
}

// Open returns a cache in the servers. It does not connect to them.
func Open(o Options) (*Cache, error) {
	if len(o.Servers) == 0 {
		return nil, errors.New("a shared cache requires a memcached server")
	}
	if err := ValidateServers(o.Servers); err != nil {
		return nil, err
	}
	o.Timeout, o.Retry = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Retry, DefaultRetry)
	c := &Cache{options: o, queue: make(chan *insertion, maxQueued), stop: make(chan struct{})}
	c.batches.init(maxBatches)
	c.writes.init(maxQueued)
	for _, name := range o.Servers {
		c.servers = append(c.servers, newServer(name, &c.options))
	}
	c.writer.Go(c.run)
	return c, nil
}

// Close disconnects from the servers. Pages that wait to be written are dropped. Get must not be called
// concurrently with Close or after it.
func (c *Cache) Close() error {
	close(c.stop)
	c.writer.Wait()
	for _, s := range c.servers {
		s.close()
	}
	return nil
}

// Get calls visit, in the caller's goroutine, for each of the pages that a server has. A page shorter than
// PageSize states that the object ends there. data is valid during the call. After a call of a server that failed
// or was slow, Get does not call that server again.
func (c *Cache) Get(ctx context.Context, o diskcache.Object, pages []uint32, visit func(page uint32, data []byte)) {
	for _, s := range c.servers {
		for next := 0; next < len(pages); {
			next = c.getBatch(ctx, s, o, pages, next, visit)
		}
	}
}

// getBatch reads those of pages[from:] that are on the server, as many as fit in a batch. It returns the index after
// the last page considered, which after a failed or slow call is the end.
func (c *Cache) getBatch(ctx context.Context, s *server, o diskcache.Object, pages []uint32, from int, visit func(uint32, []byte)) (next int) {
	b := c.batches.get()
	if b == nil {
		return c.skip(s, o, pages, from)
	}
	defer c.batches.put(b)
	b.n, b.used = 0, 0
	for next = from; next < len(pages) && b.n < batchPages; next++ {
		if c.pick(o, pages[next]) == s {
			b.pages[b.n] = pages[next]
			b.n++
		}
	}
	if b.n > 0 && !c.read(ctx, s, o, b, visit) {
		return c.skip(s, o, pages, next)
	}
	return next
}

// skip counts those of pages[from:] that are on the server, and returns the end.
func (c *Cache) skip(s *server, o diskcache.Object, pages []uint32, from int) (next int) {
	for _, p := range pages[from:] {
		if c.pick(o, p) == s {
			c.counts.skipped.Add(1)
		}
	}
	return len(pages)
}

// read reads the pages of a batch and visits those that pass their check. It returns false if the call failed or was
// slow.
func (c *Cache) read(ctx context.Context, s *server, o diskcache.Object, b *batch, visit func(uint32, []byte)) bool {
	keys := c.keysOf(o, b)
	items, err := s.get(ctx, keys, b)
	n := &c.counts
	for i, key := range keys {
		item := items[key]
		if item == nil {
			switch {
			case err == nil || errors.Is(err, errSlow):
				n.misses.Add(1)
			case errors.Is(err, errPaused) || errors.Is(err, context.Canceled):
				n.skipped.Add(1)
			default:
				n.failed.Add(1)
			}
			continue
		}
		data, ok := c.decode(item.Value, o, b.pages[i])
		if !ok {
			n.damaged.Add(1)
			n.misses.Add(1)
			continue
		}
		n.hits.Add(1)
		n.bytesRead.Add(uint64(len(data)))
		visit(b.pages[i], data)
	}
	return err == nil
}

// keysOf returns the keys of a batch, which are parts of one string.
func (c *Cache) keysOf(o diskcache.Object, b *batch) []string {
	b.text = b.text[:0]
	keys := make([]string, b.n)
	var ends [batchPages]int
	for i := range keys {
		b.text = c.appendKey(b.text, o, b.pages[i])
		ends[i] = len(b.text)
	}
	text, start := string(b.text), 0
	for i := range keys {
		keys[i], start = text[start:ends[i]], ends[i]
	}
	return keys
}

// Set stores a page later: a copy is written by another goroutine. A page shorter than PageSize states that the
// object ends there. Set does not wait: without room in the queue it drops the page, as it does while the server
// is not called.
func (c *Cache) Set(o diskcache.Object, page uint32, data []byte) {
	if len(data) > PageSize {
		panic(fmt.Sprintf("BUG: a page of %d bytes", len(data)))
	}
	w := c.writes.get()
	if w == nil {
		c.counts.dropped.Add(1)
		return
	}
	w.object, w.page = o, page
	w.value = c.encode(&w.data, o, page, data)
	c.counts.queued.Add(int64(len(w.value)))
	c.queue <- w // has room for all insertions that exist
}

// run writes insertions until the cache is closed.
func (c *Cache) run() {
	for {
		select {
		case <-c.stop:
			return
		case w := <-c.queue:
			c.write(w)
		}
	}
}

func (c *Cache) write(w *insertion) {
	key := string(c.appendKey(make([]byte, 0, 96), w.object, w.page))
	err := panics.Guard(func() error {
		return c.pick(w.object, w.page).set(&memcache.Item{Key: key, Value: w.value})
	})
	n := &c.counts
	switch {
	case err == nil:
		n.stored.Add(1)
		n.bytesWritten.Add(uint64(len(w.value) - headerSize))
	case errors.Is(err, errPaused):
		n.dropped.Add(1)
	default:
		n.writesFailed.Add(1)
	}
	n.queued.Add(-int64(len(w.value)))
	c.writes.put(w)
}

// A pool keeps values for reuse and bounds their number.
type pool[T any] struct {
	spare chan *T
	made  atomic.Int64
}

func (p *pool[T]) init(most int) { p.spare = make(chan *T, most) }

// get returns an idle value, nil if all are in use.
func (p *pool[T]) get() *T {
	select {
	case v := <-p.spare:
		return v
	default:
	}
	if p.made.Add(1) > int64(cap(p.spare)) {
		p.made.Add(-1)
		return nil
	}
	return new(T)
}

func (p *pool[T]) put(v *T) { p.spare <- v }

// count returns the number of values allocated.
func (p *pool[T]) count() int64 { return min(p.made.Load(), int64(cap(p.spare))) }
