//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

const fuzzRules = `serve:
  rules:
    - name: secret
      action: block
      tables: ["*.secret", "*.hidden"]
      users: [app]
    - name: frozen
      action: read-only
      users: [app]
`

// fuzzForms are statements about the table $T, or writers; _ is white space.
var fuzzForms = []string{
	"SELECT_a_FROM_$T", "SELECT_COUNT(*)_FROM_$T_WHERE_a_>_1", "TABLE_$T", "WITH_x_AS_(SELECT_a_FROM_$T)_SELECT_*_FROM_x", "(SELECT_a_FROM_$T)",
	"SELECT_1_UNION_SELECT_a_FROM_$T", "SELECT_(SELECT_MAX(a)_FROM_$T)", "DO_(SELECT_MAX(a)_FROM_$T)", "SHOW_STATUS_WHERE_(SELECT_COUNT(*)_FROM_$T)_>_0",
	"HANDLER_$T_OPEN", "SELECT_1.N_FROM_$T", "SELECT_1_+_1.N/**/FROM_$T", "SELECT_@/**/FROM_$T", "SELECT_@_FROM_$T", "SET_@x_=_(SELECT_MAX(a)_FROM_$T)",
	"EXPLAIN_ANALYZE_SELECT_a_FROM_$T", "ANALYZE_SELECT_a_FROM_$T", "SELECT_*_FROM_plain_JOIN_$T_ON_plain.a_<_$T.a",
	"SELECT_a_FROM_plain_/*!50699_UNION_SELECT_a_FROM_$T_*/", "SELECT_a_FROM_plain_/*!99999_'_*/_UNION_SELECT_a_FROM_$T_/*_'_*/", "SELECT_1_/*M!_FROM_$T_*/",
	"SELECT_/*+_Q_*/_a_FROM_$T_/*_Q_*/", "SELECT_'\xbf\\'_FROM_$T_--_'", "SELECT_'\x81\\'_FROM_$T_#_'", "SELECT_\"x\\\"_FROM_$T_--_\"", "SELECT_1_--\xa0'\n_FROM_$T_--_'",
	"INSERT_INTO_plain_VALUES_(7)", "UPDATE_plain_SET_a_=_a_+_1", "DELETE_FROM_plain_LIMIT_1", "REPLACE_plain_VALUES_(8)", "SELECT_f()", "SELECT_nvl(1,_2)", "SELECT_`count`(1)",
	"SHOW_STATUS_WHERE_f()", "SELECT_s.nextval", "SELECT_NEXT_VALUE_FOR_s", "SELECT_NEXTVAL(s)", "CREATE_TABLE_n_(a_INT)", "TRUNCATE_plain", "DO_f()", "SELECT_bin_to_uuid(f())",
	"SELECT_1;_INSERT_INTO_plain_VALUES_(9)", "SELECT_a_FROM_plain_/*!80000_WHERE_f()_*/", "SET_@x_=_f()", "CALL_p()", "EXECUTE_IMMEDIATE_'INSERT INTO plain VALUES (5)'",
}

var fuzzSpaces = []string{" ", " ", " ", "\t", "\n", "/**/", " /* x */ ", "-- x\n", "#'\n", "\xa0", "/*!*/", "\x00"}

var fuzzSettings = []string{
	"", "", "", "SET NAMES latin1", "SET NAMES gbk", "SET NAMES sjis", "SET NAMES gbk, character_set_results = utf8mb4",
	"SET character_set_client = 28", "SET character_set_client = 0x67626b", "SET character_set_client = CONCAT('gb', 'k')", "SET @c = 'sjis', character_set_client = 'sjis'",
	"SET NAMES utf8mb4, character_set_client = latin1", "SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
	"SET sql_mode = CONCAT('ANSI', '_QUOTES')", "SET sql_mode = 'ORACLE'", "SET sql_mode = 'IGNORE_SPACE'",
}

// A ruleFuzz drives one gateway and asks its server what happened.
type ruleFuzz struct {
	t                     *testing.T
	direct                *sql.DB
	gateway               string
	schema                string
	rand                  *rand.Rand
	ran, refused, invalid int
	found                 map[string]string // by form
}

// TestRuleFuzz sends generated statements under rules that forbid a table and all writes, and
// has the server's own counters say whether a forbidden table was read or anything was written.
// TARE_FUZZ_BINARY names another gateway, TARE_FUZZ_TIME how long to run.
func TestRuleFuzz(t *testing.T) {
	if other := os.Getenv("TARE_FUZZ_BINARY"); other != "" {
		own := binary
		binary = other
		defer func() { binary = own }()
	}
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			server, err := testmysql.New(append(opts, testmysql.WithPerformanceSchema())...)
			must(t, err)
			t.Cleanup(func() { must(t, server.Close()) })
			fuzzRulesOn(t, server)
		})
	}
}

func fuzzRulesOn(t *testing.T, server *testmysql.Server) {
	how, err := time.ParseDuration(cmp.Or(os.Getenv("TARE_FUZZ_TIME"), "30s"))
	must(t, err)
	config := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(config, []byte(fuzzRules), 0o600))
	schema := "rulefuzz"
	must(t, server.Exec("CREATE DATABASE "+schema))
	f := &ruleFuzz{t: t, schema: schema, rand: testseed.Rand(t), found: map[string]string{}}
	f.direct = open(t, server.Addr, schema)
	for _, stmt := range []string{
		"SET GLOBAL log_bin_trust_function_creators = 1",
		"CREATE TABLE secret (a INT)", "INSERT INTO secret VALUES (424242), (434343)", "CREATE TABLE plain (a INT)", "INSERT INTO plain VALUES (1), (2)",
		"CREATE FUNCTION f() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO plain VALUES (6); RETURN 1; END",
		"CREATE FUNCTION nvl(a INT, b INT) RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO plain VALUES (6); RETURN 1; END",
		"CREATE FUNCTION `count`(a INT) RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO plain VALUES (6); RETURN 1; END",
		"CREATE PROCEDURE p() INSERT INTO plain VALUES (6)", "CREATE SEQUENCE s",
	} {
		_, _ = f.direct.Exec(stmt) // not each server has all
	}
	f.gateway = startTare(t, server.Addr, "--config", config).addr
	for end := time.Now().Add(how); time.Now().Before(end); {
		f.session()
	}
	t.Logf("%d ran, %d refused by rules, %d refused by the server; %d forms evaded", f.ran, f.refused, f.invalid, len(f.found))
	for form, how := range f.found {
		t.Errorf("%q evaded the rules: %s", form, how)
	}
	if f.ran < (f.ran+f.refused+f.invalid)/2 {
		t.Errorf("only %d statements ran", f.ran)
	}
}

// session runs some statements on a connection of its own.
func (f *ruleFuzz) session() {
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	user := "app"
	if f.rand.IntN(10) == 0 {
		user = "'app'"
	}
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{
		Addr: f.gateway, User: user, Password: testmysql.Password, Database: f.schema,
		TLSMode: mysqlconn.TLSDisabled, Capabilities: mysqlwire.CapMultiStatements,
	})
	if err != nil {
		return // some servers know no user in quotes
	}
	defer c.Close()
	setting := fuzzSettings[f.rand.IntN(len(fuzzSettings))]
	if setting != "" {
		if _, err := c.Exec(ctx, setting); err != nil {
			return
		}
	}
	for range 6 {
		form := fuzzForms[f.rand.IntN(len(fuzzForms))]
		table := "plain"
		if f.rand.IntN(4) == 0 {
			table = "secret"
		}
		if f.rand.IntN(4) != 0 { // most run, so that a gateway which refuses everything does not pass
			form, table = fuzzForms[f.rand.IntN(7)], "plain"
		}
		stmt := f.spell(form, table)
		before := f.state()
		_, err := c.Exec(ctx, stmt)
		switch {
		case err == nil:
			f.ran++
		case strings.Contains(err.Error(), "Tare refused"):
			f.refused++
		default:
			f.invalid++
		}
		if err != nil && c.Ping(ctx) != nil {
			return
		}
		if after := f.state(); after != before && form != "CALL_p()" {
			f.found[form+" "+table] = fmt.Sprintf("%q after %q as %s: %s became %s", stmt, setting, user, before, after)
		}
	}
}

// spell writes the form with white space, quotes and a long number of its own.
func (f *ruleFuzz) spell(form, table string) string {
	plain := table == "plain"
	switch f.rand.IntN(4) {
	case 0:
		table = "`" + table + "`"
	case 1:
		table = f.schema + "." + table
	}
	form = strings.ReplaceAll(form, "1.N", "1."+strings.Repeat("0", 20+f.rand.IntN(60)))
	form = strings.ReplaceAll(form, "Q", []string{"'", "`", "\"", "x"}[f.rand.IntN(4)])
	strange := !plain && f.rand.IntN(2) == 0
	var b strings.Builder
	for _, part := range strings.SplitAfter(form, "_") {
		word, gap := strings.CutSuffix(part, "_")
		b.WriteString(word)
		switch {
		case gap && strange:
			b.WriteString(fuzzSpaces[f.rand.IntN(len(fuzzSpaces))])
		case gap:
			b.WriteByte(' ')
		}
	}
	return strings.ReplaceAll(b.String(), "$T", table)
}

// state is what the server knows of the tables: rows of secret that were read, and what
// statements have written.
func (f *ruleFuzz) state() string {
	var reads, rows, sum, tables sql.NullInt64
	scan(f.t, f.direct, "SELECT SUM(count_star) FROM performance_schema.table_io_waits_summary_by_table WHERE object_schema = '"+f.schema+"' AND object_name = 'secret'", &reads)
	scan(f.t, f.direct, "SELECT COUNT(*), SUM(a) FROM "+f.schema+".plain", &rows, &sum)
	scan(f.t, f.direct, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '"+f.schema+"'", &tables)
	return fmt.Sprintf("secret accessed %d times, plain %d rows of %d, %d tables", reads.Int64, rows.Int64, sum.Int64, tables.Int64)
}
