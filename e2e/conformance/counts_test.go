//go:build e2e

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

var flagCounts = flag.Int("conformance.counts", 0, "cases of each server in TestLogCounts; 0: none")

// countedEvents are the statements that the server remembers in a leg; a leg that has as many is excluded.
const countedEvents = 20_000

// countsOptions make a server remember all statements of a leg, with their texts.
var countsOptions = []string{
	fmt.Sprintf("--performance-schema-events-statements-history-long-size=%d", countedEvents),
	"--performance-schema-max-sql-text-length=4096",
}

// TestLogCounts runs cases through a gateway, and compares the query log with the server's own history of statements: how
// many there were of each text, the rows that they returned and changed, their warnings and errors.
func TestLogCounts(t *testing.T) {
	if *flagCounts == 0 {
		t.Skip("-conformance.counts is 0")
	}
	s := &selection{profiles: []string{"full"}, sample: *flagCounts, seed: testseed.New(t), total: 1}
	for server := range strings.SplitSeq(*flagServers, ",") {
		t.Run(server, func(t *testing.T) {
			suite, err := openSuite(filepath.Join("..", "..", ".tools"), server)
			must(t, err)
			tests, err := suite.find(strings.Split(*flagSuites, ","), regexp.MustCompile(*flagTests))
			must(t, err)
			r, err := newRig(suite, t.TempDir())
			must(t, err)
			defer func() { must(t, r.close()); r.socket.Close() }()
			result := map[string]int{}
			for _, c := range s.cases(server, tests, map[string]int{}) {
				statements, why, differences, err := r.compareCounts(t.Context(), c)
				must(t, err)
				result["cases"]++
				if why != "" {
					result["excluded: "+why]++
					continue
				}
				result["statements"] += statements
				t.Logf("%s: %d statements", c, statements)
				for _, d := range differences {
					t.Errorf("%s: %s", c, d)
				}
			}
			t.Log(result)
		})
	}
}

// tallies are what is counted of the statements with one text.
type tallies struct{ statements, returned, affected, warnings, errors int }

func (a *tallies) add(b tallies) {
	a.statements, a.returned, a.affected = a.statements+b.statements, a.returned+b.returned, a.affected+b.affected
	a.warnings, a.errors = a.warnings+b.warnings, a.errors+b.errors
}

// compareCounts runs a case through a new gateway, and returns how the gateway's log and the server's history differ.
func (r *rig) compareCounts(ctx context.Context, c *testCase) (statements int, excluded string, differences []string, err error) {
	text, err := os.ReadFile(c.test.path)
	if err != nil {
		return 0, "", nil, err
	}
	if historyChanges.Match(text) {
		return 0, "the test changes what the server counts", nil, nil
	}
	if err := r.ready(ctx, slices.Concat(c.test.opts, countsOptions)); errors.Is(err, errServerOptions) {
		return 0, "the server does not start with the test's options", nil, nil
	} else if err != nil {
		return 0, "", nil, err
	}
	g, err := r.through(ctx, c.profile)
	if err != nil {
		return 0, "", nil, err
	}
	if _, err := r.db.ExecContext(ctx, "TRUNCATE performance_schema.events_statements_history_long"); err != nil {
		return 0, "", nil, err
	}
	l, err := r.run(ctx, c, g.port, *flagLimit)
	if err != nil {
		return 0, "", nil, err
	}
	delete(r.gateways, c.profile)
	if err := errors.Join(g.stop(c.profile), checkLog(g.log, r.texts)); err != nil {
		return 0, "", nil, err
	}
	server, n, err := r.serverCounts(ctx)
	if _, settleErr := r.settle(ctx); settleErr != nil {
		return 0, "", nil, settleErr
	}
	switch {
	case l.code == exitSkipped, l.limit != "":
		return 0, "does not apply, or reaches a limit", nil, nil
	case err != nil:
		return 0, "the server does not answer any more", nil, nil
	case n >= countedEvents:
		return 0, "more statements than the server remembers", nil, nil
	}
	log, err := r.logCounts(g.log)
	if err != nil {
		return 0, "", nil, err
	}
	both := slices.Concat(slices.Collect(maps.Keys(server)), slices.Collect(maps.Keys(log)))
	slices.Sort(both)
	for _, key := range slices.Compact(both) {
		if r.suite.mysql && byName.MatchString(key) {
			return 0, "MySQL remembers PREPARE and EXECUTE by the text of the prepared statement", nil, nil
		}
		if key == "Query " && log[key].statements > server[key].statements {
			return 0, "the log leaves out a text of a character set that is not ASCII's", nil, nil
		}
		if s, l := server[key], log[key]; s != l {
			differences = append(differences, fmt.Sprintf("%.300q: the server counts %+v, the log %+v", key, s, l))
		}
	}
	return n, "", differences, nil
}

// historyChanges are in tests that change or reset the server's history.
var historyChanges = regexp.MustCompile(`(?i)performance_schema|setup_\w+|kill|shutdown`)

// serverCounts returns the server's counts of clients' statements, by command and text.
func (r *rig) serverCounts(ctx context.Context) (counts map[string]tallies, n int, err error) {
	rows, err := r.db.QueryContext(ctx, `SELECT EVENT_NAME, COALESCE(SQL_TEXT, ''), ROWS_SENT, ROWS_AFFECTED, WARNINGS, ERRORS
		FROM performance_schema.events_statements_history_long
		WHERE NESTING_EVENT_LEVEL = 0 AND (EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME IN ('statement/com/Execute', 'statement/com/Prepare', 'statement/com/Error'))`)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	counts = map[string]tallies{}
	for rows.Next() {
		var event, text string
		one := tallies{statements: 1}
		if err := rows.Scan(&event, &text, &one.returned, &one.affected, &one.warnings, &one.errors); err != nil {
			return nil, 0, err
		}
		n++
		command := "Query"
		if name, ok := strings.CutPrefix(event, "statement/com/"); ok {
			command = name
		}
		r.count(counts, command, text, one)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	// Statements of stored code, which are not counted, take the places of others too.
	var all int
	err = r.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM performance_schema.events_statements_history_long").Scan(&all)
	if all >= countedEvents {
		n = all
	}
	return counts, n, err
}

var accounts = regexp.MustCompile(`(?i)^\W*(CREATE|ALTER|DROP)\s+USER\b|^\W*(GRANT|REVOKE|SET\s+PASSWORD)\b`)

var byName = regexp.MustCompile(`(?i)^Query prepare `)

// own are the gateway's statements.
var own = regexp.MustCompile(`^(SELECT @@session\.character_set_client, |SELECT CAST\(CONVERT\(USER\(\)|TRUNCATE performance_schema)`)

// uncounted are statements whose rows the servers do not count as sent.
var uncounted = regexp.MustCompile(`(?i)^\W*(SHOW|CALL|DESC|DESCRIBE|EXPLAIN|CHECK|CHECKSUM|ANALYZE|OPTIMIZE|REPAIR|EXECUTE|HELP|CACHE|LOAD|BEGIN|DECLARE|ALTER)\b`)

func (r *rig) count(counts map[string]tallies, command, text string, one tallies) {
	switch {
	case own.MatchString(text):
		return
	case uncounted.MatchString(text):
		one.returned = 0
	}
	if command == "Prepare" {
		one.warnings = 0 // those of the response are not in the history
	}
	switch {
	case command != "Query" && !r.suite.mysql:
		text, one.returned = "", 0 // MariaDB does not remember it, and counts the rows of some cursors when they open
	case accounts.MatchString(text):
		text = "of accounts" // MySQL remembers it in other words
	}
	key := command + " " + strings.TrimRight(text[:min(len(text), 1000)], "; \t\r\n")
	t := counts[key]
	t.add(one)
	counts[key] = t
}

// logCounts returns the counts of a query log by command and text.
func (r *rig) logCounts(path string) (map[string]tallies, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts, prepared := map[string]tallies{}, map[[2]int64]string{} // texts by connection and statement
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l struct {
			Kind, Command, Text string
			Connection          int64 `json:"connection_id"`
			Statement           int64 `json:"statement_id"`
			Returned            int   `json:"rows_returned"`
			Affected            int   `json:"rows_affected"`
			Warnings            int   `json:"warnings"`
			Error               int   `json:"error_number"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, err
		}
		if l.Kind != "statement" || !slices.Contains([]string{"Query", "Prepare", "Execute"}, l.Command) {
			continue
		}
		id := [2]int64{l.Connection, l.Statement}
		switch l.Command {
		case "Prepare":
			prepared[id] = l.Text
		case "Execute":
			l.Text = prepared[id]
		}
		one := tallies{statements: 1, returned: l.Returned, affected: l.Affected, warnings: l.Warnings}
		if l.Error != 0 {
			one.errors = 1
		}
		r.count(counts, l.Command, l.Text, one)
	}
	return counts, lines.Err()
}
