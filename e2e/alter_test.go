//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// alterTable returns the statements that create a table with columns of all types and insert a row.
func alterTable(t *testing.T) (create, insert string) {
	text, err := os.ReadFile("testdata/alter-table.sql")
	must(t, err)
	create, insert, _ = strings.Cut(string(text), ";\nINSERT")
	return create, "INSERT" + strings.TrimRight(insert, ";\n")
}

// onAlterServers runs a test on a MariaDB and a MySQL, in a new schema.
func onAlterServers(t *testing.T, schema string, do func(t *testing.T, s *testmysql.Server)) {
	for _, product := range []string{"MariaDB", "MySQL"} {
		t.Run(product, func(t *testing.T) {
			server := (*testmysql.Server)(nil)
			if product == "MySQL" {
				server = mysqlGTID.get(t)
			} else {
				server = testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))
			}
			must(t, server.Exec("DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema+" CHARACTER SET utf8mb4"))
			do(t, server)
		})
	}
}

// An alterWriter writes to a table until it is stopped. counts has what n of each row must be, by id.
type alterWriter struct {
	counts map[int]int
	stop   chan struct{}
	done   sync.WaitGroup
	err    error
	pause  time.Duration // the longest statement
}

// writeAltered starts a writer, which counts rows up, inserts and deletes.
func writeAltered(t *testing.T, db *sql.DB, table, insert string, rows int) *alterWriter {
	w := &alterWriter{counts: make(map[int]int), stop: make(chan struct{})}
	insert = strings.ReplaceAll(insert, "{table}", table)
	for id := 1; id <= rows; id++ {
		_, err := db.Exec(strings.ReplaceAll(insert, "{id}", fmt.Sprint(id)))
		must(t, err)
		w.counts[id] = 0
	}
	w.done.Go(func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for i := 0; w.err == nil; i++ {
			select {
			case <-w.stop:
				return
			case <-pace.C:
			}
			id := 1 + i*7%rows
			began := time.Now()
			switch {
			case i%5 == 3:
				id = rows + i
				if _, w.err = db.Exec(strings.ReplaceAll(insert, "{id}", fmt.Sprint(id))); w.err == nil {
					w.counts[id] = 0
				}
			case i%10 == 4:
				id = rows + i - 1
				if _, w.err = db.Exec("DELETE FROM "+table+" WHERE id = ?", id); w.err == nil {
					delete(w.counts, id)
				}
			default:
				if _, w.err = db.Exec("UPDATE "+table+" SET n = n + 1 WHERE id = ?", id); w.err == nil {
					w.counts[id]++
				}
			}
			w.pause = max(w.pause, time.Since(began))
		}
	})
	return w
}

// end stops the writer, and compares the counters.
func (w *alterWriter) end(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	close(w.stop)
	testwait.Group(t, "the writer to end", &w.done)
	if w.err != nil {
		t.Errorf("the writer: %v", w.err)
	}
	rows, err := db.Query("SELECT id, n FROM " + table)
	must(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var id, count int
		must(t, rows.Scan(&id, &count))
		if want, ok := w.counts[id]; !ok || count != want {
			t.Errorf("row %d: n is %d, want %d (%v)", id, count, want, ok)
		}
		seen++
	}
	must(t, rows.Err())
	if seen != len(w.counts) {
		t.Errorf("%d rows, want %d", seen, len(w.counts))
	}
}

// alterArgs is the command for a table.
func alterArgs(s *testmysql.Server, table, clauses string, more ...string) []string {
	return append([]string{
		"alter", "--on", "mysql://copier:" + testmysql.Password + "@" + s.Addr, "--table", table, clauses, "--always-copy", "--json", "--workers", "2", "--chunk-bytes", "4KiB", "--patience", "30s",
		"--keep-old", "0",
	}, more...)
}

// TestAlterKilled alters a table again and again while a client writes to it, and kills the command at random times, also while the tables
// are swapped. No acknowledged write is lost.
func TestAlterKilled(t *testing.T) {
	rnd := testseed.Rand(t)
	onAlterServers(t, "killed", func(t *testing.T, s *testmysql.Server) {
		create, insert := alterTable(t)
		db := open(t, s.Addr, "killed")
		must(t, s.Exec(strings.ReplaceAll(create, "{table}", "killed.t")))
		w := writeAltered(t, db, "killed.t", insert, 200)
		kills := 0
		for round := range 6 {
			clauses := fmt.Sprintf("MODIFY small %s, ADD COLUMN c%d INT DEFAULT %[2]d", []string{"INT", "BIGINT", "BIGINT NOT NULL"}[round%3], round)
			if round >= 3 {
				clauses = fmt.Sprintf("ADD COLUMN c%d INT DEFAULT %[1]d FIRST", round)
			}
			args := alterArgs(s, "killed.t", clauses, "--control-socket", "off")
			for range 4 {
				kills += alterKilled(t, args, rnd)
			}
			alterToEnd(t, args)
		}
		w.end(t, db, "killed.t")
		t.Logf("%d kills; the longest statement of the client took %v", kills, w.pause)
		var added int
		scan(t, db, "SELECT COUNT(*) FROM killed.t WHERE c0 = 0 AND c1 = 1 AND c2 = 2 AND c3 = 3 AND c4 = 4 AND c5 = 5", &added)
		if added != len(w.counts) {
			t.Errorf("%d rows have all of the columns, want %d", added, len(w.counts))
		}
	})
}

// alterKilled kills a command: after some events, or some milliseconds after all rows were compared.
func alterKilled(t *testing.T, args []string, rnd *rand.Rand) (killed int) {
	c, events := startCopyTo(t, args, io.Discard)
	awaitVerified(c, events, rnd.IntN(2)*(1+rnd.IntN(30)))
	select {
	case <-c.exited:
	case <-time.After(time.Duration(rnd.IntN(150)) * time.Millisecond):
	}
	select {
	case <-c.exited:
		return 0
	default:
	}
	c.end(syscall.SIGKILL)
	return 1
}

// awaitVerified waits for a number of events; 0: for the first rows that were compared, or some seconds, since a command that keeps an old
// table compares none.
func awaitVerified(c *child, events <-chan string, n int) {
	limit := time.After(5 * time.Second)
	for i := 1; ; i++ {
		select {
		case event, ok := <-events:
			if !ok || i == n || n == 0 && strings.Contains(event, `"verified"`) {
				return
			}
		case <-c.exited:
			return
		case <-limit:
			return
		}
	}
}

// alterToEnd runs a command until it is done. It may have been done before: then its columns exist.
func alterToEnd(t *testing.T, args []string) {
	t.Helper()
	for try := 0; ; try++ {
		_, stderr, err := command(t, "", binary, args...)
		done := strings.Contains(stderr, "1060") || strings.Contains(stderr, "nothing to revert")
		if err == nil || done {
			return
		}
		if try == 20 || !strings.Contains(stderr, "another tare") { // the server notices a killed command after a short time
			t.Fatalf("the last run: %v\n%s", err, stderr)
		}
	}
}

// TestAlterRevertKilled alters and reverts a table again and again while a client writes to it, and kills both commands at random times.
// No acknowledged write is lost.
func TestAlterRevertKilled(t *testing.T) {
	rnd := testseed.Rand(t)
	onAlterServers(t, "reverted", func(t *testing.T, s *testmysql.Server) {
		create, insert := alterTable(t)
		db := open(t, s.Addr, "reverted")
		must(t, s.Exec(strings.ReplaceAll(create, "{table}", "reverted.t")))
		var was, is string
		scan(t, db, "SELECT GROUP_CONCAT(COLUMN_NAME, COLUMN_TYPE ORDER BY ORDINAL_POSITION) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'reverted' AND TABLE_NAME = 't'", &was)
		w := writeAltered(t, db, "reverted.t", insert, 200)
		kills := 0
		for round := range 4 {
			kept := alterArgs(s, "reverted.t", fmt.Sprintf("ADD COLUMN c%d INT DEFAULT %[1]d FIRST", round), "--control-socket", "off", "--keep-old", "1h")
			for range 2 {
				kills += alterKilled(t, kept, rnd)
			}
			alterToEnd(t, kept)
			revert := []string{"alter", "revert", "--on", "mysql://copier:" + testmysql.Password + "@" + s.Addr, "--table", "reverted.t", "--json", "--control-socket", "off", "--patience", "30s"}
			for range 3 {
				kills += alterKilled(t, revert, rnd)
			}
			alterToEnd(t, revert)
			scan(t, db, "SELECT GROUP_CONCAT(COLUMN_NAME, COLUMN_TYPE ORDER BY ORDINAL_POSITION) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'reverted' AND TABLE_NAME = 't'", &is)
			if is != was {
				t.Errorf("the columns are %s, were %s", is, was)
			}
		}
		w.end(t, db, "reverted.t")
		t.Logf("%d kills; the longest statement of the client took %v", kills, w.pause)
		var left int
		scan(t, db, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'reverted' AND TABLE_NAME LIKE '%tare%'", &left)
		if left != 0 {
			t.Errorf("%d tables are left", left)
		}
	})
}

// TestAlterThroughGateway alters and reverts a table whose client comes through a gateway, which pauses it for each swap, and kills the
// command. The client sees no error, and is not paused for longer than the limit.
func TestAlterThroughGateway(t *testing.T) {
	rnd := testseed.Rand(t)
	onAlterServers(t, "paused", func(t *testing.T, s *testmysql.Server) {
		create, insert := alterTable(t)
		must(t, s.Exec(strings.ReplaceAll(create, "{table}", "paused.t")))
		gateway := startTare(t, s.Addr)
		w := writeAltered(t, open(t, gateway.addr, "paused"), "paused.t", insert, 100)
		args := func(n int, more ...string) []string {
			return alterArgs(s, "paused.t", fmt.Sprintf("ADD COLUMN c%d INT DEFAULT %[1]d FIRST", n), append([]string{"--control-socket", "off", "--gateway", gateway.http}, more...)...)
		}
		stdout := mustRun(t, "", binary, args(0, "--keep-old", "1h")...)
		if !strings.Contains(stdout, `"gateway_pauses":1,`) {
			t.Errorf("the report is %s", stdout[max(0, len(stdout)-4000):])
		}
		stdout = mustRun(t, "", binary, "alter", "revert", "--on", "mysql://copier:"+testmysql.Password+"@"+s.Addr, "--table", "paused.t", "--json", "--gateway", gateway.http, "--control-socket", "off")
		if !strings.Contains(stdout, `"state":"reverted"`) || !strings.Contains(stdout, `"gateway_pauses":1,`) {
			t.Errorf("the report is %s", stdout)
		}
		for range 3 {
			alterKilled(t, args(1), rnd)
		}
		alterToEnd(t, args(1))
		db := open(t, s.Addr, "paused")
		w.end(t, db, "paused.t")
		t.Logf("the longest statement of the client took %v", w.pause)
		_, metrics := get(t, gateway.http+"/api/v1/route")
		if !strings.Contains(metrics, `"stage":"open"`) {
			t.Errorf("the gateway pauses clients: %s", metrics)
		}
	})
}

// TestAlterPage visits the page of an alteration whose swap is postponed, and that is in a queue, while a client writes through a gateway.
func TestAlterPage(t *testing.T) {
	b := startBrowser(t)
	s := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))
	create, insert := alterTable(t)
	must(t, s.Exec("CREATE DATABASE paged CHARACTER SET utf8mb4", strings.ReplaceAll(create, "{table}", "paged.t"), "CREATE TABLE paged.next LIKE paged.t"))
	gateway := startTare(t, s.Addr)
	db := open(t, gateway.addr, "paged")
	w := writeAltered(t, db, "paged.t", insert, 100)
	queue := filepath.Join(t.TempDir(), "queue")
	must(t, os.WriteFile(queue, []byte("paged.t: ADD COLUMN note INT FIRST\npaged.next: ADD COLUMN note INT FIRST\n"), 0o600))
	address := make(chan string, 1)
	startChild(t, exec.Command(binary, "alter", "--on", "mysql://copier:"+testmysql.Password+"@"+s.Addr, "--queue", queue, "--always-copy", "--postpone-cutover", "--control-socket", "off",
		"--gateway", gateway.http, "--max-p99", "5s", "--http", "127.0.0.1:0", "--diag-format", "json"), func(text []byte) {
		var line struct{ Msg, HTTP string }
		if json.Unmarshal(text, &line) == nil && line.HTTP != "" {
			address <- line.HTTP
		}
	})
	page, measured := testwait.Receive(t, "the address of the page", address), regexp.MustCompile(`"p99_ms":[0-9]`)
	eventually(t, "postponed", func() bool {
		_, body := get(t, page+"/api/v1/progress")
		return strings.Contains(body, `{"step":"postponed"`) && measured.MatchString(body)
	})
	look(t, b, page, "/",
		`document.querySelectorAll("#live path.line.c2").length === 1`, // the limit
		`document.querySelector("main").innerText.includes("postponed")`,
		`document.querySelector("main").innerText.includes("paged.next")`,
		`document.querySelector("main").innerText.includes("confirmed")`,
		`document.querySelectorAll("ol.marks li").length > 3`,
	)
	w.end(t, db, "paged.t")
}

// TestCopyPage visits the page of a copy that follows its source.
func TestCopyPage(t *testing.T) {
	b := startBrowser(t)
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, account)
	create, insert := alterTable(t)
	must(t, source.Exec("CREATE DATABASE paged CHARACTER SET utf8mb4", strings.ReplaceAll(create, "{table}", "paged.t")))
	must(t, target.Exec("CREATE DATABASE paged CHARACTER SET utf8mb4"))
	gateway := startTare(t, source.Addr)
	db := open(t, gateway.addr, "paged")
	w := writeAltered(t, db, "paged.t", insert, 100)
	address := make(chan string, 1)
	startChild(t, exec.Command(binary, "copy", "--from", "mysql://copier:"+testmysql.Password+"@"+source.Addr, "--to", "mysql://copier:"+testmysql.Password+"@"+target.Addr,
		"--schema", "paged", "--follow", "--control-socket", "off", "--gateway", gateway.http, "--max-p99", "5s", "--http", "127.0.0.1:0", "--diag-format", "json"), func(text []byte) {
		var line struct{ Msg, HTTP string }
		if json.Unmarshal(text, &line) == nil && line.HTTP != "" {
			address <- line.HTTP
		}
	})
	page := testwait.Receive(t, "the address of the page", address)
	eventually(t, "following", func() bool {
		_, body := get(t, page+"/api/v1/progress")
		return strings.Contains(body, `"following"`)
	})
	look(t, b, page, "/",
		`document.querySelectorAll("#live path.line.c2").length === 1`, // the limit
		`document.querySelector("main").innerText.includes("paged.t")`,
	)
	w.end(t, db, "paged.t")
}
