package serverstats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A serverScript has the rows of statements by a part of their text: values separated by |, NULL for no value, or an error of the server.
// Other statements have no rows.
type serverScript struct {
	responses map[string]any

	mu   sync.Mutex
	seen []string
}

func (s *serverScript) response(sql string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, sql)
	var rows []string
	for part, r := range s.responses {
		if !strings.Contains(sql, part) {
			continue
		}
		if number, ok := r.(mysqlwire.Errno); ok {
			return testscript.Packets(1, mysqlwire.NewErr(number, []byte("refused")).AppendTo(nil))
		}
		rows = r.([]string)
	}
	columns := 1
	if len(rows) > 0 {
		columns += strings.Count(rows[0], "|")
	}
	payloads := [][]byte{{byte(columns)}}
	for range columns {
		payloads = append(payloads, testscript.Column)
	}
	for _, row := range rows {
		var p []byte
		for v := range strings.SplitSeq(row, "|") {
			if v == "NULL" {
				p = append(p, 0xfb)
			} else {
				p = append(append(p, byte(len(v))), v...)
			}
		}
		payloads = append(payloads, p)
	}
	return testscript.Packets(1, append(payloads, testscript.End)...)
}

// connect returns a client of a server with the responses.
func (s *serverScript) connect(t *testing.T) *mysqlconn.Client {
	t.Helper()
	addr := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if !testscript.Login(c) {
			return
		}
		for p := testscript.Command(c); p != nil; p = testscript.Command(c) {
			if _, err := c.Write(s.response(string(p[1:]))); err != nil {
				return
			}
		}
	})
	return testscript.MustConnect(t, addr)
}

// TestDescribe describes holders whose last statement the server has whole, in part, or not at all, and the sessions that wait for them.
func TestDescribe(t *testing.T) {
	const last, transactions, processes = "events_statements_current", "innodb_trx", "information_schema.processlist"
	digest := func(text string) sqldigest.Digest {
		var d sqldigest.Digester
		return d.Digest([]byte(text), 0)
	}
	const update, remove = "UPDATE t SET a = 1", "DELETE FROM t"
	base := func(change func(w *LockWait)) LockWait {
		w := LockWait{
			From: noon.Add(-2 * time.Second), To: noon, Kind: RowLock, Table: "s.t", Waiters: 2, Longest: 2 * time.Second, Waiting: []sqldigest.Digest{digest(update), digest(remove)},
			Holder: Holder{Connection: 7, User: "app", Client: "10.0.0.1:5", Transaction: 3 * time.Second, Idle: true, Digest: digest("SELECT 1"), Text: "SELECT ?"},
		}
		change(&w)
		return w
	}
	sessions := []string{"7|app|10.0.0.1:5|Sleep|9|NULL", "8|app|h|Query|1.5|" + update, "9|app|h|Query|1|" + remove}
	for name, c := range map[string]struct {
		responses map[string]any
		waiters   []uint32
		clientOf  func(uint32) (string, bool)
		want      LockWait
	}{
		"a whole text":                 {map[string]any{last: []string{"SELECT 1|1024"}}, nil, nil, base(func(*LockWait) {})},
		"a text of the bound's length": {map[string]any{last: []string{"SELECT 1|12"}}, nil, nil, base(func(*LockWait) {})},
		"the start of a text":          {map[string]any{last: []string{"SELECT 1|11"}}, nil, nil, base(func(w *LockWait) { w.Holder.Digest, w.Holder.TextCut = sqldigest.Digest{}, true })},
		"a running statement": {
			map[string]any{last: []string{"SELECT 1|11"}, processes: append([]string{"7|app|10.0.0.1:5|Query|9|SELECT 1 FROM t"}, sessions[1:]...)},
			nil, nil,
			base(func(w *LockWait) {
				w.Holder.Digest, w.Holder.Text, w.Holder.Idle = digest("SELECT 1 FROM t"), "SELECT ? FROM `t`", false
			}),
		},
		"another that is running": {
			map[string]any{last: []string{"SELECT 1|11"}, processes: append([]string{"7|app|10.0.0.1:5|Query|9|BEGIN"}, sessions[1:]...)},
			nil, nil,
			base(func(w *LockWait) { w.Holder.Digest, w.Holder.TextCut, w.Holder.Idle = sqldigest.Digest{}, true, false }),
		},
		"no text":    {nil, nil, nil, base(func(w *LockWait) { w.Holder.Digest, w.Holder.Text = sqldigest.Digest{}, "" })},
		"no session": {map[string]any{processes: []string{}}, nil, nil, LockWait{From: noon, To: noon, Kind: RowLock, Table: "s.t", Waiters: 2, Holder: Holder{Connection: 7, Transaction: 3 * time.Second}}},
		"a client of the gateway": {
			map[string]any{last: []string{"SELECT 1|1024"}},
			nil, func(id uint32) (string, bool) { return fmt.Sprint("client of ", id), true },
			base(func(w *LockWait) { w.Holder.Client = "client of 7" }),
		},
		"none of the gateway": {map[string]any{last: []string{"SELECT 1|1024"}}, nil, func(uint32) (string, bool) { return "", false }, base(func(*LockWait) {})},
		"the same statement twice, and none": {
			map[string]any{last: []string{"SELECT 1|1024"}, processes: append([]string{"10|app|h|Query|1|" + update, "11|app|h|Query|-1|NULL"}, sessions...)},
			[]uint32{8, 9, 10, 11},
			nil,
			base(func(w *LockWait) { w.Waiters = 4 }),
		},
		"the time of a statement": {
			map[string]any{last: []string{"SELECT 1|1024"}, transactions: []string{"7|3000000|NULL", "8|5|-1"}},
			nil, nil,
			base(func(w *LockWait) { w.From, w.Longest = noon.Add(-1500*time.Millisecond), 1500*time.Millisecond }),
		},
	} {
		s := &serverScript{responses: map[string]any{processes: sessions, transactions: []string{"7|3000000|NULL", "8|2500000|2000000", "9|2500000|1000000"}}}
		maps.Copy(s.responses, c.responses)
		r := newReader(t, func(o *Options) { o.ClientOf = c.clientOf })
		p := pileUp{holder: 7, waiters: c.waiters, kind: RowLock, table: "s.t"}
		if p.waiters == nil {
			p.waiters = []uint32{8, 9}
		}
		got, err := r.describe(t.Context(), s.connect(t), p, noon)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	s := &serverScript{}
	p := pileUp{holder: 7}
	for i := range uint32(maxWaiting + 1) {
		p.waiters = append(p.waiters, 100+i)
	}
	got, err := newReader(t, nil).describe(t.Context(), s.connect(t), p, noon)
	if err != nil || got.Waiters != maxWaiting+1 || !strings.Contains(s.seen[0], "(7, 100, ") || !strings.HasSuffix(s.seen[0], "114, 115)") {
		t.Errorf("%d waiting sessions: %+v, %v, %q", got.Waiters, got, err, s.seen[0])
	}
}

// TestMetadataOfMariaDB has sessions that wait for tables and for global locks, with the plugin and without.
func TestMetadataOfMariaDB(t *testing.T) {
	const processes, plugin, statements = "information_schema.processlist", "metadata_lock_info", "events_statements_current"
	const table = "Waiting for table metadata lock"
	read := "8|s|" + table + "|1500|SELECT 1 FROM T"
	ddl := "9|s|" + table + "|10|ALTER TABLE t ADD b INT"
	other := "10|s|" + table + "|10|SELECT 1 FROM u"
	global := "11|s|Waiting for backup lock|2000|INSERT INTO t VALUES (1)"
	granted := func(id, kind, mode string) string { return id + "|" + kind + "|MDL_" + mode + "|s|t" }
	const tables, backup = "Table metadata lock", "Backup lock"
	for name, c := range map[string]struct {
		waiters, locks []string
		want           []edge
	}{
		"none":                          {nil, []string{granted("7", tables, "EXCLUSIVE")}, nil},
		"a strong lock":                 {[]string{read, ddl, other}, []string{granted("7", tables, "EXCLUSIVE")}, []edge{{8, 7, MetadataLock, "s.t"}, {9, 7, MetadataLock, "s.t"}}},
		"a weak lock":                   {[]string{read, ddl, other}, []string{granted("7", tables, "SHARED_READ")}, []edge{{9, 7, MetadataLock, "s.t"}}},
		"a weak lock of one that waits": {[]string{read, ddl}, []string{granted("9", tables, "SHARED_UPGRADABLE")}, []edge{{8, 9, MetadataLock, "s.t"}}},
		"of itself":                     {[]string{ddl}, []string{granted("9", tables, "SHARED_NO_WRITE")}, nil},
		"a global lock":                 {[]string{read, global}, []string{granted("7", "Global read lock", "SHARED"), granted("6", backup, "BACKUP_FLUSH"), granted("5", backup, "BACKUP_DML")}, []edge{{11, 7, GlobalLock, ""}, {11, 6, GlobalLock, ""}}},
		"tables, of a global waiter":    {[]string{global}, []string{granted("7", tables, "EXCLUSIVE")}, nil},
	} {
		s := &serverScript{responses: map[string]any{processes: c.waiters, plugin: c.locks}}
		got, note, err := metadataOfMariaDB(t.Context(), s.connect(t), func(text, _ string) []string {
			if strings.Contains(strings.ToLower(text), "`u`") {
				return []string{"s.u"}
			}
			return []string{"s.T"}
		})
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(edge{})); diff != "" || note != "" || err != nil || (len(s.seen) == 1) != (len(c.waiters) == 0) {
			t.Errorf("%s: %q, %v, %d statements: %s", name, note, err, len(s.seen), diff)
		}
	}
	const globalNote, tableNote = "wait for a global lock; MariaDB does not report its holder", "wait for metadata locks; MariaDB does not report their holder"
	young := "12|s|Waiting for backup lock|999|INSERT INTO t VALUES (1)"
	for name, c := range map[string]struct {
		waiters []string
		holders any
		want    []edge
		note    string
	}{
		"a table":                      {[]string{read, other}, []string{"7"}, []edge{{8, 0, MetadataLock, "s.t"}}, tableNote},
		"global":                       {[]string{global, young}, []string{}, []edge{{11, 0, GlobalLock, ""}}, globalNote},
		"global, of a known holder":    {[]string{global, young}, []string{"7"}, []edge{{11, 7, GlobalLock, ""}, {12, 7, GlobalLock, ""}}, ""},
		"global, of two holders":       {[]string{global, young}, []string{"7", "6"}, []edge{{11, 0, GlobalLock, ""}}, globalNote},
		"both":                         {[]string{global, read}, []string{}, []edge{{11, 0, GlobalLock, ""}, {8, 0, MetadataLock, "s.t"}}, globalNote},
		"without a performance schema": {[]string{global}, mysqlwire.Errno(noSuchTable), []edge{{11, 0, GlobalLock, ""}}, globalNote},
	} {
		s := &serverScript{responses: map[string]any{processes: c.waiters, plugin: mysqlwire.Errno(unknownTable), statements: c.holders}}
		got, note, err := metadataOfMariaDB(t.Context(), s.connect(t), func(string, string) []string { return []string{"s.t", "s.v"} })
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(edge{})); diff != "" || err != nil || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%s, without the plugin: %q, %v: %s", name, note, err, diff)
		}
	}
	for part, waiters := range map[string][]string{processes: nil, plugin: {read}, statements: {global}} {
		s := &serverScript{responses: map[string]any{processes: waiters, plugin: mysqlwire.Errno(noSuchTable)}}
		s.responses[part] = mysqlwire.Errno(1227)
		if got, _, err := metadataOfMariaDB(t.Context(), s.connect(t), func(string, string) []string { return nil }); ErrorNumber(err) != 1227 || got != nil {
			t.Errorf("%s refused: %v, %v", part, got, err)
		}
	}
}

// TestIdleConnection releases a connection: it is used again, until it has been idle for idleTime.
func TestIdleConnection(t *testing.T) {
	conn := (&serverScript{}).connect(t)
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(nil)
		for range 2 {
			c.conn = conn
			c.Release()
			time.Sleep(idleTime - 1)
			if got := c.takeIdle(); got != conn || c.conn != nil {
				t.Fatal("the connection is not kept")
			}
			time.Sleep(2 * idleTime) // it is in use
		}
		if c.conn = conn; conn.Broken() {
			t.Fatal("the connection was closed while it was in use")
		}
		c.Release()
		time.Sleep(idleTime)
		synctest.Wait()
		if c.idle != nil {
			t.Error("an idle connection is kept")
		}
		c.Release() // of none
		if c.idle != nil || c.conn != nil {
			t.Error("a connection without Conn")
		}
	})
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("an idle connection is open")
	}
}

// TestRun reads statements five seconds after the start and then each minute, and locks while statements are slow. Requests for tables are
// served between.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 0
		r := newReader(t, func(o *Options) {
			o.Login = func() mysqlconn.Config { return mysqlconn.Config{} } // no address
			o.Now, o.Slow, o.TablesOf = time.Now, func() int { return slow }, func(string, string) []string { return nil }
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		after := func(d time.Duration, readings, locks uint64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.counts[resultFailed] != readings || r.lockReadings != locks {
				t.Errorf("%d readings of statements and %d of locks, want %d and %d", r.counts[resultFailed], r.lockReadings, readings, locks)
			}
		}
		after(4*time.Second, 0, 0)
		after(time.Second, 1, 0)
		after(59*time.Second, 1, 0)
		after(time.Second, 2, 0)
		slow = 1
		after(time.Second, 2, 0)
		after(time.Second, 2, 1)
		slow = 0
		after(2*time.Minute, 4, 1)
		if _, err := r.Tables(t.Context(), []string{"s.t"}); err == nil || errors.Is(err, errBusy) {
			t.Errorf("tables of a server that cannot be read: %v", err)
		}
		stop()
		running.Wait()
	})
}

// TestKeptTables keeps the statistics read last.
func TestKeptTables(t *testing.T) {
	now := noon
	r := newReader(t, func(o *Options) { o.Now = func() time.Time { return now } })
	for i := range keptTables + 5 {
		r.tables[fmt.Sprint("s.t", i)] = Table{At: noon.Add(time.Duration(i) * time.Second)}
	}
	now = noon.Add(time.Hour)
	r.keep([]string{"a.b"}, []Table{{At: now}})
	if len(r.tables) != keptTables || r.tables["a.b"].At != now || !r.tables["s.t5"].At.IsZero() || r.tables["s.t6"].At.IsZero() {
		t.Errorf("%d tables are kept", len(r.tables))
	}
}
