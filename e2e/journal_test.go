//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
)

const drillClients = 4

// A journal is the clients' record of their writes.
type journal struct {
	next  atomic.Int64 // number of the last write
	clock atomic.Int64 // incremented by each event
	acks  atomic.Int64
	end   context.CancelFunc
	wait  sync.WaitGroup
	t     *testing.T

	mu      sync.Mutex
	writes  map[int64]*journaled
	errors  map[string]int
	longest time.Duration // of a write
}

// A journaled write has the clock's time of its start and, unless its client got an error, of its
// acknowledgment.
type journaled struct {
	client       int
	counts       bool // it also increments the client's counter
	begun, acked int64
}

// newJournal starts clients that write through a gateway until stop.
func newJournal(t *testing.T, addr string) *journal {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	j := &journal{t: t, end: cancel, writes: make(map[int64]*journaled), errors: make(map[string]int)}
	for client := range drillClients {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = testmysql.AppUser, testmysql.Password, "tcp", addr, "drl"
		cfg.Logger, cfg.InterpolateParams, cfg.Timeout = silent{}, client%2 == 0, 10*time.Second
		connector, err := mysql.NewConnector(cfg)
		must(t, err)
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		j.wait.Go(func() { j.write(ctx, db, client) })
	}
	return j
}

// stop stops the clients after their current writes.
func (j *journal) stop() {
	j.end()
	j.wait.Wait()
}

func (j *journal) write(ctx context.Context, db *sql.DB, client int) {
	pace := time.NewTicker(3 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		id := j.next.Add(1)
		w := &journaled{client: client, counts: id%3 == 0, begun: j.clock.Add(1)}
		j.mu.Lock()
		j.writes[id] = w
		j.mu.Unlock()
		began := time.Now()
		err := writeOne(db, id, w)
		took := time.Since(began)
		j.mu.Lock()
		j.longest = max(j.longest, took)
		if err == nil {
			w.acked = j.clock.Add(1)
			j.acks.Add(1)
		} else {
			j.errors[err.Error()]++
		}
		j.mu.Unlock()
	}
}

// writeOne inserts a row that names its server, alone or with an increment in a transaction.
func writeOne(db *sql.DB, id int64, w *journaled) error {
	const insert = "insert into acked values (?, ?, @@port, ?)"
	body := strings.Repeat("x", int(id%100))
	if !w.counts {
		_, err := db.Exec(insert, id, w.client, body)
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if _, err := tx.Exec(insert, id, w.client, body); err != nil {
		return err
	}
	if _, err := tx.Exec("update counter set n = n + 1 where client = ?", w.client); err != nil {
		return err
	}
	return tx.Commit()
}

// awaitAcked waits until n more writes are acknowledged.
func (j *journal) awaitAcked(n int64) {
	j.t.Helper()
	before := j.acks.Load()
	eventually(j.t, fmt.Sprintf("%d more writes", n), func() bool { return j.acks.Load() >= before+n })
}

// counted returns the number of a client's acknowledged increments, and of those with an unknown outcome.
func (j *journal) counted(client int) (sure, perhaps int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.writes {
		switch {
		case w.client != client || !w.counts:
		case w.acked > 0:
			sure++
		default:
			perhaps++
		}
	}
	return sure, perhaps
}
