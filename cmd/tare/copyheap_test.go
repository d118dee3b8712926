package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// heapRows is the number of rows of the tables that are copied.
const heapRows = 120_000

// newItems creates a table with rows.
func newItems(t *testing.T, s *testmysql.Server) {
	t.Helper()
	must(t, s.Exec("CREATE DATABASE shop",
		"CREATE TABLE shop.items (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(100) NOT NULL, n INT NOT NULL, KEY n (n))",
		fmt.Sprintf("INSERT INTO shop.items (name, n) SELECT CONCAT('item ', seq, REPEAT('x', seq %% 60)), seq %% 1000 FROM seq_1_to_%d", heapRows)))
}

// changeItems changes rows of the table over several connections until stop is called.
func changeItems(t *testing.T, s *testmysql.Server) (stop func()) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(testmysql.AppUser))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for n := range 2 {
		clients.Go(func() {
			for id := n; ctx.Err() == nil; id = (id + 7919) % heapRows {
				if _, err := db.ExecContext(ctx, "UPDATE shop.items SET n = n + 1 WHERE id BETWEEN ? AND ?", id, id+50); err != nil && ctx.Err() == nil && !isServerError(err) {
					t.Errorf("change rows: %v", err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		testwait.Group(t, "the clients", &clients)
		must(t, db.Close())
	})
}

// awaitChanges waits until all rows were copied, and many changes of them.
func (s *served) awaitChanges(t *testing.T) {
	t.Helper()
	testwait.UntilState(t, "rows and changes to be copied", func() (string, bool) {
		families := s.metrics(t)
		changes := 0.0
		for _, m := range families["tare_copy_changes_total"].GetMetric() {
			changes += m.GetCounter().GetValue()
		}
		rows := 0.0
		if m := families["tare_copy_rows_total"].GetMetric(); len(m) > 0 {
			rows = m[0].GetCounter().GetValue()
		}
		return fmt.Sprintf("%.0f rows, %.0f changes", rows, changes), rows >= heapRows && changes >= 50_000
	})
}

// TestCopyOwnersAreTheHeap copies a table and follows its changes: the owners' bytes and the base measured at start equal the heap in
// use while clients change rows, and after that.
func TestCopyOwnersAreTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("copies many rows")
	}
	for _, tls := range []string{"disabled", "required"} {
		t.Run("TLS "+tls, func(t *testing.T) {
			source, target := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithTLS()), testmysql.Start(t, testmysql.WithTLS())
			newItems(t, source)
			url := func(s *testmysql.Server) string {
				return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
			}
			s := startTare(t, "copy", "--from", url(source), "--to", url(target), "--from-tls", tls, "--to-tls", tls, "--tables", "shop.items", "--follow",
				"--json", "--control-socket", filepath.Join(t.TempDir(), "control.sock"))
			stop := changeItems(t, source)
			defer stop()
			s.awaitChanges(t)
			s.ownersAreTheHeap(t, "loaded", heapOff)
			stop()
			s.ownersAreTheHeap(t, "after the load", heapOff)
		})
	}
}

// TestAlterOwnersAreTheHeap alters a table by a copy of its rows, whose swap is postponed: the owners' bytes and the base measured at
// start equal the heap in use while clients change rows, and after that.
func TestAlterOwnersAreTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("copies many rows")
	}
	server := testmysql.Start(t, testmysql.WithBinlog())
	newItems(t, server)
	s := startTare(t, "alter", "--on", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+server.Addr, "--table", "shop.items", "--always-copy", "--postpone-cutover",
		"--json", "--control-socket", filepath.Join(t.TempDir(), "control.sock"), "ADD COLUMN note VARCHAR(20)")
	stop := changeItems(t, server)
	defer stop()
	s.awaitChanges(t)
	s.ownersAreTheHeap(t, "loaded", heapOff)
	stop()
	s.ownersAreTheHeap(t, "after the load", heapOff)
}
