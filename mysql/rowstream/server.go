package rowstream

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Server is a source of tables: a MySQL-compatible server (Direct), or a process beside it that sends its
// rows (wire.Remote). It is safe for concurrent use.
type Server interface {
	// Addr returns the server's address, for messages and to distinguish servers.
	Addr() string

	// Identity returns an identifier of the server that is independent of its address: MySQL's server_uuid, and
	// MariaDB's server_uid, or its host and port where it has none. A copy of a data directory may have that of the original.
	Identity(ctx context.Context) (string, error)

	// Describe returns the description of a table.
	Describe(ctx context.Context, schema, name string) (*Table, error)

	// Snapshot takes one view of the tables for several readers.
	Snapshot(ctx context.Context, workers int, tables []*Table) (View, error)

	// ShortView takes a view of one table for one reader, without a lock on the server: it sees everything
	// that any earlier view has seen. It has no Position. After limit it expires, whatever uses it, with
	// ErrViewExpired, so that its undo log and metadata locks are not kept longer. If the table differs from
	// t, the error is ErrAltered; the table cannot be altered until the view ends. identity is the Identity
	// of an earlier view: a server with another one is refused. Empty: any server is accepted.
	ShortView(ctx context.Context, identity string, t *Table, limit time.Duration) (View, error)

	// Close closes the connections that do not belong to a view.
	Close() error
}

// A View is a server's tables at one point in time.
type View interface {
	How() string      // how it was taken, for messages
	Position() string // of the binary log; empty if the server does not report it
	Identity() string // of the server; empty if it is unknown

	// Reader returns a reader, by number from 0. A reader must not be used concurrently.
	Reader(worker int) ViewReader

	Close() error
}

// A Reader cuts and reads chunks, one at a time.
type Reader interface {
	// Cut cuts the chunk with the Number and After of from, of about the given bytes. A table must be cut by
	// one reader at a time. The last chunk's Upto is nil; it reaches the end of the table, or from.Upto
	// unless that is nil.
	Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (Chunk, error)

	// Read returns a chunk's rows in the order of the key, in batches. A batch is valid until the next one.
	// An error is the last element, without a batch. A loop that stops early may close the reader's
	// connection, and with it the view: to keep the view, read all rows. Neither rows nor batches allocate.
	Read(ctx context.Context, t *Table, c Chunk, o ReadOptions) iter.Seq2[*Batch, error]
}

// A ViewReader is a Reader of one view. The server computes its sums, so that rows are not transferred.
type ViewReader interface {
	Reader

	// SumChunk computes the checksum of the rows of a chunk.
	SumChunk(ctx context.Context, t *Table, c Chunk, o SumOptions) (Checksum, error)

	// SumRows returns the keys and checksums of a chunk's rows, in the order of the key. A key is valid until
	// the next one. An error is the last element.
	SumRows(ctx context.Context, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error]

	// LastKey returns the last key of a table in the order of its chunks; nil: the table is empty.
	LastKey(ctx context.Context, t *Table) (mysqlwire.TextRow, error)
}

// A Direct reads over direct connections to the server. It is safe for concurrent use.
type Direct struct {
	cfg mysqlconn.Config

	mu sync.Mutex
	c  *mysqlconn.Client // for descriptions; nil when it was lost; guarded by mu
}

// OpenDirect connects to a server.
func OpenDirect(ctx context.Context, cfg mysqlconn.Config) (*Direct, error) {
	c, err := session.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Direct{cfg: cfg, c: c}, nil
}

// Config returns the configuration of the server's connections.
func (d *Direct) Config() mysqlconn.Config { return d.cfg }

// Addr returns the server's address.
func (d *Direct) Addr() string { return d.cfg.Addr }

// Use calls do with the connection for descriptions, which is reestablished if it was lost. Concurrent calls
// are serialized.
func (d *Direct) Use(ctx context.Context, do func(c *mysqlconn.Client) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.connect(ctx)
	if err != nil {
		return err
	}
	if err = do(d.c); err != nil {
		// Servers check global privileges against those at login: a connection from before a GRANT would be
		// refused for as long as it lives.
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

// Identity identifies the server.
func (d *Direct) Identity(ctx context.Context) (identity string, err error) {
	err = d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		identity, err = session.ServerIdentity(ctx, c)
		return err
	})
	return identity, err
}

// Ping returns an error if the server does not respond.
func (d *Direct) Ping(ctx context.Context) error {
	return d.Use(ctx, func(*mysqlconn.Client) error { return nil })
}

// connect ensures that the connection works, or opens a new one.
func (d *Direct) connect(ctx context.Context) error {
	if d.c != nil && d.c.Ping(ctx) != nil {
		_ = d.c.Close() // it is lost
		d.c = nil
	}
	if d.c == nil {
		c, err := session.Connect(ctx, d.cfg)
		if err != nil {
			return err
		}
		d.c = c
	}
	return nil
}

// Snapshot is OpenSnapshot.
func (d *Direct) Snapshot(ctx context.Context, workers int, tables []*Table) (View, error) {
	return OpenSnapshot(ctx, d.cfg, workers, tables)
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
