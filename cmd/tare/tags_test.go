package main

import (
	"database/sql"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestTagLabels runs tagged statements through the binary: /metrics and the history have the calls of each value, of as many
// values as may be.
func TestTagLabels(t *testing.T) {
	server := testmysql.Start(t)
	dir := t.TempDir()
	s := startServe(t, server.Addr, "--bucket", "file://"+dir+"/bucket", "--data-dir", dir+"/data", "--history-interval", "1s", "--tag-labels", "route", "--tag-labels", "application", "--tag-values", "2")
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr = testmysql.RootUser, testmysql.Password, "tcp", s.listen
	connector, err := mysql.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	defer db.Close()
	for _, tags := range []string{"route='%2Forders'", "application='shop',route='%2Forders'", "route='%2Fcart'", "route='%2Fthird'", "traceparent='1'", ""} {
		rows, err := db.QueryContext(t.Context(), "SELECT 1 FROM dual /*"+tags+"*/")
		must(t, err)
		must(t, rows.Close())
	}
	if _, err := db.ExecContext(t.Context(), "SELECT no_such_column /*route='%2Fcart'*/"); err == nil {
		t.Error("no error")
	}
	want := []string{
		`tare_tag_queries_total{tag="route",value="/orders"} 2`, `tare_tag_queries_total{tag="route",value="/cart"} 2`, `tare_tag_queries_total{tag="route",value="other"} 1`,
		`tare_tag_queries_total{tag="application",value="shop"} 1`, `tare_tag_query_errors_total{tag="route",value="/cart"} 1`, `tare_tag_query_errors_total{tag="route",value="/orders"} 0`,
	}
	testwait.UntilState(t, "the counts by tags", func() (string, bool) {
		resp, err := http.Get(s.http + "/metrics")
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		for _, line := range want {
			if !strings.Contains(string(body), line+"\n") {
				return line, false
			}
		}
		return "", !strings.Contains(string(body), "third") && strings.Contains(string(body), `tare_tag_query_seconds_total{tag="route",value=""}`)
	})
	testwait.UntilState(t, "the counts by tags in the history", func() (string, bool) {
		resp, err := http.Get(s.http + "/api/v1/query?query=" + url.QueryEscape(`sum by (value) (tare_tag_queries_total{tag="route"})`))
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		for value, calls := range map[string]string{"/orders": "2", "/cart": "2", "other": "1"} {
			if !regexp.MustCompile(`\{"value":"` + value + `"\},"value":\[[0-9.]+,"` + calls + `"\]`).Match(body) {
				return string(body), false
			}
		}
		return "", true
	})
}
