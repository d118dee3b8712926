package web

import (
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cacheFor is how long an answer serves all who ask the same.
	cacheFor = time.Second

	// cacheEntries and cacheBytes bound what is kept meanwhile.
	cacheEntries = 64
	cacheBytes   = 8 << 20
)

// A pageCache has a page made once a second, however many look at it. What it keeps goes after that
// second: nothing is held when nobody looks.
type pageCache struct {
	mu      sync.Mutex
	entries map[string]*cached
	bytes   int
}

// A cached page is made by who holds its lock.
type cached struct {
	mu   sync.Mutex
	made time.Time // zero: not yet
	body []byte
}

// cacheKey tells apart what is shown to whom.
func cacheKey(v *view) string {
	who := v.account.Role.String() + " "
	if v.texts {
		who += "texts "
	}
	q := url.Values(v.query)
	return who + v.r.URL.Path + "?" + q.Encode()
}

// answer is the page under a key, made anew when it is older than a second. An error is nobody
// else's: whoever waits tries for itself.
func (c *pageCache) answer(key string, now func() time.Time, fill func() ([]byte, error)) ([]byte, error) {
	e := c.entry(key)
	if e == nil {
		return fill() // so many different pages at once are not kept
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.made.IsZero() && now().Sub(e.made) < cacheFor {
		return e.body, nil
	}
	body, err := fill()
	if err != nil {
		c.drop(key, e)
		return nil, err
	}
	c.keep(key, e, body, now())
	return body, nil
}

// entry is the entry of a key, a new one if there is room.
func (c *pageCache) entry(key string) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil && len(c.entries) < cacheEntries {
		if c.entries == nil {
			c.entries = map[string]*cached{}
		}
		e = &cached{}
		c.entries[key] = e
	}
	return e
}

// keep notes a page until its second is over.
func (c *pageCache) keep(key string, e *cached, body []byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] != e {
		return // it was dropped by another's error
	}
	c.bytes += len(body) - len(e.body)
	e.body, e.made = body, now
	if c.bytes > cacheBytes {
		c.forget(key, e)
		return
	}
	time.AfterFunc(cacheFor, func() { c.expire(key, e, now) })
}

// expire drops a page that was not made anew.
func (c *pageCache) expire(key string, e *cached, made time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] == e && e.made.Equal(made) {
		c.forget(key, e)
	}
}

func (c *pageCache) drop(key string, e *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] == e {
		c.forget(key, e)
	}
}

// forget is called with the lock held. Who waits for the entry still finds its page in it.
func (c *pageCache) forget(key string, e *cached) {
	c.bytes -= len(e.body)
	delete(c.entries, key)
}

// templateBytes is what the templates of all pages take of the heap, from the first page on, as TestTemplateBytes finds it.
const templateBytes = 1356 << 10

// templatesMade says whether they do.
var templatesMade atomic.Bool //nolint:gochecknoglobals // as the templates are

// HeapBytes is what pages hold: their templates from the first look on, and for a second what was shown.
func (s *Server) HeapBytes() int64 {
	s.cache.mu.Lock()
	held := int64(s.cache.bytes)
	s.cache.mu.Unlock()
	if templatesMade.Load() {
		held += templateBytes
	}
	return held
}
