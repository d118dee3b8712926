package gateway_test

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// startTiDB runs the server that make tidb builds until the test ends, with the accounts of testmysql.
func startTiDB(t *testing.T) (addr string, exe func(...string) error) {
	program, err := filepath.Abs(filepath.Join("..", ".tools", "tidb", "tidb-server"))
	must(t, err)
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("UNTESTED: there is no TiDB server: make tidb builds one")
	}
	addr = testmysql.StartTiDB(t, program, t.TempDir())
	db, err := sql.Open("mysql", (&mysql.Config{User: "root", Net: "tcp", Addr: addr, DBName: "mysql", AllowNativePasswords: true, MaxAllowedPacket: 64 << 20, Collation: "utf8mb4_bin"}).FormatDSN())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	exe = func(statements ...string) error {
		for _, q := range statements {
			if _, err := db.ExecContext(t.Context(), q); err != nil {
				return err
			}
		}
		return nil
	}
	must(t, exe("create user if not exists app@'%' identified by '"+testmysql.Password+"'", "grant all on *.* to app@'%'", "create database if not exists test"))
	return addr, exe
}

// tidbDiffers are the rows in which a refusal by the gateway differs from TiDB's own error, and why.
var tidbDiffers = map[string]string{
	"transaction: CALL":                    "TiDB has no such procedure",
	"last prepared statement: diagnostics": "a failed PREPARE leaves no diagnostics",
	"statements: the first ones":           "none of several statements is executed",
	"statements: results":                  "none of several statements is executed",
	"statements: an earlier error":         "none of several statements is executed",
	"statements: USE":                      "none of several statements is executed",
	"statements: transaction":              "none of several statements is executed",
	"statements: CALL":                     "TiDB has no such procedure",
	"statements by name: several":          "none of several statements is executed",
	"long data: of another statement":      "statements are named by numbers that TiDB does not have",
}

// tidbOwn is what a session's variables say of its last statement, and the error by which TiDB fails in the gateway's place.
var tidbOwn = regexp.MustCompile(`\["(tidb_last_query_info|last_sql_use_alloc)" "[^]]*\] |"1054" "Unknown column '(message|tare refused[^\]]*)"`)

// TestRefusalMemoryTiDB is TestRefusalMemory on TiDB.
func TestRefusalMemoryTiDB(t *testing.T) {
	if !*allRefusals {
		t.Skip("-all-refusals is off")
	}
	addr, exe := startTiDB(t)
	r := prepareRefusals(t, addr, exe, true)
	own := func(s string) string {
		return tidbOwn.ReplaceAllStringFunc(s, func(match string) string {
			if match[0] == '[' {
				return ""
			}
			return `(number) "(message)"`
		})
	}
	for _, m := range memories() {
		if m.attr || strings.HasPrefix(m.name, "parameter types") { // TiDB closes a connection that executes a statement before it has types
			continue
		}
		through, refused := r.playThrough(t, m, false, 0)
		direct, failed := r.playDirectly(t, m, false, 0)
		same := own(direct) == own(through) && sameKind(refused, failed)
		if why := tidbDiffers[m.name]; same != (why == "") {
			t.Errorf("%s (%s): after a refusal %d\n%safter the server's error %d\n%s", m.name, why, refused.Number, through, failed.Number, direct)
		}
	}
}

// TestResponseEndsTiDB is TestResponseEnds on TiDB, whose responses are not in the page's table.
func TestResponseEndsTiDB(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	addr, exec := startTiDB(t)
	must(t, exec("create database ends", "alter user root identified by '"+testmysql.Password+"'"))
	m := &responseMatrix{server: responseServer{name: "TiDB"}, direct: addr, gateway: startGateway(t, addr, nil).addr, ends: make(map[string]string)}
	d := openDialogue(t, addr, scriptCaps&^mysqlwire.CapConnectWithDB)
	for _, sql := range responseObjects[1:] {
		r, err := d.run("text " + sql)
		must(t, err)
		if e := ending(r); e != "OK" && !strings.HasPrefix(sql, "create procedure") && !strings.HasPrefix(sql, "create function") {
			t.Fatalf("%s: %q", sql, r.packets)
		}
	}
	m.run(t)
}
