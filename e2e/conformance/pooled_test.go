//go:build e2e

package conformance

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A pooledDifference is a difference of a case in the profiles pool or moved that shared connections explain.
type pooledDifference struct {
	says  string         // words of docs/tasks/pool.md or docs/reference/pool.md that explain it
	cases *regexp.Regexp // of SERVER/SUITE/TEST/PROTOCOL/PROFILE, or of SERVER/SUITE and a client's case

	// shows matches in what differs: the lines of the leg through the gateway that the direct one does not have.
	shows *regexp.Regexp
	masks *regexp.Regexp // or: the differing texts of both legs
	sets  *regexp.Regexp // or: a statement of the case; the lines that differ are neither statements nor errors
	// sometimes: the case may also be equal. Otherwise that fails: the difference is to be removed from the list.
	sometimes bool
}

var pooledDifferences = []pooledDifference{
	{
		says:  "Connection attributes, and the login's values of tracked variables (MariaDB 11.5), are not passed on.",
		cases: regexp.MustCompile(`^mysql/go-sql-driver/TestConnectionAttributes$`),
		shows: regexp.MustCompile(`expected "Go-MySQL-Driver", got ""`),
	},
	{
		says:  "Connection attributes, and the login's values of tracked variables (MariaDB 11.5), are not passed on.",
		cases: regexp.MustCompile(`/perfschema/\w*connect_attrs/\w+/(pool|moved)$`),
		shows: regexp.MustCompile(`No data - zero rows fetched`), sometimes: true,
	},
	{
		says:  "in a statement that begins to use a connection: error 1235.",
		cases: regexp.MustCompile(`/(pool|moved)$`),
		shows: regexp.MustCompile(`\(?1235\)?: '?Tare shares connections: ROW_COUNT\(\), FOUND_ROWS\(\), `), sometimes: true,
	},
	{
		says:  "`SHOW SESSION STATUS`, `last_insert_id` and `last_gtid` of `SHOW VARIABLES` are those of the connection",
		cases: regexp.MustCompile(`/(pool|moved)$`),
		masks: regexp.MustCompile(`(?m)^[A-Z][a-z]+(_[a-z]+)+\t\d+$|^SORT_MERGE_PASSES\t.*|^(OK|\*\*\*ERROR\*\*\*):? handler_read_key.*`), sometimes: true,
	},
	{
		says:  "`COM_CHANGE_USER` to a user whose clients do not share, or, if learned, with another password: the client connects again.",
		cases: regexp.MustCompile(`/(pool|moved)$`),
		shows: regexp.MustCompile(`ER_UNKNOWN_COM_ERROR ?\(1047\)( \(08S01\))?: '?Tare does not change the user of a session that shares connections to `), sometimes: true,
	},
	{
		says:  "it concerns a connection and its clients", // of which there are fewer
		cases: regexp.MustCompile(`/main/sp-threads/\w+/(pool|moved)$`),
		masks: regexp.MustCompile(`\n(#\troot\tlocalhost\ttest\tSleep\t#\t\tNULL\n)*`), sometimes: true,
	},
	{
		says:  "Each has one for a statement or a transaction.", // MySQL warns of tables that the session's statement before wrote
		cases: regexp.MustCompile(`^mysql/\w+/\w+/\w+/(pool|moved)$`),
		masks: regexp.MustCompile(`(\nWarnings:\nWarning\t6414\tCombining the storage engines [^\n]*)?\n`), sometimes: true,
	},
	{
		says:  "Each has one for a statement or a transaction.", // whose history of statements has the gateway's
		cases: regexp.MustCompile(`/perfschema/prepared_statements/\w+/(pool|moved)$`),
		masks: regexp.MustCompile(`\n(EVENT_NAME\tstatement/(com/Quit\nSQL_TEXT\tNULL|sql/truncate\nSQL_TEXT\tTRUNCATE TABLE performance_schema\.prepared_statements_instances|` +
			`sql/select\nSQL_TEXT\tSELECT @@session\.character_set_client, [^\n]*)(\nOBJECT_(TYPE|SCHEMA|NAME)\tNULL){3}\n)*`), sometimes: true,
	},
	{
		says:  "logs in at the backend as the same user",
		cases: regexp.MustCompile(`^mariadb-[0-9.]+/(main/kill-2|\w+/\w*skip_name_resolve)/`), // whose server refuses it directly, too
		shows: regexp.MustCompile(`1045 Tare cannot log in at its backend as 'root': Access denied for user 'root'`), sometimes: true,
	},
	{
		says:  "the server refuses a login of a shared connection",
		cases: regexp.MustCompile(`^mariadb-[0-9.]+/roles/rename_user/|/main/require_secure_transport/`), // which rename and restrict their own account
		shows: regexp.MustCompile(`\((1045|3159)\): Tare cannot log in at its backend as 'root': (Access denied|Connections using insecure transport)`), sometimes: true,
	},
	{
		says:  "so are `SHOW PROFILES` and `OPTIMIZER_TRACE` by global settings",
		cases: regexp.MustCompile(`^mariadb-[0-9.]+/main/nested_profiling/\w+/(pool|moved)$`),
		masks: regexp.MustCompile(`(?m)^Query_ID\tDuration\tQuery\n(\d+\t#\t.*\n)*`), sometimes: true,
	},
	{
		says:  "`SET GLOBAL` takes effect with a client's next new or reset connection.",
		cases: regexp.MustCompile(`/sys_vars/[^/]+/\w+/(pool|moved)$`),
		sets:  regexp.MustCompile(`(?im)^set\s+(@@)?global\b`), sometimes: true,
	},
	{
		says:  "`SET GLOBAL` takes effect with a client's next new or reset connection.",
		cases: regexp.MustCompile(`/funcs_1/(innodb|memory|myisam)_trig_0407/\w+/(pool|moved)$`), // by sql_mode
		masks: regexp.MustCompile(`(?m)^(Warnings:\nWarning\t1265\tData truncated for|ERROR 22001: Data too long for) column 'f1' at row 1$|^f1\n((1st|2nd) Insert 3\.5\.\n)*`), sometimes: true,
	},
	{
		says:  "shared connections per user that stay open while they are idle", // with a table of the plugin
		cases: regexp.MustCompile(`/main/\w*plugin\w*/\w+/(pool|moved)$`),
		shows: regexp.MustCompile(`Plugin is busy and will be uninstalled on shutdown`), sometimes: true,
	},
	{
		says:  "shared connections per user that stay open while they are idle",
		cases: regexp.MustCompile(`/(pool|moved)$`),
		shows: regexp.MustCompile(`Timeout in wait_until_count_sessions\.inc`), sometimes: true,
	},
}

// pooledReason returns the words that explain a difference of a case, "" if none do.
func pooledReason(name, direct, through string) string {
	differs := linesOnlyIn(through, direct)
	for _, d := range pooledDifferences {
		if !d.cases.MatchString(name) {
			continue
		}
		if d.sets != nil && d.sets.MatchString(direct) && !notRow.MatchString(differs+linesOnlyIn(direct, through)) {
			return "shared connections: " + d.says
		}
		if d.shows != nil && d.shows.MatchString(differs) || d.masks != nil && d.masks.ReplaceAllString(direct, "…") == d.masks.ReplaceAllString(through, "…") {
			return "shared connections: " + d.says
		}
	}
	return ""
}

// notRow matches a line of a statement or an error.
var notRow = regexp.MustCompile(`(?im)^(error|mysqltest:|select|set|insert|update|delete|show|create|drop) `)

// pooledStale returns the words of a listed difference that an equal case does not have any more.
func pooledStale(name string) string {
	for _, d := range pooledDifferences {
		if !d.sometimes && d.cases.MatchString(name) {
			return d.says
		}
	}
	return ""
}

// linesOnlyIn returns the lines of a text that another one does not have.
func linesOnlyIn(a, b string) string {
	has := map[string]bool{}
	for line := range strings.Lines(b + "\n") {
		has[line] = true
	}
	var only strings.Builder
	for line := range strings.Lines(a + "\n") {
		if !has[line] {
			only.WriteString(line)
		}
	}
	return only.String()
}

// TestPooledDifferences checks that the documentation explains each difference.
func TestPooledDifferences(t *testing.T) {
	var all []string
	for _, page := range []string{"tasks/pool.md", "reference/pool.md", "reference/configuration.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		must(t, err)
		all = append(all, strings.Join(strings.Fields(string(text)), " "))
	}
	for _, d := range pooledDifferences {
		if !strings.Contains(strings.Join(all, " "), d.says) {
			t.Errorf("the documentation of shared connections does not have %q", d.says)
		}
	}
}

// lent is how often gateways have lent a shared connection to a client.
var lent atomic.Int64

var lentCount = regexp.MustCompile(`(?m)^tare_pool_lent_total\{.*\} (\S+)$`)

// countLent adds what the gateway has lent.
func (g *gateway) countLent(profile string) error {
	select {
	case <-g.Done:
		return nil
	default:
	}
	if !isPooled(profile) || g.http == "" {
		return nil
	}
	response, err := http.Get(g.http + "/metrics")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	for _, m := range lentCount.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return err
		}
		lent.Add(int64(n))
	}
	return err
}

// pooledLegs counts legs through gateways with shared connections.
var pooledLegs atomic.Int64

// checkLent fails the test if legs ran through such gateways, but none lent a connection.
func checkLent(t *testing.T) {
	t.Helper()
	if pooledLegs.Load() > 0 && lent.Load() == 0 {
		t.Error("no gateway lent a shared connection")
	}
}
