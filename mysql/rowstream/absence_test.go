package rowstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestNoErrorIsAbsence has a server fail at each statement of a view, in turn: the view fails with the server's error, and does not go
// without what the statement reads, such as the identity of the server or the position of its log.
func TestNoErrorIsAbsence(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.StartOrSkip(t, append(opts, testmysql.WithBinlog())...)
			cfg := testrows.Root(server)
			c := testrows.Connect(t, cfg)
			testrows.Exec(t, c, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
			table, err := rowstream.ReadTable(t.Context(), c, "d", "t")
			if err != nil {
				t.Fatal(err)
			}
			proxy := testproxy.StartFaulty(t, server.Addr)
			cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
			identity, err := session.ServerIdentity(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			const settings = "SELECT VERSION(), CONNECTION_ID()," // sent again with each variable that the server does not have
			notReplacement := "SHOW MASTER STATUS"                // its error is that of the statement after it, which MySQL 8.4 and later have instead
			if name == "MariaDB" {
				notReplacement = "SHOW BINARY LOG STATUS"
			}
			for what, do := range map[string]func(ctx context.Context) error{
				"snapshot": func(ctx context.Context) error {
					s, err := rowstream.OpenSnapshot(ctx, cfg, 2, []*rowstream.Table{table})
					if err == nil && (s.Identity() != identity || s.Position() == "") {
						err = errors.New("a snapshot without an identity or a position")
					}
					if s != nil {
						err = errors.Join(err, s.Close())
					}
					return err
				},
				"short view": func(ctx context.Context) error {
					d, err := rowstream.OpenDirect(ctx, cfg)
					if err != nil {
						return err
					}
					v, err := d.ShortView(ctx, identity, table, 1<<40)
					if err == nil {
						err = v.Close()
					}
					return errors.Join(err, d.Close())
				},
			} {
				t.Run(what, func(t *testing.T) {
					proxy.Set(0, "")
					if err := do(t.Context()); err != nil {
						t.Fatal(err)
					}
					if sent := strings.Join(proxy.Packets(), "\n"); what == "short view" && (!strings.Contains(sent, "wait_timeout = 2200") || !strings.Contains(sent, "net_write_timeout = 2200")) {
						t.Errorf("the server does not end the session after twice the view's age limit: %s", sent)
					}
					proxy.EachFails(t, func() error { return do(t.Context()) }, notReplacement, settings)
				})
			}
		})
	}
}

// TestSnapshotXADenied takes a snapshot by an account that may not see prepared XA transactions.
func TestSnapshotXADenied(t *testing.T) {
	server := testmysql.StartOrSkip(t, testmysql.WithMySQL(), testmysql.WithBinlog())
	c := testrows.Connect(t, testrows.Root(server))
	testrows.Exec(t, c, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE USER some IDENTIFIED BY '"+testmysql.Password+"'", "GRANT SELECT, RELOAD, PROCESS, REPLICATION CLIENT ON *.* TO some")
	table, err := rowstream.ReadTable(t.Context(), c, "d", "t")
	if err != nil {
		t.Fatal(err)
	}
	cfg := testrows.Root(server)
	cfg.User = "some"
	s, err := rowstream.OpenSnapshot(t.Context(), cfg, 2, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	if want := "GRANT XA_RECOVER_ADMIN"; !strings.Contains(s.How(), want) {
		t.Errorf("%s, want %s", s.How(), want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
