package rowstream

import (
	"context"
	"sync"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// A Server is where tables are read: a MySQL-compatible server itself (Direct), or a process
// beside it that sends the rows on (Remote). It is safe for concurrent use.
type Server interface {
	// Addr is the server's address, for people and to tell servers apart.
	Addr() string

	// Describe tells what a table is.
	Describe(ctx context.Context, schema, name string) (*Table, error)

	// Snapshot takes one view of the tables for several readers.
	Snapshot(ctx context.Context, workers int, tables []*Table) (View, error)

	// Close closes the connections that are not a view's.
	Close() error
}

// A View is a server's tables as of one moment.
type View interface {
	How() string      // by what means it was taken, for people
	Position() string // of the binary log; empty when the server does not tell

	// Reader is one of the readers, by number from 0. It is for one goroutine.
	Reader(worker int) Reader

	Close() error
}

// A Reader cuts and reads chunks, one at a time.
type Reader interface {
	// Cut cuts the chunk of the Number and After of from, of about the given bytes. One
	// reader at a time cuts a table. The last chunk's Upto is nil; it is the one that reaches the end of the table, or
	// from.Upto unless that is nil.
	Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (Chunk, error)

	// Read reads a chunk's rows in the order of the key and hands them on in batches, which
	// are valid until the function returns. It answers how many rows the chunk has, of which
	// the plan may have held some back. Per row it does not allocate.
	Read(ctx context.Context, t *Table, c Chunk, o ReadOptions, each func(*Batch) error) (rows int64, err error)
}

// Direct reads over connections of its own to the server. It is safe for concurrent use.
type Direct struct {
	cfg mysqlconn.Config

	mu sync.Mutex
	c  *mysqlconn.Client // for descriptions; nil when it was lost; guarded by mu

	beats beatWriter
}

var _ Server = (*Direct)(nil)

// OpenDirect connects to a server.
func OpenDirect(ctx context.Context, cfg mysqlconn.Config) (*Direct, error) {
	c, err := Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Direct{cfg: cfg, c: c}, nil
}

// Addr is the server's address.
func (d *Direct) Addr() string { return d.cfg.Addr }

// Query executes a statement over the connection for descriptions, and calls each with its rows.
func (d *Direct) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.connect(ctx); err != nil {
		return err
	}
	defer func() { d.failed(err) }()
	_, err = d.c.Query(ctx, sql, each)
	return err
}

// Describe is ReadTable, over a new connection if the one before was lost meanwhile.
func (d *Direct) Describe(ctx context.Context, schema, name string) (_ *Table, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	defer func() { d.failed(err) }()
	return ReadTable(ctx, d.c, schema, name)
}

// Ping reports whether the server answers.
func (d *Direct) Ping(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.connect(ctx)
}

// connect makes sure that the connection works, or opens a new one.
func (d *Direct) connect(ctx context.Context) error {
	if d.c != nil && d.c.Ping(ctx) != nil {
		_ = d.c.Close() // it is lost
		d.c = nil
	}
	if d.c == nil {
		c, err := Connect(ctx, d.cfg)
		if err != nil {
			return err
		}
		d.c = c
	}
	return nil
}

// failed gives up the connection of a call that has failed: servers check global privileges against those of the login, so that a
// connection from before a GRANT would be refused for as long as it lives.
func (d *Direct) failed(err error) {
	if err != nil && d.c != nil {
		_ = d.c.Close() // nothing is expected of it
		d.c = nil
	}
}

// Snapshot is OpenSnapshot.
func (d *Direct) Snapshot(ctx context.Context, workers int, tables []*Table) (View, error) {
	s, err := OpenSnapshot(ctx, d.cfg, workers, tables)
	if err != nil {
		return nil, err // a nil *Snapshot would be a View that is not nil
	}
	return s, nil
}

// Close closes the connection for descriptions.
func (d *Direct) Close() error {
	d.beats.mu.Lock()
	d.beats.close()
	d.beats.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c == nil {
		return nil
	}
	return d.c.Close()
}
