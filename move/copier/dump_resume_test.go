package copier_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// interrupted dumps until a number of chunks are written, and returns the options.
func (p *pair) interrupted(t *testing.T, o copier.Options, to dump.Destination, chunks int64) copier.Options {
	t.Helper()
	o.ChunkBytes, o.Workers = 20_000, 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen atomic.Int64
	stopped := o
	stopped.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventChunk && seen.Add(1) == chunks {
			cancel()
		}
	}
	if _, err := copier.Dump(ctx, stopped, to); err == nil {
		t.Fatal("the dump finished although it was canceled")
	}
	return o
}

// TestDumpResumed resumes a dump after its rows, its tables or its options have changed.
func TestDumpResumed(t *testing.T) {
	p := newPair(t, "resume")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(200), d INT, s INT AS (d + 1) STORED, v INT AS (d + 2))",
		"INSERT INTO a (id, c, d) SELECT seq, REPEAT(CONCAT('row ', seq), 10), seq FROM seq_1_to_5000", "ANALYZE TABLE a")
	fresh := func(t *testing.T) (dump.Destination, string) {
		t.Helper()
		dir := t.TempDir()
		return destination(t, "file://"+dir), dir
	}
	load := func(t *testing.T, to dump.Destination) {
		t.Helper()
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS resume", "DROP DATABASE IF EXISTS _tare")
		o := p.options("a")
		o.From, o.Verify = copier.FromDump(to), true
		report, err := copier.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Mismatches() != 0 {
			t.Errorf("%+v", report.Tables[0].Verify)
		}
		p.same(t, "a")
	}
	t.Run("rows have changed", func(t *testing.T) {
		to, dir := fresh(t)
		o := p.interrupted(t, p.options("a"), to, 12)
		o.From, o.To = copier.FromDump(to), root(p.to)
		if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the dump is unfinished: repeat the command") {
			t.Errorf("loaded an unfinished dump: %v", err)
		}
		sqlExec(t, p.source, "UPDATE a SET c = 'changed' WHERE id = 3", "DELETE FROM a WHERE id = 77", "INSERT INTO a (id, c, d) VALUES (0, 'first', 1), (9000, 'last', 2)", "UPDATE a SET d = 5 WHERE id = 400")
		again := p.options("a")
		again.ChunkBytes = 20_000
		report, err := copier.Dump(t.Context(), again, to)
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Tables[0].Before; n < 8 { // at least 12 were dumped, of which at most 3 have changed
			t.Errorf("%d chunks had not changed: %+v", n, report.Tables[0])
		}
		names := files(t, dir)
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "partial") }) || len(names) != report.Tables[0].Files+2 {
			t.Errorf("%d files of rows, and there are %q", report.Tables[0].Files, names)
		}
		load(t, to)
	})
	t.Run("rows have not changed", func(t *testing.T) {
		to, _ := fresh(t)
		p.interrupted(t, p.options("a"), to, 12)
		again := p.options("a")
		again.ChunkBytes = 20_000
		var chunks, verified atomic.Int64
		again.Observe = func(e telemetry.Event) {
			switch e.Kind {
			case telemetry.EventChunk:
				chunks.Add(1)
			case telemetry.EventVerified:
				verified.Add(1)
			}
		}
		report, err := copier.Dump(t.Context(), again, to)
		if err != nil {
			t.Fatal(err)
		}
		if got := report.Tables[0]; got.Before < 12 || int64(got.Before) != verified.Load() || int64(got.Chunks) != chunks.Load()+verified.Load() {
			t.Errorf("%d chunks were read and %d found unchanged; the report has %+v", chunks.Load(), verified.Load(), got)
		}
		load(t, to)
	})
	t.Run("files were damaged", func(t *testing.T) {
		to, dir := fresh(t)
		p.interrupted(t, p.options("a"), to, 12)
		damage(t, dir)
		again := p.options("a")
		again.ChunkBytes = 20_000
		report, err := copier.Dump(t.Context(), again, to)
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Tables[0].Before; n != 0 {
			t.Errorf("%d chunks were taken over from damaged files", n)
		}
		load(t, to)
	})
	t.Run("the table was altered", func(t *testing.T) {
		to, _ := fresh(t)
		p.interrupted(t, p.options("a"), to, 5)
		sqlExec(t, p.source, "ALTER TABLE a ADD COLUMN e INT DEFAULT 7 AFTER id")
		if _, err := copier.Dump(t.Context(), p.options("a"), to); err != nil {
			t.Fatal(err)
		}
		load(t, to)
	})
	t.Run("refused", func(t *testing.T) {
		to, dir := fresh(t)
		p.interrupted(t, p.options("a"), to, 5)
		where := p.options("a")
		where.Tables[0].Where = "id > 5"
		restarted := where
		restarted.Restart = true
		for _, tt := range []struct {
			want string
			do   func() error
		}{
			{"it was of other rows", func() error { return dumpError(t, where, to) }},
			{"", func() error { return dumpError(t, restarted, to) }},
			{"it has a dump that was finished at", func() error { return dumpError(t, restarted, to) }},
			{"it is damaged: it is truncated", func() error {
				if err := os.Truncate(filepath.Join(dir, "manifest.json"), 100); err != nil {
					return err
				}
				return dumpError(t, where, to)
			}},
			{"it is not empty", func() error {
				if err := os.Remove(filepath.Join(dir, "manifest.json")); err != nil {
					return err
				}
				return dumpError(t, where, to)
			}},
		} {
			err := tt.do()
			if tt.want == "" && err == nil {
				continue
			}
			if tt.want = strings.Replace(tt.want, "it is damaged: ", "the dump is damaged: ", 1); err == nil || tt.want == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		}
	})
	t.Run("altered meanwhile", func(t *testing.T) {
		to, _ := fresh(t)
		o := p.options("a")
		o.Workers = 1
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventSnapshot { // later on the snapshot's metadata locks keep the table as it is
				sqlExec(t, p.source, "ALTER TABLE a COMMENT = 'new'")
			}
		}
		if _, err := copier.Dump(t.Context(), o, to); err == nil || !strings.Contains(err.Error(), "resume.a was altered while its rows were dumped") {
			t.Errorf("got %v", err)
		}
	})
}

// damage removes, truncates, extends, changes or exchanges each file of rows.
func damage(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "tables", "*", "*.zst"))
	if err != nil || len(names) < 6 {
		t.Fatal(err, names)
	}
	text := make([][]byte, len(names))
	for i, name := range names {
		if text[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		now := slices.Clone(text[i])
		switch i % 5 {
		case 0:
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		case 1:
			now = now[:len(now)-1]
		case 2:
			now = append(now, 0)
		case 3:
			now[len(now)/2] ^= 1
		case 4:
			now = text[i-1]
		}
		if err := os.WriteFile(name, now, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func dumpError(t *testing.T, o copier.Options, to dump.Destination) error {
	t.Helper()
	_, err := copier.Dump(t.Context(), o, to)
	return err
}

// TestDumpUnderLoad dumps while clients write, and loads the dump into a server that then replicates from the position of the dump: if rows
// and position did not belong together, replication would stop, or the rows would differ in the end.
func TestDumpUnderLoad(t *testing.T) {
	p := newPair(t, "busy")
	sqlExec(t, p.source, "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO a (n) SELECT seq FROM seq_1_to_2000",
		"CREATE TABLE b LIKE a", "INSERT INTO b SELECT * FROM a", "ANALYZE TABLE a, b")
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var written atomic.Int64
	for n := range 3 {
		c := connect(t, root(p.from))
		sqlExec(t, c, "USE busy")
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				for _, sql := range []string{
					"BEGIN", fmt.Sprintf("INSERT INTO a (n) VALUES (%d)", i), fmt.Sprintf("UPDATE b SET n = n + 1 WHERE id = %d", 1+(i*7+n*600)%2000),
					fmt.Sprintf("DELETE FROM a WHERE id = %d", 1+(i*3+n)%2000), "COMMIT",
				} {
					if _, err := c.Exec(t.Context(), sql); err != nil {
						t.Errorf("%s: %v", sql, err)
						return
					}
				}
				written.Add(1)
			}
		})
	}
	end := sync.OnceFunc(func() { stop(); clients.Wait() })
	defer end()
	testwait.Until(t, "the clients to write", func() bool { return written.Load() > 50 })
	to := destination(t, "file://"+t.TempDir())
	o := p.options("a", "b")
	o.ChunkBytes = 8000
	before := written.Load()
	if _, err := copier.Dump(t.Context(), o, to); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the clients to write after the dump", func() bool { return written.Load() > before+100 })
	end()

	replica := testmysql.Start(t, testmysql.WithArgs("--server-id=77"))
	d, err := dump.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	position := d.Manifest().Position
	if position.File == "" || position.GTID == "" {
		t.Fatalf("the dump has the position %+v", position)
	}
	load := p.options("a", "b")
	load.From, load.To = copier.FromDump(to), root(replica)
	if _, err := copier.Run(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	c := connect(t, root(replica))
	sqlExec(t, c, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_PASSWORD = '%s', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_LOG_FILE = '%s', MASTER_LOG_POS = %d, MASTER_USE_GTID = no",
		p.from.Addr[strings.LastIndex(p.from.Addr, ":")+1:], testmysql.RootUser, testmysql.Password, position.File, position.Offset), "START SLAVE")
	now := strings.Trim(read(t, p.source, "SELECT @@gtid_binlog_pos")[0], `["]`)
	if got := read(t, c, "SELECT MASTER_GTID_WAIT('"+now+"', 120)"); got[0] != `["0"]` {
		t.Fatalf("replication from %+v does not arrive at %s: %q, %q", position, now, got, read(t, c, "SHOW SLAVE STATUS"))
	}
	p.target = c
	p.same(t, "a")
	p.same(t, "b")
}

// TestDumpOverTheWire dumps through a tare rowstream, which lists no objects, and loads all of it.
func TestDumpOverTheWire(t *testing.T) {
	p := newPair(t, "wired")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, g INT AS (id * 2) STORED)", "INSERT INTO a (id) SELECT seq FROM seq_1_to_100", "CREATE VIEW v AS SELECT 1")
	o := p.options("a")
	o.From = overTheWire(t, root(p.from), wire.Zstd)
	if inv, err := copier.ResolveDump(t.Context(), &o, inventory.Selection{}); inv != nil || err != nil {
		t.Fatal(inv, err)
	}
	to := inMemory(t)
	if _, err := copier.Dump(t.Context(), o, to); err != nil {
		t.Fatal(err)
	}
	load := copier.Options{From: copier.FromDump(to), To: root(p.to), Verify: true}
	if inv, err := copier.Resolve(t.Context(), &load, inventory.Selection{}); inv != nil || err != nil || len(load.Tables) != 1 {
		t.Fatal(inv, err, load.Tables)
	}
	if _, err := copier.Run(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	p.same(t, "a")
}
