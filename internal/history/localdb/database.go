package localdb

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// errReopening fails queries while the database is closed.
var errReopening = errors.New("query history: the database is being reopened after a failed write: repeat the query")

// A Database is the TSDB of an archive. After a failed write it is replaced, when no querier is open: closing
// it unmaps the chunks that queriers read.
type Database struct {
	mu      sync.Mutex
	db      *tsdb.DB
	readers int
	closing bool
	idle    chan struct{} // non-nil while Replace waits for readers

	first struct { // guarded by mu: the time of the first sample of db's head, if a gap is before it
		db          *tsdb.DB
		least, time int64
	}
}

var _ storage.Queryable = (*Database)(nil)

// NewDatabase returns a Database that has db open.
func NewDatabase(db *tsdb.DB) *Database { return &Database{db: db} }

// Current returns the open database, or the one that was closed last. Statistics and block metas can be read
// in both cases; use Querier for samples.
func (d *Database) Current() *tsdb.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.db
}

// Querier implements storage.Queryable. It fails while the database is being replaced.
func (d *Database) Querier(mint, maxt int64) (storage.Querier, error) {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return nil, errReopening
	}
	db := d.db
	d.readers++
	d.mu.Unlock()
	q, err := db.Querier(mint, maxt)
	if err != nil {
		d.release()
		return nil, err
	}
	return &leasedQuerier{Querier: q, release: sync.OnceFunc(d.release)}, nil
}

func (d *Database) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readers--; d.readers == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}

// Replace closes the database, unless an earlier call has, and opens another one. After an error queries fail
// until a later call succeeds.
func (d *Database) Replace(open func() (*tsdb.DB, error)) error {
	d.mu.Lock()
	d.closing = true
	var idle chan struct{}
	if d.readers > 0 {
		idle = make(chan struct{})
		d.idle = idle
	}
	d.mu.Unlock()
	if idle != nil {
		<-idle // queries have deadlines
	}
	closeErr := CloseDB(d.db)
	db, err := open()
	if err != nil {
		return errors.Join(closeErr, err)
	}
	d.mu.Lock()
	d.db, d.closing = db, false
	d.mu.Unlock()
	return nil
}

// CloseDB closes a database. It recovers the panic by which the TSDB reports a chunk that it could not write.
func CloseDB(db *tsdb.DB) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("close the database: %v", r)
		}
	}()
	return db.Close()
}

// A leasedQuerier keeps its database open until it is closed.
type leasedQuerier struct {
	storage.Querier
	release func()
}

// Close implements storage.Querier.
func (q *leasedQuerier) Close() error {
	defer q.release()
	return q.Querier.Close()
}
