package rowstream

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// A Server is where tables are read: a MySQL-compatible server itself (Direct), or a process
// beside it that sends the rows on (Remote). It is safe for concurrent use.
type Server interface {
	// Addr is the server's address, for people and to tell servers apart.
	Addr() string

	// Identity returns the ServerIdentity of the server.
	Identity(ctx context.Context) (string, error)

	// Describe tells what a table is.
	Describe(ctx context.Context, schema, name string) (*Table, error)

	// Snapshot takes one view of the tables for several readers.
	Snapshot(ctx context.Context, workers int, tables []*Table) (View, error)

	// ShortView takes a view of one table for one reader, without a lock on the server: it sees all that any earlier view
	// has seen. It has no Position. After limit it ends, no matter what reads it, with ErrViewExpired, so that its undo log and
	// metadata locks are not kept for longer. Where the table is not as t describes it, the error is ErrAltered; it cannot be
	// altered until the view ends. identity is the Identity of an earlier view: another server than that one's is refused.
	// Empty: any server will do.
	ShortView(ctx context.Context, identity string, t *Table, limit time.Duration) (View, error)

	// Close closes the connections that are not a view's.
	Close() error
}

// A View is a server's tables as of one moment.
type View interface {
	How() string      // by what means it was taken, for people
	Position() string // of the binary log; empty when the server does not tell
	Identity() string // of the server; empty when it does not identify itself

	// Reader is one of the readers, by number from 0. It is for one goroutine.
	Reader(worker int) ViewReader

	Close() error
}

// A Reader cuts and reads chunks, one at a time.
type Reader interface {
	// Cut cuts the chunk of the Number and After of from, of about the given bytes. One
	// reader at a time cuts a table. The last chunk's Upto is nil; it is the one that reaches the end of the table, or
	// from.Upto unless that is nil.
	Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (Chunk, error)

	// Read returns a chunk's rows in the order of the key, in batches. Each is valid until the next one. An error is the last
	// element, without a batch. A loop that ends early may cost the reader its connection, and so the view: to keep it, read
	// the rest. Neither rows nor batches allocate.
	Read(ctx context.Context, t *Table, c Chunk, o ReadOptions) iter.Seq2[*Batch, error]
}

// A ViewReader is a Reader of one view. Its sums are computed by the server, so that the rows do not travel.
type ViewReader interface {
	Reader

	// SumChunk sums up the rows of a chunk.
	SumChunk(ctx context.Context, t *Table, c Chunk, o SumOptions) (Checksum, error)

	// SumRows returns the keys and sums of a chunk's rows, in the order of the key. A key is valid until the next one. An error is the
	// last element.
	SumRows(ctx context.Context, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error]

	// LastKey returns the last key of a table in the order of its chunks; nil: the table is empty.
	LastKey(ctx context.Context, t *Table) (mysqlwire.TextRow, error)
}

// Direct reads over connections of its own to the server. It is safe for concurrent use.
type Direct struct {
	cfg mysqlconn.Config

	mu sync.Mutex
	c  *mysqlconn.Client // for descriptions; nil when it was lost; guarded by mu
}

// OpenDirect connects to a server.
func OpenDirect(ctx context.Context, cfg mysqlconn.Config) (*Direct, error) {
	c, err := Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Direct{cfg: cfg, c: c}, nil
}

// Config returns the configuration of the server's connections.
func (d *Direct) Config() mysqlconn.Config { return d.cfg }

// Addr is the server's address.
func (d *Direct) Addr() string { return d.cfg.Addr }

// Use calls do with the connection for descriptions, which is made again if it was lost meanwhile. Calls take turns.
func (d *Direct) Use(ctx context.Context, do func(c *mysqlconn.Client) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.connect(ctx)
	if err != nil {
		return err
	}
	if err = do(d.c); err != nil {
		// Servers check global privileges against those of the login: a connection from before a GRANT would be refused for as
		// long as it lives.
		_ = d.c.Close()
		d.c = nil
	}
	return err
}

// Query executes a statement over the connection for descriptions, and calls each with its rows.
func (d *Direct) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	return d.Use(ctx, func(c *mysqlconn.Client) error {
		_, err := c.Query(ctx, sql, each)
		return err
	})
}

// Describe is ReadTable.
func (d *Direct) Describe(ctx context.Context, schema, name string) (t *Table, err error) {
	err = d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		t, err = ReadTable(ctx, c, schema, name)
		return err
	})
	return t, err
}

// Ping reports whether the server answers.
func (d *Direct) Ping(ctx context.Context) error {
	return d.Use(ctx, func(*mysqlconn.Client) error { return nil })
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.c == nil {
		return nil
	}
	return d.c.Close()
}
