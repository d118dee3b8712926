package plancache

import (
	"container/list"
	"crypto/sha256"
	"fmt"

	"vitess.io/vitess/go/vt/sqlparser"
)

// Options say how much the cache holds, and which of the fixes it has.
type Options struct {
	Capacity int64 // bytes, by the sizes that plans say they have

	SizeClasses bool // sizes are rounded up as the allocator does
	Detach      bool // names are copied out of the statement
	HashKeys    bool // keys are hashed as they are, not put together first
}

// A Cache keeps plans, the latest ones used. It belongs to one goroutine.
type Cache struct {
	opts    Options
	parser  *sqlparser.Parser
	bytes   int64
	order   *list.List // of *entry, the latest first
	entries map[key]*list.Element
}

// A key is the hash of what a plan is found by.
type key [sha256.Size]byte

type entry struct {
	key  key
	plan *Plan
	size int64
}

// New makes an empty cache.
func New(o Options) (*Cache, error) {
	parser, err := sqlparser.New(sqlparser.Options{MySQLServerVersion: "8.0.30"})
	if err != nil {
		return nil, fmt.Errorf("make parser: %w", err)
	}
	return &Cache{opts: o, parser: parser, order: list.New(), entries: make(map[key]*list.Element)}, nil
}

// Key is what the statement's plan is found by.
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

// Plan finds the statement's plan, or makes it and keeps it.
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

// Bytes is what the cache says it holds.
func (c *Cache) Bytes() int64 { return c.bytes }

// Len is how many plans the cache holds.
func (c *Cache) Len() int { return c.order.Len() }
