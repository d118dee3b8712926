//go:build e2e

package conformance

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

var flagCorpus = flag.Bool("conformance.corpus", false, "run TestCorpus, which digests every statement of the suites")

// TestCorpus digests every statement in the files of the suites, and compares the groups with those of the server: MySQL's
// STATEMENT_DIGEST, MariaDB's performance schema. Statements that the server groups have one digest here, but for the
// differences of finer; those that it separates have different ones, but for the differences of coarser.
func TestCorpus(t *testing.T) {
	if !*flagCorpus {
		t.Skip("-conformance.corpus is off")
	}
	for _, name := range []string{"mysql", "mariadb-10.11", "mariadb-11.8"} {
		t.Run(name, func(t *testing.T) { compareDigests(t, name) })
	}
}

func compareDigests(t *testing.T, name string) {
	suite, err := openSuite(filepath.Join("..", "..", ".tools"), name)
	must(t, err)
	options := []testmysql.Option{testmysql.WithPrograms(suite.root)}
	read := readFunction
	if suite.mysql {
		options = append(options, testmysql.WithMySQL(), testmysql.WithArgs("--max-digest-length=1048576"))
	} else {
		read = readHistory
		options = append(options, testmysql.WithPerformanceSchema(), testmysql.WithArgs("--max-digest-length="+strconv.Itoa(maxDigest),
			"--performance-schema-max-digest-length="+strconv.Itoa(maxDigest), "--performance-schema-events-statements-history-long-size="+strconv.Itoa(3*batch)))
	}
	server := testmysql.Start(t, options...)
	db, err := sql.Open("mysql", server.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	var version string
	must(t, conn.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version))
	texts := suite.statements(t)
	groups, digests := map[string]*group{}, map[sqldigest.Digest]*group{}
	var d sqldigest.Digester
	parsed := 0
	for batch := range slices.Chunk(texts, batch) {
		read(t, conn, server, batch, func(text, server, shown string) {
			parsed++
			digest := d.Digest([]byte(text), mode)
			add(groups, server, text, shown, string(d.Text()))
			add(digests, digest, text, string(d.Text()), shown)
		})
	}
	t.Logf("%s: %d statements, of which the server reads %d, in %d groups; here %d", version, len(texts), parsed, len(groups), len(digests))
	if parsed < len(texts)/2 {
		t.Errorf("the server reads %d of %d statements", parsed, len(texts))
	}
	finerOn := finer
	if !suite.mysql {
		finerOn = append([]rule{hints}, finer...)
	}
	for _, g := range report(groups, finerOn) {
		t.Errorf("one group of the server, apart here: %s", g)
	}
	for _, g := range report(digests, coarser) {
		t.Errorf("one group here, apart on the server: %s", g)
	}
}

// A group are the statements with one digest: one example for each digest of the other side.
type group struct {
	shown    string
	examples map[string]string // statements, by the other side's text
}

func add[K comparable](groups map[K]*group, key K, text, shown, other string) {
	g := groups[key]
	if g == nil {
		g = &group{shown, map[string]string{}}
		groups[key] = g
	}
	g.examples[other] = text
}

// A rule is a documented difference of digests: it is replaced in the texts of one side before they are compared.
type rule struct {
	text *regexp.Regexp
	with string
}

// finer are the documented differences that distinguish statements here alone.
var finer = []rule{
	{regexp.MustCompile("@`[^`]*`"), "?"},                // names of user variables
	{regexp.MustCompile("`"), ""},                        // names, and words that may be names, keep their spelling
	{regexp.MustCompile(`@(\W|$)`), "@?$1"},              // an empty host of an account
	{regexp.MustCompile(`@\?+`), "?"},                    // …
	{regexp.MustCompile(`/\*\+ \*/ `), ""},               // empty hints
	{regexp.MustCompile(`[-+] ?`), ""},                   // more than 32 signs
	{regexp.MustCompile(`\?(, (\?|\.\.\.))+`), "?, ..."}, // lists with user variables
	{regexp.MustCompile(`= \d+[kmg]\)`), "= ?)"},         // sizes in hints
	{regexp.MustCompile(`\bnull\b`), "?"},                // NULL in TRIM(? FROM NULL)
	{regexp.MustCompile(`\.substr\(`), ".substring("},    // words after a dot are names
	{regexp.MustCompile(`\bany\(`), "some("},             // synonyms that are not keywords here
	{regexp.MustCompile(`\breplicas\b`), "slaves"},
	{regexp.MustCompile(`\bndb\b`), "ndbcluster"},
	{regexp.MustCompile(`\bgeomcollection\b`), "geometrycollection"},
	{regexp.MustCompile(` \(`), "("},
}

// hints are comments for MariaDB.
var hints = rule{regexp.MustCompile(`/\*\+ .*? ?\*/ `), ""}

// coarser are the documented differences that distinguish statements on the server alone.
var coarser = []rule{
	{regexp.MustCompile(`(^|[^@])@ ?[^@? ]\S*`), "$1@?"},               // hosts of accounts in backticks, query blocks in hints
	{regexp.MustCompile("`"), ""},                                      // words that may be names
	{regexp.MustCompile(`\(unknown\)`), "?"},                           // MariaDB's text of x'41'
	{regexp.MustCompile(`\(_charset\) |_filename `), ""},               // introducers
	{regexp.MustCompile(`\b(date|time|timestamp) \?`), "?"},            // typed literals
	{regexp.MustCompile(`\b(true|false|null)\b`), "?"},                 // where an expression starts
	{regexp.MustCompile(`\b(localtimestamp|curtime)\b`), "now"},        // synonyms that MariaDB 11.8 separates
	{regexp.MustCompile(`\bs(ession|ystem)_user\b`), "user"},           // …
	{regexp.MustCompile(`(^| )\d+( |$)`), "$1?$2"},                     // positions of columns in ORDER BY and GROUP BY
	{regexp.MustCompile(`(^| )\d+( |$)`), "$1?$2"},                     // …
	{regexp.MustCompile(`([-+] )+\?`), "?"},                            // signs
	{regexp.MustCompile(` /\* , \.\.\. \*/`), " , ..."},                // rows
	{regexp.MustCompile(`\? ?,? (\?|\.\.\.)( ?,? (\?|\.\.\.))*`), "?"}, // lists and adjacent strings
	{regexp.MustCompile(`\(\.\.\.\)|\( \? \)`), "(?)"},                 // …
	{regexp.MustCompile(`(row )?\(\?\)( , (row )?(\(\?\)|\.\.\.))+`), "(?)"},
	{regexp.MustCompile(` ; $`), ""}, // the end of MariaDB's text before a comment
	{regexp.MustCompile(` `), ""},
}

// apply returns a text without the differences.
func apply(rules []rule, text string) string {
	text = strings.ToLower(text)
	for _, r := range rules {
		text = r.text.ReplaceAllString(text, r.with)
	}
	return text
}

// report returns the groups that the other side splits, but for documented differences.
func report[K comparable](groups map[K]*group, rules []rule) (list []string) {
	for _, g := range groups {
		if len(g.examples) < 2 {
			continue
		}
		without := map[string]string{} // an example for each text without the documented differences
		for other, text := range g.examples {
			without[apply(rules, other)] = fmt.Sprintf("\n\t%.200q\n\t\tas %.300s", text, other)
		}
		if len(without) > 1 {
			list = append(list, fmt.Sprintf("%.300s%s", g.shown, strings.Join(slices.Sorted(maps.Values(without)), "")))
		}
	}
	slices.Sort(list)
	return list
}

// readFunction yields the server's digest and text of each statement that it can read, by its functions.
func readFunction(t *testing.T, conn *sql.Conn, _ *testmysql.Server, texts []string, yield func(text, digest, shown string)) {
	for _, text := range texts {
		var digest, shown string
		if err := conn.QueryRowContext(t.Context(), "SELECT STATEMENT_DIGEST(?), STATEMENT_DIGEST_TEXT(?)", text, text).Scan(&digest, &shown); err == nil {
			yield(text, digest, shown)
		}
	}
}

const (
	batch     = 1000
	maxDigest = 16 << 10 // bytes of a digest's tokens; the server has room for them in each row of its history
)

// stateful are the SET statements that change how later ones are read, or that take long.
var stateful = regexp.MustCompile(`(?is)^\s*set\b.*\b(password|role|sql_mode|names|\w*char\w*|\w*collation\w*|max_statement_time|sleep|benchmark|get_lock|pseudo_\w+)\b|^\s*alter\s+user`)

// readHistory yields the server's digest and text of each statement that it can read, from the history of a connection whose
// password has expired: the server reads its statements, and executes SET alone.
func readHistory(t *testing.T, conn *sql.Conn, server *testmysql.Server, texts []string, yield func(text, digest, shown string)) {
	for _, do := range []string{
		"CREATE OR REPLACE USER expired@'%' IDENTIFIED BY '" + testmysql.Password + "' PASSWORD EXPIRE", "GRANT SHOW VIEW ON test.* TO expired@'%'", "UPDATE performance_schema.setup_consumers SET enabled = 'YES'",
		"TRUNCATE performance_schema.events_statements_history_long",
	} {
		_, err := conn.ExecContext(t.Context(), do)
		must(t, err)
	}
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: server.Addr, User: "expired", Password: testmysql.Password, Database: "test", TLSMode: mysqlconn.TLSDisabled})
	must(t, err)
	defer c.Close()
	var sent []string
	unread := map[int]bool{}
	for _, text := range texts {
		if stateful.MatchString(text) || len(text) > maxDigest/2 {
			continue
		}
		_, err := c.Exec(t.Context(), text)
		var e *mysqlconn.ServerError
		switch {
		case err == nil:
		case !errors.As(err, &e):
			t.Fatalf("send %.200q: %v", text, err)
		case e.Number == mysqlwire.ErrnoSyntax:
			unread[len(sent)] = true
		}
		sent = append(sent, text)
	}
	must(t, c.Send(t.Context(), []byte{byte(mysqlwire.ComPing)})) // the server records a statement after its response
	rows, err := conn.QueryContext(t.Context(), "SELECT digest, digest_text FROM performance_schema.events_statements_history_long WHERE thread_id = "+
		"(SELECT thread_id FROM performance_schema.threads WHERE processlist_id = ?) AND event_name LIKE 'statement/sql/%' ORDER BY event_id", c.ConnectionID)
	must(t, err)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var digest, shown sql.NullString
		must(t, rows.Scan(&digest, &shown))
		if n < len(sent) && !unread[n] && shown.Valid {
			yield(sent[n], digest.String, shown.String)
		}
	}
	must(t, rows.Err())
	if n != len(sent) {
		t.Fatalf("the history has %d of %d statements, of %.100q to %.100q", n, len(sent), sent[0], sent[len(sent)-1])
	}
}

var (
	delimiter = regexp.MustCompile(`(?i)^\s*(?:--\s*)?delimiter\s+(\S+?);?\s*$`)

	// notStatements begin commands of the test program.
	notStatements = regexp.MustCompile(`(?i)^\s*(let|echo|source|eval|evalp|if|while|end|inc|dec|connect|connection|disconnect|reap|send|send_eval|` +
		`error|exec|system|sleep|real_sleep|die|exit|skip|perl|remove_file|write_file|append_file|cat_file|diff_files|replace_\w+|sorted_result|` +
		`enable_\w+|disable_\w+|query_\w+|horizontal_results|vertical_results|dirty_close|change_user|output|assert|expr|copy_file|move_file|mkdir|rmdir|` +
		`list_files\w*|file_exists|chmod|start_timer|end_timer|character_set|ping|sync_\w+|save_master_pos|wait_for_slave_to_stop|force-\w+|lowercase_result|` +
		`partially_sorted_result|result_format|shutdown_server|send_quit|send_shutdown|reset_connection|force_\w+|query|remove_files_wildcard|copy_files_wildcard|\})\b`)
)

// statements returns the distinct statements in the test files of all suites.
func (s *suiteDir) statements(t *testing.T) (texts []string) {
	found := map[string]bool{}
	for path := range s.exists {
		if ext := filepath.Ext(path); ext != ".test" && ext != ".inc" {
			continue
		}
		text, err := os.ReadFile(path)
		must(t, err)
		splitStatements(string(text), func(statement string) {
			if !strings.Contains(statement, "$") && !notStatements.MatchString(statement) {
				found[statement] = true
			}
		})
	}
	for text := range found {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// splitStatements yields what a test file has between its delimiters, without comments and commands of the test program.
func splitStatements(text string, yield func(string)) {
	end := ";"
	var statement strings.Builder
	for line := range strings.Lines(text) {
		if m := delimiter.FindStringSubmatch(line); m != nil {
			end = m[1]
			statement.Reset()
			continue
		}
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "--") || statement.Len() == 0 && trimmed == "" {
			continue
		}
		before, ended := strings.CutSuffix(trimmed, end)
		statement.WriteString(before)
		if !ended {
			statement.WriteByte('\n')
			continue
		}
		if statement.Len() > 0 {
			yield(statement.String())
		}
		statement.Reset()
	}
}
