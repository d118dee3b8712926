package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// elsewhere is a source whose identity is another one, or not known.
type elsewhere struct {
	binlog.Follower
	err error
}

func (e elsewhere) Identity(context.Context) (string, error) { return "another", e.err }

// TestStopMySQL makes a MySQL source read-only under its global lock, step by step.
func TestStopMySQL(t *testing.T) {
	server := testmysql.StartOrSkip(t, testmysql.WithMySQL(), testmysql.WithBinlog())
	cfg := testrows.Root(server)
	c := testrows.Connect(t, cfg)
	exec := func(sql ...string) { t.Helper(); testrows.Exec(t, c, sql...) }
	exec("CREATE DATABASE src", "CREATE TABLE src.a (id INT PRIMARY KEY)", "INSERT INTO src.a VALUES (100)")
	tables := []tabledef.Spec{{Schema: "src", Name: "a"}}
	source := testrows.Direct(t, cfg)
	r := &readOnly{cfg: cfg, patience: testwait.Limit}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	readOnlyIs := func(want string) {
		t.Helper()
		if got := testrows.Column(t, c, "SELECT CONCAT(@@GLOBAL.read_only, @@GLOBAL.super_read_only)"); got[0] != want {
			t.Errorf("read_only and super_read_only are %s, want %s", got[0], want)
		}
	}
	lock := func(r *readOnly) (*heldLock, binlog.Position) {
		t.Helper()
		l, err := r.lock(t.Context(), tables, testwait.Limit)
		must(err)
		p, err := lockedPosition(t.Context(), l.Client, []*HandoverPart{{Source: source}})
		must(err)
		return l, p
	}

	t.Run("privileges", func(t *testing.T) {
		// Without CONNECTION_ADMIN or SYSTEM_VARIABLES_ADMIN, offline_mode cannot be set.
		all := []string{"RELOAD", "SYSTEM_VARIABLES_ADMIN", "CONNECTION_ADMIN", "PROCESS", "XA_RECOVER_ADMIN"}
		exec("CREATE USER few IDENTIFIED BY '" + testmysql.Password + "'")
		few := *r
		few.cfg.User = "few"
		for _, without := range append(all, "") {
			exec("REVOKE ALL ON *.* FROM few")
			for _, p := range all {
				if p != without {
					exec("GRANT " + p + " ON *.* TO few")
				}
			}
			err := few.check(t.Context(), tables)
			if (err == nil) != (without == "") || err != nil && !strings.Contains(err.Error(), without) {
				t.Errorf("without %q: %v", without, err)
			}
		}
	})
	t.Run("another server", func(t *testing.T) {
		l, p := lock(r)
		defer l.close()
		if now, err := source.CurrentPosition(t.Context()); err != nil || now != p {
			t.Errorf("the log ends at %v, want %v, %v", p, now, err)
		}
		lost := errors.New("lost")
		for want, parts := range map[string][]*HandoverPart{
			"is not the one that is read (another)": {{Source: source}, {Source: elsewhere{Follower: source}}},
			"lost":                                  {{Source: source}, {Source: elsewhere{source, lost}}},
		} {
			if _, err := lockedPosition(t.Context(), l.Client, parts); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
	t.Run("stop", func(t *testing.T) {
		writer := testrows.Connect(t, cfg)
		testrows.Exec(t, writer, "BEGIN", "INSERT INTO src.a VALUES (1)")
		reader := testrows.Connect(t, cfg)
		testrows.Exec(t, reader, "BEGIN", "SELECT * FROM src.a WHERE id = 100 FOR UPDATE")
		l, p := lock(r)
		defer l.close()
		later := p
		later.Offset++
		if err := r.settle(t.Context(), l, later); err == nil || !strings.Contains(err.Error(), "the log has grown from") {
			t.Errorf("a position that is not the end: %v", err)
		}
		must(r.settle(t.Context(), l, p))
		if _, err := writer.Exec(t.Context(), "COMMIT"); err == nil {
			t.Error("a transaction that has changed rows was committed")
		}
		testrows.Exec(t, reader, "COMMIT")
		must(r.stopLocked(t.Context(), l.Client))
		l.close()
		readOnlyIs("11")
		if rows := testrows.Column(t, c, "SELECT id FROM src.a"); len(rows) != 1 {
			t.Errorf("written: %v", rows)
		}
		must(r.release(t.Context()))
		readOnlyIs("00")
	})
	t.Run("too late", func(t *testing.T) {
		l, p := lock(r)
		defer l.close()
		l.until = time.Now()
		if err := r.settle(t.Context(), l, p); err == nil || !strings.Contains(err.Error(), "have not ended in time") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another run", func(t *testing.T) {
		left, err := session.Connect(t.Context(), cfg) // of a process that has ended
		must(err)
		defer func() { _ = left.Close() }()
		testrows.Exec(t, left, "DO GET_LOCK('"+stopLock+"', 0)")
		l, _ := lock(r)
		defer l.close()
		must(r.stopLocked(t.Context(), l.Client))
		if _, err := left.Exec(t.Context(), "DO 0"); err == nil {
			t.Error("two runs may make the server read-only")
		}
		must(r.release(t.Context()))
	})
	t.Run("prepared", func(t *testing.T) {
		ended, err := session.Connect(t.Context(), cfg)
		must(err)
		defer func() { _ = ended.Close() }()
		testrows.Exec(t, ended, "XA START 'x'", "INSERT INTO src.a VALUES (2)", "XA END 'x'")
		must(nonePrepared(t.Context(), c))
		testrows.Exec(t, ended, "XA PREPARE 'x'")
		exec("KILL " + fmt.Sprint(ended.ConnectionID))
		if _, err := lockedPosition(t.Context(), c, []*HandoverPart{{Source: source}}); !errors.Is(err, errPrepared) {
			t.Errorf("prepared: %v", err)
		}
		if err := endWriters(t.Context(), c); !errors.Is(err, errPrepared) { // it has no session
			t.Errorf("prepared, and the session has ended: %v", err)
		}
		exec("XA ROLLBACK 'x'")
		must(endWriters(t.Context(), c))
	})
	t.Run("statements", func(t *testing.T) {
		proxy := testproxy.StartFaulty(t, cfg.Addr)
		through := *r
		through.cfg.Addr, through.cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled // the server has the account's password in its cache
		proxy.EachFails(t, func() error {
			if err := through.check(t.Context(), tables); err != nil {
				return err
			}
			l, err := through.lock(t.Context(), tables, testwait.Limit)
			if err != nil {
				return err
			}
			defer l.close()
			p, err := lockedPosition(t.Context(), l.Client, []*HandoverPart{{Source: source}})
			if err == nil {
				err = through.settle(t.Context(), l, p)
			}
			if err == nil {
				err = through.stopLocked(t.Context(), l.Client)
			}
			l.close()
			return errors.Join(err, r.release(t.Context()))
		}, "SHOW MASTER STATUS") // another statement is executed then
		readOnlyIs("00")
	})
}

// TestHandoverMySQL hands the tables of a MySQL source over to two targets, while a client writes and others have open transactions.
func TestHandoverMySQL(t *testing.T) {
	server := testmysql.StartOrSkip(t, testmysql.WithMySQL(), testmysql.WithBinlog())
	h := &handed{sides: newSides(t)}
	h.clients = testrows.Root(server)
	c := testrows.Connect(t, h.clients)
	testrows.Exec(t, c, "CREATE DATABASE src", "CREATE TABLE src.a (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO src.a VALUES (1, 1), (2, 2), (3, 3)",
		"CREATE USER client IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON src.* TO client")
	h.source = testrows.Direct(t, h.clients)
	h.parts = []*copied{h.copy("dst"), h.copy("dst2")}
	open := testrows.Connect(t, h.clients)
	testrows.Exec(t, open, "BEGIN", "INSERT INTO src.a VALUES (500, 1)")
	if done, err := h.new(h.clients).Begin(t.Context(), h.targets(h.direct), false); err != nil || done {
		t.Fatalf("begun: %t, %v", done, err)
	}
	o := h.new(h.clients)
	h.must(h.run(o, h.direct))
	report, made := o.Made()
	if !made || report.Phase != PhaseHanded || h.parts[0].phase() != phaseHanded || h.parts[1].phase() != phaseHanded {
		t.Errorf("made: %t, %+v", made, report)
	}
	if got := testrows.Column(t, c, "SELECT @@GLOBAL.super_read_only"); got[0] != "1" {
		t.Error("the source accepts writes")
	}
	if _, err := open.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("a transaction was committed after the handover")
	}
	want := testrows.Column(t, c, "SELECT CONCAT(id, ' ', n) FROM src.a ORDER BY id")
	for _, k := range h.parts {
		if got := h.column("SELECT CONCAT(id, ' ', n) FROM " + k.table.Spec.Target() + " ORDER BY id"); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", k.table.Spec.Target(), got, want)
		}
	}
}
