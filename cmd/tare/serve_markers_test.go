package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestEventsOfAGateway checks that a schema change through the gateway and a reported event are listed, even
// after a restart.
func TestEventsOfAGateway(t *testing.T) {
	account := testmysql.Shared(t).Config(testmysql.AppUser)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o700))
	g, err := startLocal(t, dir, account.Addr)
	must(t, err)
	through := account.Clone()
	through.Addr, through.DBName = g.mysql, testmysql.DefaultSchema
	db, err := sql.Open("mysql", through.FormatDSN())
	must(t, err)
	for _, text := range []string{"CREATE TABLE marked (a INT, b INT, KEY k (b))", "ALTER TABLE marked DROP INDEX k", "DROP TABLE marked"} {
		_, err := db.ExecContext(t.Context(), text)
		must(t, err)
	}
	must(t, db.Close())
	resp, err := http.Post(g.http+"/api/v1/events", "application/json", strings.NewReader(`{"kind": "deploy", "title": "shop 4.2"}`))
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	all := func() string { return g.page(t, "/api/v1/events") }
	testwait.UntilState(t, "the events", func() (string, bool) {
		list := strings.ToLower(all())
		for _, want := range []string{"alter table", "drop table", `"deploy"`, `"restart"`, `.marked"]`, `"client":"127.0.0.1"`} {
			if !strings.Contains(list, want) {
				return list, false
			}
		}
		return list, true
	})
	must(t, g.stop())
	g, err = startLocal(t, dir, account.Addr)
	must(t, err)
	if list := all(); !strings.Contains(list, "shop 4.2") || strings.Count(list, `"restart"`) != 2 && !strings.Contains(list, `"count":2`) {
		t.Errorf("after a restart: %s", list)
	}
	must(t, g.stop())
}
