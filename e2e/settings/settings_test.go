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
	group   = flag.Int("settings.group", 24, "how many cases to try at once; a group that is not equal is tried in parts")
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
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", binary, "./cmd/tare").CombinedOutput(); err != nil {
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
			done := finished(t, p.version)
			all := p.list(t)
			t.Logf("%s: %d cases", p.version, len(all))
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			var part, parts, n int
			if _, err := fmt.Sscanf(*shard, "%d/%d", &part, &parts); err != nil {
				t.Fatal(err)
			}
			var chosen []setting
			for i, c := range all {
				if i%parts != part || *only != "" && c.variable != *only || done[p.version+"\t"+c.String()] {
					continue
				}
				if n++; *cases >= 0 && n > *cases {
					break
				}
				chosen = append(chosen, c)
			}
			p.tryAll(t, chosen)
			t.Logf("%s: %v", p.version, p.results)
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
	same       = "the value that the server has"
	ended      = "the server ends"
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
	names    []string // variables with cases
	before   [2][]sql.NullString
	reported map[setting]bool
	results  map[string]int
}

// account is the login of the commands.
const account = "copier"

func newPair(t *testing.T, opts []testmysql.Option) *pair {
	t.Helper()
	text, err := os.ReadFile("../testdata/alter-table.sql")
	must(t, err)
	create, insert, _ := strings.Cut(string(text), ";\nINSERT")
	p := &pair{create: create, insert: "INSERT" + strings.TrimRight(insert, ";\n"), dir: t.TempDir(), mysql: len(opts) > 0,
		reported: make(map[setting]bool), results: make(map[string]int)}
	opts = append(opts, testmysql.WithBinlog(), testmysql.WithSetup("create user if not exists "+account+" identified by '"+testmysql.Password+"'", "grant all on *.* to "+account))
	for i := range p.servers {
		p.servers[i] = testmysql.StartOrSkip(t, opts...)
		must(t, p.servers[i].Exec("SET GLOBAL local_infile = 1"))
		// The test's sessions were opened before any change.
		db, err := sql.Open("mysql", p.servers[i].DSN(testmysql.RootUser)+"?multiStatements=true&wait_timeout=31536000&net_read_timeout=3600&net_write_timeout=3600"+
			"&time_zone=%27%2B00:00%27&group_concat_max_len=65536")
		must(t, err)
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
		t.Cleanup(func() { _ = db.Close() })
		p.sessions[i] = db
		must(t, db.QueryRow("SELECT VERSION()").Scan(&p.version))
	}
	return p
}

// try runs the commands with the values of all cases in effect.
func (p *pair) try(t *testing.T, names func(out string) bool) (outcome, why string) {
	t.Helper()
	at := func(i int) string { return "mysql://" + account + ":" + testmysql.Password + "@" + p.servers[i].Addr }
	p.n++
	dump := filepath.Join(p.dir, fmt.Sprint("dump", p.n))
	defer os.RemoveAll(dump)
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
			if err := p.exec(1, "DROP DATABASE zoo; DROP DATABASE _tare"); err != nil {
				return refused, step.what + ": the server refuses clients' changes: " + err.Error()
			}
		}
		out, err := p.run(t, step.args)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return hung, step.what + ": " + out
		case err != nil && names(out):
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
	text := []string{"CREATE DATABASE zoo CHARACTER SET utf8mb4", strings.ReplaceAll(p.create, "{table}", "zoo.t"), "BEGIN"}
	insert := strings.ReplaceAll(p.insert, "{table}", "zoo.t")
	for id := 1; id <= 60; id++ {
		text = append(text, strings.ReplaceAll(insert, "{id}", fmt.Sprint(id)))
	}
	must(t, p.exec(0, strings.Join(append(text, "COMMIT"), "; ")))
}

func (p *pair) exec(i int, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	_, err := p.sessions[i].ExecContext(ctx, text)
	return err
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

// report records the outcome of a case.
func (p *pair) report(t *testing.T, c setting, outcome, why string) {
	t.Helper()
	p.reported[c] = true
	p.results[outcome]++
	switch outcome {
	case equal, refused, unsettable, same, ended:
		t.Logf("%v: %s %s", c, outcome, why)
	default:
		t.Errorf("%v: %s: %s", c, outcome, why)
	}
	if *state == "" {
		return
	}
	f, err := os.OpenFile(*state, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = fmt.Fprintf(f, "%s\t%v\t%s\t%s\n", p.version, c, outcome, why)
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
