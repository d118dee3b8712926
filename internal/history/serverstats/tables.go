package serverstats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	mysqlsession "github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const (
	maxTables   = 8 // of one request
	keptTables  = 64
	maxIndexes  = 64 // of a table
	tableAge    = time.Minute
	maxRequests = 8 // that wait
)

// A Table has the server's statistics of a table: its estimates.
type Table struct {
	Schema, Name string
	Engine       string
	Rows         uint64
	DataBytes    uint64
	IndexBytes   uint64
	Indexes      []Index
	At           time.Time // of the reading
	Missing      bool      // it does not exist, or the account may not see it
}

// An Index is an index of a table.
type Index struct {
	Name        string
	Unique      bool
	Columns     []string
	Cardinality uint64 // estimated number of distinct values of all columns together; 0: unknown
}

// errBusy is returned if too many requests wait.
var errBusy = errors.New("too many requests for statistics wait")

type tableRequest struct {
	names []string
	done  chan struct{} // closed when the tables are in the cache, or reading failed
}

// Tables returns the statistics of tables, given as schema.table, at most 8 of them and not older than a minute. It waits
// for Run to read them until ctx is done; they are read in any case, for the next call.
func (r *Reader) Tables(ctx context.Context, names []string) ([]Table, error) {
	names = names[:min(len(names), maxTables)]
	if found, ok := r.cachedTables(names); ok {
		return found, nil
	}
	q := tableRequest{names: names, done: make(chan struct{})}
	select {
	case r.requests <- q:
	default:
		return nil, errBusy
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, errors.New("reading takes longer; reload the page")
	}
	found, ok := r.cachedTables(names)
	if !ok {
		return nil, errors.New("the server could not be read")
	}
	return found, nil
}

// cachedTables returns the tables in the cache, and false if one is missing or too old.
func (r *Reader) cachedTables(names []string) ([]Table, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Table, 0, len(names))
	for _, name := range names {
		t, ok := r.tables[name]
		if !ok || r.opts.Now().Sub(t.At) >= tableAge {
			return nil, false
		}
		all = append(all, t)
	}
	return all, true
}

// serve reads the tables of a request.
func (r *Reader) serve(ctx context.Context, q tableRequest) {
	defer close(q.done)
	now := r.opts.Now()
	if _, ok := r.cachedTables(q.names); ok || now.Before(r.resume) {
		return
	}
	read, err := r.readTables(ctx, q.names, now)
	if err != nil {
		r.opts.Log.Debug("statistics of tables unavailable", "reason", reason(err))
		return
	}
	r.keep(q.names, read)
}

// keep stores tables by their names, and removes those read the longest time ago.
func (r *Reader) keep(names []string, read []Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range read {
		r.tables[names[i]] = t
	}
	for len(r.tables) > keptTables {
		oldest := ""
		for name := range r.tables {
			if oldest == "" || r.tables[name].At.Before(r.tables[oldest].At) {
				oldest = name
			}
		}
		delete(r.tables, oldest)
	}
}

func (r *Reader) readTables(ctx context.Context, names []string, now time.Time) ([]Table, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTime)
	defer cancel()
	conn, err := r.client.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer r.client.Release()
	var all []Table
	for _, name := range names {
		schema, table, ok := strings.Cut(name, ".")
		t := Table{Schema: schema, Name: table, At: now, Missing: true}
		if ok {
			if err := readTable(ctx, conn, &t); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// readTable reads the statistics of a table and its indexes.
func readTable(ctx context.Context, conn *mysqlconn.Client, t *Table) error {
	of := " WHERE TABLE_SCHEMA = " + mysqlsession.Quote(t.Schema) + " AND TABLE_NAME = " + mysqlsession.Quote(t.Name)
	var rows, data, index int64
	err := queryRow(ctx, conn, "SELECT ENGINE, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.tables"+of, &t.Engine, &rows, &data, &index)
	if errors.Is(err, errNoRow) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read statistics of a table: %w", err)
	}
	t.Missing = false
	t.Rows, t.DataBytes, t.IndexBytes = uint64(max(rows, 0)), uint64(max(data, 0)), uint64(max(index, 0))
	err = query(ctx, conn, "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, CARDINALITY FROM information_schema.statistics"+of+
		" ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX", t.addColumn)
	if err != nil {
		return fmt.Errorf("read indexes: %w", err)
	}
	return nil
}

// addColumn adds a column to its index.
func (t *Table) addColumn(row mysqlwire.TextRow) error {
	var name, column string
	var many bool
	var cardinality int64
	if err := scan(row, &name, &many, &column, &cardinality); err != nil {
		return err
	}
	n := len(t.Indexes)
	if n == 0 || t.Indexes[n-1].Name != name {
		if n == maxIndexes {
			return nil
		}
		t.Indexes = append(t.Indexes, Index{Name: name, Unique: !many})
		n++
	}
	i := &t.Indexes[n-1]
	if row[2] == nil {
		column = "(expression)"
	}
	i.Columns = append(i.Columns, column)
	i.Cardinality = uint64(max(cardinality, 0))
	return nil
}

// bytes returns the bytes charged for the table.
func (t *Table) bytes() int64 {
	n := 200 + 2*(len(t.Schema)+len(t.Name)) + len(t.Engine)
	for i := range t.Indexes {
		n += 80 + len(t.Indexes[i].Name)
		for _, c := range t.Indexes[i].Columns {
			n += 16 + len(c)
		}
	}
	return int64(n)
}
