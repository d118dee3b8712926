package web

import (
	"net/url"
	"sync"
	"time"
)

const (
	// cacheFor is how long a page is reused for equal requests.
	cacheFor = time.Second

	// cacheEntries and cacheBytes bound the cached pages.
	cacheEntries = 64
	cacheBytes   = 8 << 20
)

// A pageCache renders a page at most once per second, however many clients request it. It drops a page after
// that second, so an idle server keeps none.
type pageCache struct {
	mu      sync.Mutex
	entries map[string]*cached
	bytes   int
}

// A cached page is rendered under its lock.
type cached struct {
	mu   sync.Mutex
	made time.Time // zero: not rendered yet
	body []byte
}

// cacheKey returns the cache key of a page, which depends on the role of the account and its access to
// statement texts.
func cacheKey(v *view) string {
	peer := v.account.Role.String() + " "
	if v.texts {
		peer += "texts "
	}
	q := url.Values(v.query)
	return peer + v.r.URL.Path + "?" + q.Encode()
}

// page returns the page under a key, and renders it again if it is older than cacheFor. Errors are not
// shared: each waiting request renders the page itself.
func (c *pageCache) page(key string, now func() time.Time, fill func() ([]byte, error)) ([]byte, error) {
	e := c.entry(key)
	if e == nil {
		return fill() // the cache is full
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

// entry returns the entry of a key, a new one if there is room, or nil.
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

// keep stores a page until cacheFor has passed.
func (c *pageCache) keep(key string, e *cached, body []byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[key] != e {
		return // the error of another request dropped it
	}
	c.bytes += len(body) - len(e.body)
	e.body, e.made = body, now
	if c.bytes > cacheBytes {
		c.forget(key, e)
		return
	}
	time.AfterFunc(cacheFor, func() { c.expire(key, e, now) })
}

// expire drops a page unless it was rendered again.
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

// forget removes an entry. The caller holds c.mu. A request that waits for the entry still finds its page in
// it.
func (c *pageCache) forget(key string, e *cached) {
	c.bytes -= len(e.body)
	delete(c.entries, key)
}

// HeapBytes returns the bytes charged for pages: the cached ones.
func (s *Server) HeapBytes() int64 {
	c := &s.pages.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.bytes)
}
