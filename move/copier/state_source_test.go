package copier_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
)

// TestSourceIdentity resumes copies whose source has another address, and whose source is another server by its identity.
func TestSourceIdentity(t *testing.T) {
	p := newPair(t, "ident")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1)")
	identity, err := session.ServerIdentity(t.Context(), p.source)
	if err != nil {
		t.Fatal(err)
	}
	options := func(host string) copier.Options {
		cfg := root(p.from)
		cfg.Addr = strings.Replace(cfg.Addr, "127.0.0.1", host, 1)
		o := p.options("a")
		o.From, o.Follow, o.UntilCaughtUp = copier.FromServer(cfg), true, true
		return o
	}
	follow := func(host string, inserts int64) {
		t.Helper()
		report, err := copier.Run(t.Context(), options(host))
		if err != nil {
			t.Fatal(err)
		}
		if report.Follow.Inserts != inserts {
			t.Errorf("%d inserts were applied, want %d", report.Follow.Inserts, inserts)
		}
		p.same(t, "a")
	}
	recorded := func() {
		t.Helper()
		want := []string{`["` + identity + `" "1"]`}
		for _, table := range []string{"copy_table", "copy_follow"} {
			if diff := cmp.Diff(want, read(t, p.target, "SELECT source, COUNT(*) FROM _tare."+table+" GROUP BY 1")); diff != "" {
				t.Errorf("%s: %s", table, diff)
			}
		}
	}
	follow("127.0.0.1", 0)
	recorded()
	sqlExec(t, p.source, "INSERT INTO a VALUES (2, 2)")
	follow("localhost", 1)

	// Over a wire, under two addresses of one reader; then without the wire.
	direct, err := binlog.OpenDirect(t.Context(), root(p.from))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() }) // its connection may have been killed
	addrs := []string{serveRows(t, direct), ""}
	addrs[1] = strings.Replace(addrs[0], "127.0.0.1", "localhost", 1)
	from := func(o copier.Options, addr string) copier.Options {
		o.From = copier.FromRemote(wire.RemoteOptions{Addr: addr})
		return o
	}
	overWire := func(addr string) {
		t.Helper()
		sqlExec(t, p.source, "INSERT INTO a SELECT MAX(id) + 1, 5 FROM a")
		report, err := copier.Run(t.Context(), from(options("127.0.0.1"), addr))
		if err != nil || report.Follow.Inserts != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		p.same(t, "a")
		recorded()
	}
	overWire(addrs[0])
	overWire(addrs[1])
	sqlExec(t, p.source, "INSERT INTO a SELECT MAX(id) + 1, 5 FROM a")
	follow("127.0.0.1", 1)
	recorded()
	sqlExec(t, p.source, "DELETE FROM a WHERE n = 5")

	// Another server, under the same address.
	for _, form := range []string{"UPDATE _tare.copy_table SET source = 'mysql 00000000-0000-0000-0000-000000000001'", "UPDATE _tare.copy_table SET source = 'other:3306'"} {
		sqlExec(t, p.target, form)
		o := options("127.0.0.1")
		o.Follow, o.UntilCaughtUp = false, false
		_, err := copier.Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "not from "+identity+" at "+root(p.from).Addr) {
			t.Fatalf("another server: %v", err)
		}
		_, out, _ := strings.Cut(err.Error(), "another identity or address, ")
		sqlExec(t, p.target, strings.TrimSuffix(out, " in the target"))
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Errorf("after %s: %v", out, err)
		}
	}

	// A failover: the log has the last heartbeat.
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET source = 'mysql 00000000-0000-0000-0000-000000000001'", "UPDATE _tare.copy_follow SET source = 'mysql 00000000-0000-0000-0000-000000000001'")
	sqlExec(t, p.source, "INSERT INTO a VALUES (40, 4)")
	follow("127.0.0.1", 1)
	recorded()
}
