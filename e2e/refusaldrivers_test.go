//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A refusalClient is a driver with its scenario: statements that are refused between others.
type refusalClient struct {
	name    string
	prepare func(*testing.T)
	run     []string // command, before the address
	options []string // after the schema
	wire    []string // commands of which it sends one for the last prepared statement after a refused PREPARE, to MariaDB
}

const refusalMessage = "secrets are kept"

const refusalRules = `serve:
  rules:
    - name: secrets
      action: block
      types: [delete]
      tables: ["matrix.secret"]
      message: ` + refusalMessage + "\n"

// TestRefusalDrivers compares what applications see when a rule refuses a statement, and after it, with a statement
// that the server refuses for lack of a privilege.
func TestRefusalDrivers(t *testing.T) {
	servers, _ := startMatrixServers(t)
	rules := filepath.Join(t.TempDir(), "tare.yaml")
	must(t, os.WriteFile(rules, []byte(refusalRules), 0o600))
	for _, c := range refusalClients(t) {
		t.Run(strings.ReplaceAll(c.name, "/", "-"), func(t *testing.T) {
			c.prepare(t)
			for _, s := range servers {
				t.Run(s.name, func(t *testing.T) { refuseDriver(t, c, s, rules) })
			}
		})
	}
}

func refuseDriver(t *testing.T, c refusalClient, s matrixServer, rules string) {
	log := filepath.Join(t.TempDir(), "wire.log")
	p := startTare(t, s.addr, "--config", rules, "--log-file", log)
	var saw [2]string
	for i, at := range []struct{ addr, user string }{{s.addr, "limited"}, {p.addr, s.accounts[0]}} {
		must(t, s.exec("drop database if exists matrix", "create database matrix", "create table matrix.things (a int auto_increment primary key, b int)",
			"create table matrix.secret (a int primary key)", "insert into matrix.secret values (1), (2), (3)",
			"drop user if exists limited@'%'", "create user limited@'%' identified by '"+matrixPassword+"'",
			"grant select, insert on matrix.* to limited@'%'"))
		db := openAs(t, s.addr, at.user, "matrix", true) // the server caches the password: the drivers log in without TLS
		must(t, db.Ping())
		db.Close()
		args := append(append(append([]string{}, c.run[1:]...), "127.0.0.1", port(t, at.addr), at.user, matrixPassword, "matrix"), c.options...)
		stdout, stderr, err := command(t, "", c.run[0], args...)
		if err != nil || !strings.HasSuffix(stdout, "done\n") {
			t.Fatalf("%s at %s: %v\n%s%s", c.name, at.addr, err, stdout, stderr)
		}
		saw[i] = stdout
		var secrets int
		scan(t, open(t, s.addr, ""), "select count(*) from matrix.secret", &secrets)
		if secrets != 3 {
			t.Errorf("%s: %d of 3 rows are left\n%s", c.name, secrets, stdout)
		}
	}
	if strings.HasPrefix(s.name, "MariaDB") {
		for _, command := range c.wire {
			testwait.Until(t, command+" of the last prepared statement in the log", func() bool {
				text, err := os.ReadFile(log)
				must(t, err)
				return lastPrepared(text, command)
			})
		}
	}
	if strings.Count(saw[1], "refused 1227 ") < 3 || !strings.Contains(saw[1], refusalMessage) {
		t.Errorf("the application does not see the refusal:\n%s", saw[1])
	}
	if strings.HasPrefix(s.name, "TiDB") { // has no SIGNAL: SHOW WARNINGS differs
		return
	}
	if direct, through := withoutRefusal(saw[0]), withoutRefusal(saw[1]); direct != through {
		t.Errorf("through Tare it differs: %s", difference(through, direct))
	}
}

// lastPrepared reports whether a log has the command with the number of the last prepared statement, and its error.
func lastPrepared(text []byte, command string) bool {
	for line := range bytes.Lines(text) {
		var r struct {
			Command     string `json:"command"`
			StatementID uint32 `json:"statement_id"`
			ErrorNumber int    `json:"error_number"`
		}
		if json.Unmarshal(line, &r) == nil && r.Command == command && r.StatementID == mysqlwire.LastPreparedID && r.ErrorNumber == int(mysqlwire.ErrnoUnknownStatement) {
			return true
		}
	}
	return false
}

// refusalError is the part of a transcript that depends on what refused the statement: number, and text to the line's end.
var refusalError = regexp.MustCompile(`\b(1142|1227)\b|["'|]?(DELETE command denied|Tare refused).*`)

func withoutRefusal(transcript string) string { return refusalError.ReplaceAllString(transcript, "#") }

// refusalClients returns the drivers. Installed ones stay until t ends.
func refusalClients(t *testing.T) []refusalClient {
	clients := make(map[string]func(*testing.T))
	for _, c := range matrixClients(t) {
		clients[c.name] = c.prepare
	}
	dir := t.TempDir()
	java := func(t *testing.T) {
		clients["Connector/J"](t)
		mustRun(t, "", "javac", "-d", dir, "testdata/Refusal.java")
		t.Setenv("CLASSPATH", dir+string(os.PathListSeparator)+os.Getenv("CLASSPATH"))
	}
	connectorC := func(t *testing.T) {
		flags := strings.Fields(mustRun(t, "", "mariadb_config", "--include", "--libs"))
		mustRun(t, "", "gcc", append([]string{"-o", filepath.Join(dir, "refusal"), "testdata/refusal.c"}, flags...)...)
	}
	python := clients["PyMySQL"]
	return []refusalClient{
		{name: "PyMySQL", prepare: python, run: []string{"python3", "testdata/refusal.py", "pymysql"}},
		{name: "Connector/Python", prepare: python, run: []string{"python3", "testdata/refusal.py", "connector"}},
		{name: "Connector/Python, pure", prepare: python, run: []string{"python3", "testdata/refusal.py", "connector-pure"}},
		{name: "mysql2", prepare: clients["mysql2"], run: []string{"node", "testdata/refusal.mjs"}},
		{name: "Connector/J", prepare: java, run: []string{"java", "Refusal", "mysql"}, options: []string{""}},
		{name: "Connector/J, rewritten batches", prepare: java, run: []string{"java", "Refusal", "mysql"}, options: []string{"&rewriteBatchedStatements=true"}},
		{name: "MariaDB Connector/J", prepare: java, run: []string{"java", "Refusal", "mariadb"}, options: []string{"&useBulkStmts=true"}, wire: []string{"Execute", "Bulk Execute"}},
		{name: "Connector/C", prepare: connectorC, run: []string{filepath.Join(dir, "refusal")}, wire: []string{"Execute", "Bulk Execute"}},
	}
}
