package main

import (
	"bytes"
	"database/sql"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// documentedFiles returns the names in the first column of a page's table of files, as patterns of paths.
func documentedFiles(t *testing.T, page string) (patterns []*regexp.Regexp) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`.*\\|$").FindAllSubmatch(text, -1) {
		p := regexp.QuoteMeta(string(m[1]))
		p = strings.NewReplacer("ULID", "[0-9A-Z]{26}", "instance-N", "instance-[0-9]+").Replace(p)
		if !strings.HasSuffix(p, "/") {
			p += "$"
		}
		patterns = append(patterns, regexp.MustCompile("^"+p))
	}
	if len(patterns) < 5 {
		t.Fatalf("%s lists %d files", page, len(patterns))
	}
	return patterns
}

// TestDocumentedDataDir uses a gateway with all that it can store, and expects the page to list every file of its data directory.
// No file has a literal or a password, and only those that the page names have users, tables, tags and addresses.
func TestDocumentedDataDir(t *testing.T) {
	dir := t.TempDir()
	account := testmysql.Shared(t).Config(testmysql.RootUser)
	writeUsedDir(t, dir, account.Addr)
	g, err := startLocal(t, dir, account.Addr, "tag-labels", "route", "history-interval", "1s",
		"control", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+account.Addr)
	must(t, err)
	c := account.Clone()
	c.Net, c.Addr, c.DBName = "tcp", g.mysql, ""
	db, err := sql.Open("mysql", c.FormatDSN())
	must(t, err)
	defer db.Close()
	const literal, route, title = "literal4711", "routeofauser", "releaseofauser"
	for _, text := range []string{
		"CREATE DATABASE IF NOT EXISTS datadirofauser", "DROP TABLE IF EXISTS datadirofauser.kept",
		"CREATE TABLE datadirofauser.kept (id INT PRIMARY KEY, note VARCHAR(20) DEFAULT '" + literal + "' COMMENT '" + literal + "')",
		"INSERT INTO datadirofauser.kept VALUES (1, '" + literal + "') /*route='" + route + "'*/",
		"DROP DATABASE datadirofauser",
	} {
		_, err := db.ExecContext(t.Context(), text)
		must(t, err)
	}
	_, err = db.ExecContext(t.Context(), "DO SLEEP(?), ?", 0, literal)
	must(t, err)
	resp, err := http.Post(g.http+"/api/v1/events", "application/json", strings.NewReader(`{"kind": "deploy", "title": "`+title+`"}`))
	must(t, err)
	must(t, resp.Body.Close())
	testwait.Until(t, "the samples of the statements", func() bool {
		return strings.Contains(g.page(t, "/api/v1/query?query=tare_tag_queries_total"), route)
	})
	must(t, g.stop())

	data := filepath.Join(dir, "data")
	documented := documentedFiles(t, "../../docs/operate/data-directory.md")
	found := make(map[string]string) // the first file that has a text
	must(t, filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(data, path)
		must(t, err)
		if !slices.ContainsFunc(documented, func(p *regexp.Regexp) bool { return p.MatchString(rel) }) {
			t.Errorf("%s is not in the table of data-directory.md", rel)
		}
		text, err := os.ReadFile(path)
		must(t, err)
		for _, s := range []string{literal, testmysql.Password, "datadirofauser", testmysql.RootUser, route, title, "127.0.0.1"} {
			if !bytes.Contains(text, []byte(s)) {
				continue
			}
			found[s] += " " + rel
			inHistory, inEvents := strings.HasPrefix(rel, "history/"), rel == "events.log"
			switch {
			case s == literal, s == testmysql.Password, s == route && !inHistory, s == title && !inEvents, !inHistory && !inEvents:
				t.Errorf("%s has %q", rel, s)
			}
		}
		return nil
	}))
	for _, s := range []string{"datadirofauser", testmysql.RootUser, title, "127.0.0.1"} {
		if !strings.Contains(found[s], "events.log") {
			t.Errorf("events.log has no %q, which the page says", s)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "query.log"))
	must(t, err)
	if bytes.Contains(log, []byte(literal)) || !bytes.Contains(log, []byte("datadirofauser")) {
		t.Error("the query log has a literal without --log-redact none, or lacks a statement")
	}
}
