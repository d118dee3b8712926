//go:build e2e

package conformance

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/sqldigest"
)

var flagCorpus = flag.Bool("conformance.corpus", false, "run TestCorpus, which digests every statement of the suites of MySQL")

// TestCorpus digests every statement in the files of MySQL's suites, and compares the groups with those of
// STATEMENT_DIGEST: statements that the server groups have one digest here, but for the differences of finer. Where one
// digest here has several groups of the server, which the specification of sqldigest permits, it prints them.
func TestCorpus(t *testing.T) {
	if !*flagCorpus {
		t.Skip("-conformance.corpus is off")
	}
	suite, err := openSuite(filepath.Join("..", "..", ".tools"), "mysql")
	must(t, err)
	server := testmysql.Start(t, testmysql.WithMySQL(), testmysql.WithPrograms(suite.root), testmysql.WithArgs("--max-digest-length=1048576"))
	db, err := sql.Open("mysql", server.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	texts := suite.statements(t)
	groups, digests := map[string]*group{}, map[sqldigest.Digest]*group{}
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.4"))
	var d sqldigest.Digester
	parsed := 0
	for _, text := range texts {
		server, shown, ok := serverDigest(t.Context(), conn, text)
		if !ok {
			continue
		}
		parsed++
		digest := d.Digest([]byte(text), mode)
		add(groups, server, text, shown, string(d.Text()))
		add(digests, digest, text, string(d.Text()), shown)
	}
	apart, joined := report(groups), report(digests)
	t.Logf("%d statements, of which the server reads %d, in %d groups; here %d", len(texts), parsed, len(groups), len(digests))
	for _, g := range apart {
		t.Errorf("one group of the server, apart here: %s", g)
	}
	t.Logf("%d groups here have several of the server", len(joined))
	for _, g := range joined {
		t.Log(g)
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

// finer are the documented differences that distinguish statements here alone, replaced in the texts before they are
// compared.
var finer = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile("`"), ""},                        // names, and words that may be names, keep their spelling
	{regexp.MustCompile(`@[\w.$?]+`), "?"},               // names of user variables
	{regexp.MustCompile(`@(\W|$)`), "@?$1"},              // an empty host of an account
	{regexp.MustCompile(`[-+] ?`), ""},                   // more than 32 signs
	{regexp.MustCompile(`\?(, (\?|\.\.\.))+`), "?, ..."}, // lists with user variables
	{regexp.MustCompile(`/\*\+ \*/ `), ""},               // empty hints
	{regexp.MustCompile(`\bnull\b`), "?"},                // NULL in TRIM(? FROM NULL)
	{regexp.MustCompile(`\bany\(`), "some("},             // synonyms that are not keywords here
	{regexp.MustCompile(`\bndb\b`), "ndbcluster"},
	{regexp.MustCompile(`\bgeomcollection\b`), "geometrycollection"},
	{regexp.MustCompile(` \(`), "("},
}

// coarse returns a text without the differences of finer.
func coarse(text string) string {
	text = strings.ToLower(text)
	for _, f := range finer {
		text = f.text.ReplaceAllString(text, f.with)
	}
	return text
}

// report returns the groups that the other side splits, but for documented differences.
func report[K comparable](groups map[K]*group) (list []string) {
	for _, g := range groups {
		if documented := map[string]bool{}; len(g.examples) > 1 {
			var b strings.Builder
			fmt.Fprintf(&b, "%.300s", g.shown)
			for other, text := range g.examples {
				documented[coarse(other)] = true
				fmt.Fprintf(&b, "\n\t%.200q\n\t\tas %.300s", text, other)
			}
			if len(documented) > 1 {
				list = append(list, b.String())
			}
		}
	}
	slices.Sort(list)
	return list
}

// serverDigest returns the server's digest and text of a statement, unless the server cannot read it.
func serverDigest(ctx context.Context, conn *sql.Conn, text string) (digest, shown string, ok bool) {
	err := conn.QueryRowContext(ctx, "SELECT STATEMENT_DIGEST(?), STATEMENT_DIGEST_TEXT(?)", text, text).Scan(&digest, &shown)
	return digest, shown, err == nil
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
