package serverstats

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

func TestPileUps(t *testing.T) {
	row := func(waiter, holder uint32) edge { return edge{waiter, holder, RowLock, "s.t"} }
	for _, c := range []struct {
		name  string
		edges []edge
		want  []pileUp
	}{
		{name: "none"},
		{"a queue", []edge{row(2, 1), row(3, 2), row(3, 1), row(4, 3)}, []pileUp{{1, []uint32{2, 3, 4}, RowLock, "s.t"}}},
		{"two holders", []edge{row(3, 1), row(3, 2), row(4, 2)}, []pileUp{{2, []uint32{3, 4}, RowLock, "s.t"}, {1, []uint32{3}, RowLock, "s.t"}}},
		{"a cycle, which the server resolves", []edge{row(1, 2), row(2, 1)}, nil},
		{"itself", []edge{row(1, 1)}, nil},
		{
			"two kinds",
			[]edge{{2, 1, MetadataLock, "s.t"}, {3, 1, MetadataLock, "s.t"}, {4, 1, RowLock, "s.u"}},
			[]pileUp{{1, []uint32{2, 3, 4}, MetadataLock, "s.t"}},
		},
	} {
		got := pileUps(c.edges)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		for i := range got {
			if g, w := got[i], c.want[i]; g.holder != w.holder || list(g.waiters) != list(w.waiters) || g.kind != w.kind || g.table != w.table {
				t.Errorf("%s: %+v, want %+v", c.name, g, w)
			}
		}
	}
	if got := tableName("", "`a``b`.`c`"); got != "a`b.c" {
		t.Errorf("table %s", got)
	}
}

// TestLockSchedule checks that locks are read only while statements are slow, and less often if no session waits for one.
func TestLockSchedule(t *testing.T) {
	var w lockWatch
	var readings []int
	for second := range 200 {
		slow := 1
		if second < 10 || second == 150 {
			slow = 0
		}
		now := noon.Add(time.Duration(second) * time.Second)
		if w.due(slow, now) {
			readings = append(readings, second)
			w.schedule(second >= 151, now)
		}
	}
	want := []int{11, 13, 17, 25, 41, 71, 101, 131, 152, 154, 156}
	for i := range want {
		if i >= len(readings) || readings[i] != want[i] {
			t.Fatalf("read at %v, want %v and so on", readings, want)
		}
	}
}

func TestWaitsAreBounded(t *testing.T) {
	var w lockWatch
	for i := range uint32(2 * keptWaits) {
		if !w.record(LockWait{To: noon, Holder: Holder{Connection: i}, Waiters: 1}) {
			t.Error("a wait for another session is the same one")
		}
	}
	if len(w.waits) != keptWaits {
		t.Errorf("%d waits", len(w.waits))
	}
	if w.record(LockWait{To: noon.Add(time.Second), Holder: Holder{Connection: keptWaits}, Waiters: 7}) || w.waits[0].Waiters != 7 || !w.waits[0].To.Equal(noon.Add(time.Second)) {
		t.Errorf("the wait was not extended: %+v", w.waits[0])
	}
	if !w.record(LockWait{To: noon.Add(time.Hour), Holder: Holder{Connection: keptWaits}}) {
		t.Error("a wait an hour later is the same one")
	}
}

// TestLocks has sessions wait for a row lock and for a metadata lock: the reading names the session that holds it. Each
// has its own server, because MariaDB refreshes the waits for row locks only if they were not read for 0.1 s.
func TestLocks(t *testing.T) {
	for kind, texts := range map[LockKind][]string{
		RowLock:      {"SELECT id FROM orders WHERE id = 5 FOR UPDATE", "UPDATE orders SET status = 'x' WHERE id = 5"},
		MetadataLock: {"SELECT id FROM orders WHERE id = 7", "ALTER TABLE orders ADD COLUMN c INT", "SELECT status FROM orders WHERE id = 8"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			onServers(t, func(t *testing.T, s *testmysql.Server) {
				must(t, s.Exec("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'",
					"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_statements_current'"))
				b := newBench(t, s, testmysql.RootUser)
				b.opts.TablesOf = func(string, string) []string { return []string{"test.orders"} }
				b.testLock(t, texts[0], kind, texts[1:]...)
			})
		})
	}
}

// TestMetadataLocksOfMariaDB reads them without the performance schema: from its plugin, if that is installed.
func TestMetadataLocksOfMariaDB(t *testing.T) {
	s := testmysql.Start(t)
	must(t, s.Exec("CREATE TABLE orders (id INT PRIMARY KEY, status INT)", "INSERT INTO orders VALUES (7, 1)"))
	b := newBench(t, s, testmysql.RootUser)
	b.opts.TablesOf = func(string, string) []string { return []string{"test.orders"} }
	const holds = "SELECT id FROM orders WHERE id = 7"
	waits := []string{"ALTER TABLE orders COMMENT 'x'", "SELECT status FROM orders WHERE id = 8"}
	_, release := b.lock(t, holds, MetadataLock, waits)
	testwait.UntilState(t, "the note", func() (string, bool) {
		b.readLocks(t.Context(), b.now)
		_, problem := b.LockWaits(time.Time{}, b.now)
		return problem, strings.Contains(problem, "INSTALL SONAME")
	})
	release()
	if err := s.Exec("INSTALL SONAME 'metadata_lock_info'"); err != nil {
		t.Skipf("the server has no plugin metadata_lock_info: %v", err)
	}
	b.testLock(t, holds, MetadataLock, waits...)
}

// lock locks in one session and has others wait until release is called.
func (b *bench) lock(t *testing.T, holds string, kind LockKind, waits []string) (holder uint32, release func()) {
	t.Helper()
	conn, err := b.db.Conn(t.Context())
	must(t, err)
	must(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&holder))
	_, err = conn.ExecContext(t.Context(), "BEGIN")
	must(t, err)
	must(t, conn.QueryRowContext(t.Context(), holds).Scan(new(any)))
	return holder, b.wait(t, conn, kind, waits)
}

// wait executes statements that wait, in this order, until the returned function ends the transaction. A statement is among the processes
// before it waits: a later one could overtake it then.
func (b *bench) wait(t *testing.T, conn *sql.Conn, kind LockKind, waits []string) (release func()) {
	t.Helper()
	done := make(chan error, len(waits))
	state := "%"
	if kind == MetadataLock {
		state = "Waiting for table metadata lock"
	}
	for _, text := range waits {
		go func() {
			_, err := b.db.ExecContext(context.WithoutCancel(t.Context()), text)
			done <- err
		}()
		testwait.UntilState(t, "a session that waits", func() (string, bool) {
			var n int
			must(t, b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE INFO LIKE ? AND STATE LIKE ? AND ID <> CONNECTION_ID()",
				text+"%", state).Scan(&n))
			return b.processes(t), n == 1
		})
	}
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		must(t, errors.Join(err, conn.Close()))
		for range waits {
			must(t, testwait.Receive(t, "the end of a wait", done))
		}
	}
}

// processes returns the sessions of the server and their statements.
func (b *bench) processes(t *testing.T) string {
	t.Helper()
	var list sql.NullString
	must(t, b.db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(CONCAT_WS(' ', ID, COMMAND, TIME, STATE, INFO) ORDER BY ID SEPARATOR '\n') FROM information_schema.processlist").Scan(&list))
	return list.String
}

func (b *bench) testLock(t *testing.T, holds string, kind LockKind, waits ...string) {
	t.Helper()
	b.now = b.now.Add(time.Hour)
	holder, release := b.lock(t, holds, kind, waits)
	var fresh []LockWait
	b.opts.Locked = func(w LockWait) { fresh = append(fresh, w) }
	b.opts.ClientOf = func(id uint32) (string, bool) { return "a client", id == holder }
	var got LockWait
	testwait.UntilState(t, "the wait", func() (string, bool) {
		if kind == RowLock { // see TestLocks
			_, err := b.db.ExecContext(t.Context(), "DO SLEEP(0.12)")
			must(t, err)
		}
		b.readLocks(t.Context(), b.now)
		all, problem := b.LockWaits(b.now.Add(-time.Minute), b.now)
		if len(all) == 0 || all[0].Waiters < len(waits) {
			return problem, false
		}
		got = all[0]
		return problem, got.Longest > 0
	})
	release()
	h := got.Holder
	if got.Kind != kind || got.Table != "test.orders" || got.Waiters != len(waits) || h.Connection != holder || h.User != testmysql.RootUser || h.Client != "a client" || !h.Idle || len(got.Waiting) != len(waits) {
		t.Errorf("%+v", got)
	}
	if len(fresh) == 0 || fresh[0].Holder.Connection != holder {
		t.Errorf("new waits: %+v", fresh)
	}
	if kind == RowLock && h.Transaction == 0 {
		t.Error("the age of the transaction is unknown")
	}
	if strings.Contains(t.Name(), "TestLocks") && h.Text != b.normalized(holds) {
		t.Errorf("the last statement is %q, want %q", h.Text, b.normalized(holds))
	}
}

// TestGlobalLocks has a statement wait for FLUSH TABLES WITH READ LOCK of an idle session. The reading names the session if the
// server reports it; otherwise the kind of the lock, and the plugin to install.
func TestGlobalLocks(t *testing.T) {
	const instrument = "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
	statements := testmysql.WithArgs("--performance-schema-consumer-events-statements-current=ON")
	type server struct {
		opts    []testmysql.Option
		setup   []string
		unknown bool // until the plugin is installed
	}
	servers := map[string]server{
		"MySQL":                        {opts: []testmysql.Option{testmysql.WithMySQL()}},
		"MariaDB":                      {unknown: true},
		"MariaDB with last statements": {opts: []testmysql.Option{testmysql.WithPerformanceSchema(), statements}},
		"MariaDB with the instrument":  {opts: []testmysql.Option{testmysql.WithPerformanceSchema()}, setup: []string{instrument}},
	}
	if dir := os.Getenv("TARE_MARIADB_DIR"); dir != "" {
		servers["MariaDB of TARE_MARIADB_DIR"] = server{opts: []testmysql.Option{testmysql.WithPrograms(dir)}, unknown: true}
	}
	for name, c := range servers {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, c.opts...)
			must(t, s.Exec(append(c.setup, "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT)")...))
			b := newBench(t, s, testmysql.RootUser)
			b.opts.TablesOf = func(string, string) []string { return []string{"test.orders"} }
			conn, err := b.db.Conn(t.Context())
			must(t, err)
			defer conn.Close()
			var holder uint32
			must(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&holder))
			found := func(of uint32, problem string) {
				t.Helper()
				_, err := conn.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
				must(t, err)
				done := make(chan error, 1)
				go func() {
					_, err := b.db.ExecContext(context.WithoutCancel(t.Context()), "INSERT INTO orders VALUES (NULL)")
					done <- err
				}()
				testwait.UntilState(t, "the wait", func() (string, bool) {
					b.now = b.now.Add(time.Hour) // not the same wait
					b.readLocks(t.Context(), b.now)
					all, got := b.LockWaits(b.now, b.now)
					_, blocked := b.Blocked()
					if len(all) == 0 {
						return got, false
					}
					w := &all[0]
					if w.Kind != GlobalLock || w.Table != "" || w.Waiters != 1 || w.Holder.Connection != of || (of != 0) != w.Holder.Idle || problem == "" && got != "" || !strings.Contains(got, problem) || len(blocked) != 1 {
						t.Errorf("%+v, %+v, %q", w, blocked, got)
					}
					return got, true
				})
				_, err = conn.ExecContext(t.Context(), "UNLOCK TABLES")
				must(t, err)
				must(t, testwait.Receive(t, "the end of the wait", done))
			}
			if c.unknown {
				found(0, "INSTALL SONAME")
				if err := s.Exec("INSTALL SONAME 'metadata_lock_info'"); err != nil {
					t.Skipf("the server has no plugin metadata_lock_info: %v", err)
				}
			}
			found(holder, "")
		})
	}
}
