//go:build e2e

package settings

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of the test's own sessions

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

var (
	cases   = flag.Int("settings.cases", 12, "how many cases to run for each server, chosen at random; -1: all")
	only    = flag.String("settings.only", "", "run the cases of this `variable` only")
	state   = flag.String("settings.state", "", "append results to this `file`, and skip the cases that it has")
	program = flag.String("settings.tare", "", "another tare `binary`")
	limit   = flag.Duration("settings.limit", 2*time.Minute, "time after which a command has hung")
	shard   = flag.String("settings.shard", "0/1", "run the part `I/N` of the cases")
)

var binary string // the built tare

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if binary = *program; binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "tare-settings-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "tare")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/taredb/tare/cmd/tare").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build tare: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// TestSettings runs the cases on each server.
func TestSettings(t *testing.T) {
	rnd := testseed.Rand(t)
	for _, product := range []struct {
		name string
		opts []testmysql.Option
	}{{"MariaDB", nil}, {"MySQL", []testmysql.Option{testmysql.WithMySQL()}}} {
		t.Run(product.name, func(t *testing.T) {
			p := newPair(t, product.opts)
			done, results := finished(t, p.version), make(map[string]int)
			all := p.list(t)
			t.Logf("%s: %d cases", p.version, len(all))
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			var part, parts, n int
			if _, err := fmt.Sscanf(*shard, "%d/%d", &part, &parts); err != nil {
				t.Fatal(err)
			}
			for i, c := range all {
				if i%parts != part || *only != "" && c.variable != *only || done[p.version+"\t"+c.String()] {
					continue
				}
				if n++; *cases >= 0 && n > *cases {
					break
				}
				outcome, why := p.try(t, c)
				results[outcome]++
				record(t, p.version, c, outcome, why)
				if outcome != equal && outcome != refused && outcome != unsettable {
					t.Errorf("%v: %s: %s", c, outcome, why)
				}
			}
			t.Logf("%s: %v", p.version, results)
		})
	}
}

// Outcomes of a case.
const (
	equal      = "equal"
	refused    = "refused"
	wrong      = "wrong"
	unnamed    = "failed without naming the variable"
	hung       = "hung"
	unsettable = "the server refuses the value"
)

// A setting is a case: a value of a variable, and the servers that have it.
type setting struct {
	variable, value string // value as in SET
	sides           string
}

// String identifies the case.
func (s setting) String() string { return s.variable + " = " + s.value + " on " + s.sides }

// A pair is a source and a target.
type pair struct {
	version  string
	mysql    bool
	servers  [2]*testmysql.Server
	sessions [2]*sql.DB
	create   string
	insert   string
	dir      string
	n        int
}

// account is the login of the commands.
const account = "copier"

func newPair(t *testing.T, opts []testmysql.Option) *pair {
	t.Helper()
	text, err := os.ReadFile("../testdata/alter-table.sql")
	must(t, err)
	create, insert, _ := strings.Cut(string(text), ";\nINSERT")
	p := &pair{create: create, insert: "INSERT" + strings.TrimRight(insert, ";\n"), dir: t.TempDir(), mysql: len(opts) > 0}
	opts = append(opts, testmysql.WithBinlog(), testmysql.WithSetup("create user if not exists "+account+" identified by '"+testmysql.Password+"'", "grant all on *.* to "+account))
	for i := range p.servers {
		p.servers[i] = testmysql.StartOrSkip(t, opts...)
		must(t, p.servers[i].Exec("SET GLOBAL local_infile = 1"))
		// The test's sessions were opened before any change.
		db, err := sql.Open("mysql", p.servers[i].DSN(testmysql.RootUser)+"?multiStatements=true")
		must(t, err)
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
		t.Cleanup(func() { _ = db.Close() })
		p.sessions[i] = db
		must(t, db.QueryRow("SELECT VERSION()").Scan(&p.version))
		_, err = db.Exec("SET SESSION wait_timeout = 31536000, net_read_timeout = 3600, net_write_timeout = 3600, time_zone = '+00:00'")
		must(t, err)
	}
	return p
}

// try runs a case.
func (p *pair) try(t *testing.T, c setting) (outcome, why string) {
	t.Helper()
	p.reset(t)
	restore, err := p.set(c)
	defer restore(t)
	if err != nil {
		return unsettable, err.Error()
	}
	at := func(i int) string { return "mysql://" + account + ":" + testmysql.Password + "@" + p.servers[i].Addr }
	p.n++
	dump := filepath.Join(p.dir, fmt.Sprint("dump", p.n))
	follow := []string{"copy", "--from", at(0), "--to", at(1), "--tables", "zoo.t", "--follow", "--follow-until=caught-up", "--verify", "--chunk-bytes", "4KiB", "--control-socket", "off", "--patience", "20s"}
	for _, step := range []struct {
		what   string
		before string // statements on the source
		clear  bool   // the target
		args   []string
	}{
		{"copy", "", false, follow},
		{"changes", "UPDATE zoo.t SET n = n + 1, name = CONCAT(name, '!') WHERE id % 3 = 0; DELETE FROM zoo.t WHERE id % 7 = 0; REPLACE INTO zoo.t (id, name, big) VALUES (0, 'zero', 1), (1000, REPEAT('x', 40), 0)", false, follow},
		{"dump", "", true, []string{"copy", "--from", at(0), "--tables", "zoo.t", "--to", "file://" + dump, "--control-socket", "off", "--chunk-bytes", "4KiB"}},
		{"load", "", false, []string{"copy", "--from", "file://" + dump, "--to", at(1), "--verify", "--control-socket", "off"}},
		{"alter", "", false, []string{"alter", "--on", at(1), "--table", "zoo.t", "ADD COLUMN added INT NOT NULL DEFAULT 7", "--always-copy", "--chunk-bytes", "4KiB", "--control-socket", "off", "--patience", "20s", "--keep-old", "1h"}},
		{"revert", "", false, []string{"alter", "revert", "--on", at(1), "--table", "zoo.t", "--control-socket", "off", "--patience", "20s"}},
	} {
		if step.before != "" {
			if err := p.exec(0, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'; "+step.before); err != nil {
				return refused, step.what + ": the server refuses clients' changes: " + err.Error()
			}
		}
		if step.clear {
			must(t, p.exec(1, "DROP DATABASE zoo; DROP DATABASE _tare"))
		}
		out, err := p.run(t, step.args)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return hung, step.what + ": " + out
		case err != nil && names(out, c.variable):
			return refused, step.what + ": " + out
		case err != nil:
			return unnamed, step.what + ": " + out
		}
		if step.what == "dump" {
			continue
		}
		if diff, err := p.differ(); err != nil || diff != "" {
			return wrong, fmt.Sprintf("%s: %s %v", step.what, diff, err)
		}
	}
	return equal, ""
}

// run runs a command, and returns the end of its output.
func (p *pair) run(t *testing.T, args []string) (out string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	text, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return strings.ReplaceAll(string(text[max(0, len(text)-700):]), "\n", " / "), err
}

// reset creates the source's table again, and clears the target.
func (p *pair) reset(t *testing.T) {
	t.Helper()
	for i := range p.servers {
		must(t, p.exec(i, "DROP DATABASE IF EXISTS zoo; DROP DATABASE IF EXISTS _tare"))
	}
	must(t, p.exec(0, "CREATE DATABASE zoo CHARACTER SET utf8mb4; "+strings.ReplaceAll(p.create, "{table}", "zoo.t")))
	insert := strings.ReplaceAll(p.insert, "{table}", "zoo.t")
	for id := 1; id <= 60; id++ {
		must(t, p.exec(0, strings.ReplaceAll(insert, "{id}", fmt.Sprint(id))))
	}
}

func (p *pair) exec(i int, text string) error {
	_, err := p.sessions[i].Exec(text)
	return err
}

// set sets the variable on the case's servers. restore restores the values from before.
func (p *pair) set(c setting) (restore func(t *testing.T), err error) {
	var undo []func(t *testing.T)
	restore = func(t *testing.T) {
		for _, f := range undo {
			f(t)
		}
	}
	for i, side := range []string{"source", "target"} {
		if c.sides != "both" && c.sides != side {
			continue
		}
		var was sql.NullString
		if err := p.sessions[i].QueryRow("SELECT @@GLOBAL." + c.variable).Scan(&was); err != nil {
			return restore, err
		}
		undo = append(undo, func(t *testing.T) {
			old := "NULL"
			if was.Valid {
				old = quote(was.String)
			}
			err := p.exec(i, "SET GLOBAL "+c.variable+" = "+old)
			if err != nil {
				err = p.exec(i, "SET GLOBAL "+c.variable+" = "+was.String) // a number
			}
			if err != nil {
				t.Logf("restore %s = %s: %v", c.variable, old, err)
			}
		})
		if err := p.exec(i, "SET GLOBAL "+c.variable+" = "+c.value); err != nil {
			return restore, err
		}
	}
	return restore, nil
}

// differ compares the rows of both servers by the bytes of every column.
func (p *pair) differ() (string, error) {
	var columns [2]string // of the source: an alteration adds one
	var sums [2]string
	for i := range p.sessions {
		err := p.sessions[0].QueryRow("SELECT GROUP_CONCAT('HEX(COALESCE(CONCAT(', COLUMN_NAME, '), ''NULL''))' ORDER BY ORDINAL_POSITION) FROM information_schema.COLUMNS" +
			" WHERE TABLE_SCHEMA = 'zoo' AND TABLE_NAME = 't'").Scan(&columns[i])
		if err != nil {
			return "", err
		}
		err = p.sessions[i].QueryRow("SELECT CONCAT(COUNT(*), ' rows, ', COALESCE(SUM(CRC32(CONCAT_WS('#', " + columns[i] + "))), 0)) FROM zoo.t").Scan(&sums[i])
		if err != nil {
			return "", err
		}
	}
	if sums[0] != sums[1] {
		return sums[0] + " and " + sums[1], nil
	}
	return "", nil
}

// synonyms are the words by which servers name variables in their errors.
var synonyms = map[string][]string{
	"read_only":                {"--read-only", "read-only"},
	"super_read_only":          {"--super-read-only", "read-only"},
	"max_connections":          {"Too many connections"},
	"max_user_connections":     {"max_user_connections"},
	"require_secure_transport": {"insecure transport", "require_secure_transport"},
	"offline_mode":             {"offline mode"},
	"log_bin":                  {"log_bin"},
}

// names reports whether the output of a command names a variable.
func names(out, variable string) bool {
	return slices.ContainsFunc(append(synonyms[variable], variable), func(s string) bool { return strings.Contains(strings.ToLower(out), strings.ToLower(s)) })
}

// list returns the cases: every variable that can be set, with each of its values, on each side.
func (p *pair) list(t *testing.T) (all []setting) {
	t.Helper()
	query := "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, COALESCE(GLOBAL_VALUE, ''), COALESCE(ENUM_VALUE_LIST, ''), COALESCE(NUMERIC_MIN_VALUE, ''), COALESCE(NUMERIC_MAX_VALUE, '')" +
		" FROM information_schema.SYSTEM_VARIABLES WHERE READ_ONLY = 'NO' AND VARIABLE_SCOPE <> 'SESSION ONLY' ORDER BY 1"
	if p.mysql {
		query = "SELECT m.VARIABLE_NAME, m.DATA_TYPE, COALESCE(g.VARIABLE_VALUE, ''), '', m.MIN_VALUE, m.MAX_VALUE FROM performance_schema.variables_metadata m" +
			" JOIN performance_schema.global_variables g USING (VARIABLE_NAME) ORDER BY 1"
	}
	rows, err := p.sessions[0].Query(query)
	must(t, err)
	defer rows.Close()
	var variables [][6]string
	for rows.Next() {
		var v [6]string
		must(t, rows.Scan(&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]))
		variables = append(variables, v)
	}
	must(t, rows.Err())
	rows.Close()
	for _, v := range variables {
		name := v[0]
		if reason := unfit(name); reason != "" || p.exec(0, "SET GLOBAL "+name+" = @@GLOBAL."+name) != nil {
			continue
		}
		for _, value := range p.values(t, name, strings.ToUpper(v[1]), v[3], v[4], v[5]) {
			for _, sides := range []string{"source", "target", "both"} {
				all = append(all, setting{name, value, sides})
			}
		}
	}
	return all
}

// values returns the values of a variable, as in SET.
func (p *pair) values(t *testing.T, name, kind, list, least, most string) (values []string) {
	t.Helper()
	column := func(query string) {
		rows, err := p.sessions[0].Query(query)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var v string
			must(t, rows.Scan(&v))
			values = append(values, quote(v))
		}
		must(t, rows.Err())
	}
	switch {
	case strings.HasPrefix(name, "character_set_") && name != "character_set_collations":
		column("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
	case strings.HasPrefix(name, "collation_"):
		column("SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE IS_DEFAULT = 'Yes' OR COLLATION_NAME LIKE '%\\_bin'")
	case strings.HasSuffix(name, "storage_engine"):
		column("SELECT ENGINE FROM information_schema.ENGINES WHERE SUPPORT IN ('YES', 'DEFAULT')")
	case name == "time_zone":
		values = []string{"'-12:00'", "'+13:00'"}
	case strings.HasPrefix(name, "lc_"):
		values = []string{"'de_DE'", "'ja_JP'", "'ru_RU'"}
	case name == "sql_mode":
		for i := range 32 {
			values = append(values, fmt.Sprint(uint64(1)<<i))
		}
		values = append(values, "''", "'ANSI'", "'ORACLE'", "'TRADITIONAL'")
	case kind == "BOOLEAN":
		values = []string{"0", "1"}
	case list != "":
		for _, v := range strings.Split(list, ",") {
			if kind == "FLAGSET" || strings.Contains(kind, "FLAG") {
				v += "=off"
			}
			values = append(values, quote(v))
		}
	case kind == "ENUMERATION": // MySQL sets them by number
		for i := range 12 {
			values = append(values, fmt.Sprint(i))
		}
	case kind == "SET":
		values = []string{"''", "1", "2", "4"}
	case least != "" || most != "":
		values = []string{least, most}
	default:
		values = []string{"''", "'tare'", "'0'"}
	}
	return values
}

// unfit returns why a variable has no cases: the test cannot restore it, or it ends the server.
func unfit(name string) string {
	for _, prefix := range []string{"innodb_buffer_pool_", "innodb_redo_log_capacity", "innodb_log_file_size", "debug", "keyring", "ssl_", "tls_", "admin_", "caching_sha2", "validate_password"} {
		if strings.HasPrefix(name, prefix) {
			return "it changes files or accounts of the server"
		}
	}
	return ""
}

// finished returns the cases that the state file has.
func finished(t *testing.T, version string) map[string]bool {
	t.Helper()
	done := make(map[string]bool)
	if *state == "" {
		return done
	}
	text, err := os.ReadFile(*state)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, "\t"); len(f) > 2 && f[0] == version {
			done[f[0]+"\t"+f[1]] = true
		}
	}
	return done
}

func record(t *testing.T, version string, c setting, outcome, why string) {
	t.Helper()
	t.Logf("%v: %s %s", c, outcome, why)
	if *state == "" {
		return
	}
	f, err := os.OpenFile(*state, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = fmt.Fprintf(f, "%s\t%v\t%s\t%s\n", version, c, outcome, why)
	must(t, errors.Join(err, f.Close()))
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
