package plancache

import (
	"container/list"
	"crypto/sha256"
	"fmt"

	"vitess.io/vitess/go/vt/sqlparser"
)

// Options are the capacity of the cache and the fixes that it has.
type Options struct {
	Capacity int64 // in bytes, by the sizes that plans report

	SizeClasses bool // round sizes up to size classes
	Detach      bool // copy names out of the statement
	HashKeys    bool // hash keys without concatenating them
}

// A Cache is an LRU cache of plans. It must not be used concurrently.
type Cache struct {
	opts    Options
	parser  *sqlparser.Parser
	bytes   int64
	order   *list.List // of *entry, most recently used first
	entries map[key]*list.Element
}

// A key is the hash of a plan's key.
type key [sha256.Size]byte

type entry struct {
	key  key
	plan *Plan
	size int64
}

// New returns an empty cache.
func New(o Options) (*Cache, error) {
	parser, err := sqlparser.New(sqlparser.Options{MySQLServerVersion: "8.0.30"})
	if err != nil {
		return nil, fmt.Errorf("make parser: %w", err)
	}
	return &Cache{opts: o, parser: parser, order: list.New(), entries: make(map[key]*list.Element)}, nil
}

// Key returns the key of the statement's plan.
func (c *Cache) Key(schema, sql string) [sha256.Size]byte {
	if !c.opts.HashKeys {
		return sha256.Sum256([]byte(schema + "@primary:" + sql))
	}
	h := sha256.New()
	h.Write([]byte(schema))
	h.Write([]byte("@primary:"))
	var piece [1024]byte
	for rest := sql; rest != ""; {
		n := copy(piece[:], rest)
		h.Write(piece[:n])
		rest = rest[n:]
	}
	return key(h.Sum(nil))
}

// Has reports whether the statement's plan is in the cache.
func (c *Cache) Has(schema, sql string) bool { return c.entries[c.Key(schema, sql)] != nil }

// Plan returns the statement's plan. On a miss it builds and caches it.
func (c *Cache) Plan(schema, sql string) (*Plan, error) {
	k := c.Key(schema, sql)
	if e := c.entries[k]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*entry).plan, nil
	}
	p, err := newPlan(c.parser, sql, c.opts.Detach)
	if err != nil {
		return nil, err
	}
	e := &entry{k, p, p.CachedSize(c.opts.SizeClasses)}
	c.entries[k] = c.order.PushFront(e)
	for c.bytes += e.size; c.bytes > c.opts.Capacity && c.order.Len() > 1; {
		last := c.order.Remove(c.order.Back()).(*entry)
		delete(c.entries, last.key)
		c.bytes -= last.size
	}
	return p, nil
}

// Bytes returns the accounted size of the cache.
func (c *Cache) Bytes() int64 { return c.bytes }

// Len returns the number of plans in the cache.
func (c *Cache) Len() int { return c.order.Len() }
