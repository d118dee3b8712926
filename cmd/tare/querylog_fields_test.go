package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
)

// A logLine is a line of the query log, decoded by a JSON library.
type logLine map[string]any

// TestQueryLogFields runs statements through a real process and server, and checks every documented field
// where it applies.
func TestQueryLogFields(t *testing.T) {
	server := testmysql.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "query.log")
	l := startLogged(t, server, dir, file, whole("--log-file-mode", "0640", "--statement-memory", "16KiB",
		"--log-max-text", "32KiB", "--log-filter", `user=app text!~"not this"`)...)
	l.mysql.DBName, l.mysql.MultiStatements = testmysql.DefaultSchema, true
	connector, err := mysql.NewConnector(l.mysql)
	must(t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	c, err := db.Conn(t.Context())
	must(t, err)
	defer c.Close()
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := c.ExecContext(context.Background(), text, args...); err != nil {
			t.Fatalf("%.80s: %v", text, err)
		}
	}
	rows := func(text string, args ...any) {
		t.Helper()
		r, err := c.QueryContext(context.Background(), text, args...)
		must(t, err)
		for more := true; more; more = r.NextResultSet() {
			for r.Next() {
			}
		}
		must(t, r.Close())
	}

	rows("SELECT 1 FROM dual /*app='shop',route='%2Forders'*/") // 0
	run("SELECT 'not this'")                                    // rejected by the filter
	rows("SELECT 2 FROM dual /*app='shop',route='%2Forders'*/") // 1: the plan is cached
	run("CREATE TABLE things (id INT PRIMARY KEY, name VARBINARY(10))")
	run("BEGIN")                                                              // 3
	run("INSERT INTO things VALUES (?, ?) /*app='shop'*/", 7, []byte("\xff")) // 4 prepares, 5 executes
	run("COMMIT")                                                             // 6
	_, err = c.ExecContext(t.Context(), "INSERT INTO things VALUES (7, 'again')")
	if err == nil {
		t.Fatal("a duplicate key was accepted")
	} // 7
	run("PREPARE by_id FROM 'SELECT name FROM things WHERE id = ?'") // 8
	run("SET @id = 7")
	rows("EXECUTE by_id USING @id")                              // 10
	run("DEALLOCATE PREPARE by_id")                              // 11
	rows("SELECT id FROM things; SELECT 1 UNION SELECT 2")       // 12
	run("SELECT CAST('x' AS INT)")                               // 13: warns
	long := "SELECT '" + strings.Repeat("x", 200_000) + "' AS v" // streamed
	rows(long)                                                   // 14
	wide := "SELECT 1" + strings.Repeat(", a_rather_long_name_of_a_column", 4000) + " FROM things WHERE 1 = 0"
	_, _ = c.ExecContext(t.Context(), wide) // 15: no such column; longer than the digest's text
	const statements = 16
	l.until("written", func(n counts) bool { return n.written == statements+1 })

	lines := readLines(t, file)
	if len(lines) != statements+1 || lines[0]["kind"] != "start" {
		t.Fatalf("%d lines, want a start line and %d statements: %v", len(lines), statements, lines)
	}
	info, err := os.Stat(file)
	must(t, err)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("the file has mode %v, want 0640", info.Mode())
	}
	lines = lines[1:]
	for i, line := range lines {
		checkCommon(t, i, line, server.Addr)
	}
	tags := map[string]any{"app": "shop", "route": "/orders"}
	for i, want := range map[int]logLine{
		0: {"command": "Query", "statement_type": "select", "rows_returned": 1.0, "plan_cached": false, "tags": tags, "text": "SELECT 1 FROM dual /*app='shop',route='%2Forders'*/"},
		1: {"plan_cached": true, "digest": lines[0]["digest"], "transaction_id": nil, "statement_name": nil, "error_number": nil, "results": nil},
		4: {"command": "Prepare", "statement_id": lines[5]["statement_id"], "statement_type": "insert", "binds": nil, "tags": map[string]any{"app": "shop"}},
		5: {
			"command": "Execute", "rows_affected": 1.0, "digest": lines[4]["digest"], "normalized": lines[4]["normalized"],
			"tags": map[string]any{"app": "shop"}, "transaction_id": lines[3]["transaction_id"],
			"binds": []any{
				map[string]any{"type": "LONGLONG", "value": 7.0},
				map[string]any{"type": "STRING", "value_base64": "/w=="},
			},
		},
		6:  {"statement_type": "commit", "transaction_id": lines[3]["transaction_id"]},
		7:  {"error_number": 1062.0, "sqlstate": "23000", "error_text": "Duplicate entry '7' for key 'PRIMARY'", "transaction_id": nil},
		8:  {"statement_type": "prepare", "statement_name": "by_id"},
		10: {"statement_type": "execute", "statement_name": "by_id", "rows_returned": 1.0},
		11: {"statement_type": "deallocate", "statement_name": "by_id"},
		12: {"statement_type": "multi", "results": 2.0, "rows_returned": 3.0},
		13: {"warnings": 1.0},
		14: {"text": long[:32<<10], "text_bytes": float64(len(long)), "bytes_in": float64(4 + 1 + len(long)), "rows_returned": 1.0, "normalized": "SELECT ? AS `v`"},
		15: {"error_number": 1054.0, "normalized_cut": true},
	} {
		for name, v := range want {
			if got := lines[i][name]; fmt.Sprint(got) != fmt.Sprint(v) {
				t.Errorf("line %d, %s: got %.200v, want %.200v", i, name, got, v)
			}
		}
	}
	if lines[3]["transaction_id"] == nil {
		t.Error("BEGIN has no transaction_id")
	}
}

// checkCommon checks the fields that every statement has.
func checkCommon(t *testing.T, i int, line logLine, backend string) {
	t.Helper()
	for name, want := range map[string]any{"kind": "statement", "user": "app", "schema": testmysql.DefaultSchema, "backend": backend, "seq": float64(i + 2)} {
		if line[name] != want {
			t.Errorf("line %d, %s: got %v, want %v", i, name, line[name], want)
		}
	}
	for _, name := range []string{
		"boot", "start", "end", "total_ns", "plan_ns", "backend_ns", "first_byte_ns", "client", "connection_id",
		"command", "statement_type", "digest", "normalized", "bytes_in", "bytes_out", "plan_cached",
	} {
		if line[name] == nil {
			t.Errorf("line %d has no %s", i, name)
		}
	}
	start, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["start"]))
	must(t, err)
	end, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["end"]))
	must(t, err)
	number := func(name string) time.Duration { v, _ := line[name].(float64); return time.Duration(v) }
	if total := number("total_ns"); end.Sub(start) != total || number("plan_ns")+number("backend_ns") > total || number("first_byte_ns") > number("backend_ns") {
		t.Errorf("line %d: start %v, end %v, total %v, plan %v, backend %v, first byte %v", i, start, end, total,
			number("plan_ns"), number("backend_ns"), number("first_byte_ns"))
	}
}

func readLines(t *testing.T, path string) (lines []logLine) {
	t.Helper()
	log, err := os.ReadFile(path)
	must(t, err)
	for b := range bytes.Lines(log) {
		var line logLine
		if err := json.Unmarshal(b, &line); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		lines = append(lines, line)
	}
	return lines
}
