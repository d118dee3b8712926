package binlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestNoErrorIsAbsence has a server fail at each statement of the checks and positions of a follower, in turn: each is an error with the
// server's text, and no reason to do without what the statement reads.
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
			const settings = "SELECT VERSION(), CONNECTION_ID()," // sent again with each variable that the server does not have
			notReplacement := "SHOW MASTER STATUS"                // its error is that of the statement after it, which MySQL 8.4 and later have instead
			if name == "MariaDB" {
				notReplacement = "SHOW BINARY LOG STATUS"
			}
			proxy.EachFails(t, func() error { return checks(t.Context(), cfg, table) }, notReplacement, settings)
		})
	}
}

// checks calls all of a follower that reads settings or positions.
func checks(ctx context.Context, cfg mysqlconn.Config, table *rowstream.Table) (err error) {
	d, err := binlog.OpenDirect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	from, err := d.CurrentPosition(ctx)
	if err != nil {
		return err
	}
	named, err := d.GTIDPosition(ctx)
	if err != nil {
		return err
	}
	if _, err := d.LogBytes(ctx, from, named); err != nil {
		return err
	}
	if err := d.CheckFollow(ctx, []*rowstream.Table{table}, from); err != nil {
		return err
	}
	h := binlog.Heartbeat{Schemas: []string{"d"}, Copy: "c"}
	return errors.Join(d.CheckHeartbeat(ctx, h))
}
