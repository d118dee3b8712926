package copier_test

import (
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestNoErrorIsAbsence has a server fail at each statement of a copy within it, in turn: the copy fails with the server's error, and does
// not go without what the statement reads.
func TestNoErrorIsAbsence(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a part of make long")
	}
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testmysql.StartOrSkip(t, append(opts, testmysql.WithBinlog())...)
			cfg := testrows.Root(server)
			c := testrows.Connect(t, cfg)
			testrows.Exec(t, c, "CREATE DATABASE d", "CREATE TABLE d.p (id INT PRIMARY KEY)", "INSERT INTO d.p VALUES (1)",
				"CREATE TABLE d.t (id INT PRIMARY KEY, p INT, INDEX (p), FOREIGN KEY (p) REFERENCES p (id))", "INSERT INTO d.t VALUES (1, 1)")
			proxy := testproxy.StartFaulty(t, server.Addr)
			cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
			o := copier.Options{From: copier.FromServer(cfg), To: cfg, Tuning: copier.Tuning{Workers: 1}}
			for _, name := range []string{"p", "t"} {
				o.Tables = append(o.Tables, tabledef.Spec{Schema: "d", Name: name, ToSchema: "e"})
			}
			run := func() error {
				testrows.Exec(t, c, "DROP DATABASE IF EXISTS e", "CREATE DATABASE e", "DROP DATABASE IF EXISTS _tare")
				_, err := copier.Run(t.Context(), o)
				return err
			}
			replaced := "SHOW MASTER STATUS" // its error is that of the statement after it, which MySQL 8.4 and later have instead
			if name == "MariaDB" {
				replaced = "SHOW BINARY LOG STATUS"
			}
			proxy.EachFails(t, run, replaced,
				"SELECT VERSION(), CONNECTION_ID(),",                                                                                                                         // sent again with each variable that the server does not have
				"SELECT `id` FROM `d`.`p` FORCE INDEX (`PRIMARY`) ORDER BY `id` DESC LIMIT 1", "SELECT `id` FROM `d`.`t` FORCE INDEX (`PRIMARY`) ORDER BY `id` DESC LIMIT 1", // the last keys, for estimates
				"SELECT RELEASE_ALL_LOCKS()") // before the connection is closed
		})
	}
}
