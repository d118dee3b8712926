//go:build e2e

package conformance

import (
	"regexp"
	"slices"
	"strconv"
)

// An acceptance is a difference between the direct leg and the one through the gateway that is no defect.
type acceptance struct {
	reason string
	tests  *regexp.Regexp // of SUITE.TEST

	// pattern matches the differing texts of both legs or, with own, those that only the leg through the gateway has.
	pattern *regexp.Regexp
	own     bool

	// ends, if set, is the whole output of a test that itself compares, and ends, through the gateway.
	ends *regexp.Regexp
}

// acceptances are all accepted differences. The port is another, and handled apart.
var acceptances = []acceptance{
	{
		reason:  "errno of the test program, which a command that fails does not set",
		tests:   regexp.MustCompile(`^main\.plugin_auth_qa_1$`),
		pattern: regexp.MustCompile(`(?m)' failed, error: \d+, status: \d+, errno: \d+$`),
	},
	{
		reason: "counters of the server: the gateway reads the session's SQL mode after a change of user",
		tests:  regexp.MustCompile(`^main\.change_user$`),
		ends:   regexp.MustCompile(`At line \d+: The value of com_select changed during change_user`),
	},
	{
		reason:  "counters of the server: the gateway reads the session's SQL mode after a reset",
		tests:   regexp.MustCompile(`^main\.reset_connection$`),
		pattern: regexp.MustCompile(`(?m)^Com_select\t\d+$`),
	},
	{
		reason:  "counters of the server: the gateway reads the session's SQL mode after a login",
		tests:   regexp.MustCompile(`^main\.(grant_cache|grant_cache_no_prot|grant_cache_ps_prot|query_cache|query_cache_notembedded)$`),
		pattern: regexp.MustCompile(`(?m)^Qcache_not_cached\t\d+$`),
	},
	{
		reason:  "statements of the session: the gateway reads its SQL mode after a login",
		tests:   regexp.MustCompile(`^perfschema\.prepared_statements$`),
		pattern: regexp.MustCompile(`EVENT_NAME\tstatement/sql/select\nSQL_TEXT\tSELECT @@session\.character_set_client, [^\n]*\nOBJECT_TYPE\tNULL\nOBJECT_SCHEMA\tNULL\nOBJECT_NAME\tNULL\n`),
		own:     true,
	},
	{
		reason: "statements of the server: the gateway's own, at a login and between those of clients that share connections",
		tests:  regexp.MustCompile(`^perfschema\.statement_`),
		pattern: regexp.MustCompile("(?m)^.*(SELECT @@session\\.character_set_client, |SELECT @@SESSION \\. `(character_set_client|last_insert_id)` |SELECT `CONCAT_WS` \\( |" +
			"SET SESSION `session_track_state_change` |\tSET `sql_mode` = \\?\\s).*\n|^statement/com/(Quit|Ping|Reset Connection)(\tNULL){3}\t0\n"),
		own: true,
	},
	{
		reason:  "counters of the server: the gateway reads the session's SQL mode after a call",
		tests:   regexp.MustCompile(`^perfschema\.digest_table_full$`),
		pattern: regexp.MustCompile(`(?m)^NULL\tNULL\t\d+\t`), // statements without room in the table, two calls among them
	},
	{
		reason: "statements of the session: the gateway reads its SQL mode after a hint that sets a variable",
		tests:  regexp.MustCompile(`^main\.opt_hints_pfs$`), // the two last statements, of which one may be the gateway's
		pattern: regexp.MustCompile("(?m)^([0-9a-f]{64}\tSELECT @@SESSION \\. `character_set_client` .*\n)?" +
			"[0-9a-f]{64}\tSELECT /\\*\\+ SET_VAR \\( `bar` = \\? \\) \\*/ \\?\n([0-9a-f]{64}\tSELECT \\?\n)?"),
	},
	{
		reason:  "statements of the server: the gateway reads the session's SQL mode after a login",
		tests:   regexp.MustCompile(`^main\.log_tables$`),
		pattern: regexp.MustCompile(`(?m)^SELECT @@session\.character_set_client, .*\n`),
		own:     true,
	},
	{
		reason:  "statements of the server: the gateway reads the session's SQL mode after a login",
		tests:   regexp.MustCompile(`^main\.slow_log_extra(_myisam)?$`), // the slow log of all statements, of which it shows counters
		pattern: regexp.MustCompile(`(?m)^Rows_sent: 1  Rows_examined: 1 Thread_id: 0 Errno: 0 Killed: 0 Bytes_received: 115 .*\n`),
		own:     true,
	},
	{
		reason:  "statements of the session: the gateway reads its SQL mode after a login",
		tests:   regexp.MustCompile(`^main\.nested_profiling$`),
		pattern: regexp.MustCompile(`(?m)^\d+\t#\t(SELECT @@session\.character_set_client, .*\n\d+\t#\t)?SELECT @a, @b$`),
	},
	{
		reason:  "documented: Ssl_cipher is that of the gateway's connection to the server",
		tests:   regexp.MustCompile(`^main\.ssl_cipher_tlsv13$`),
		pattern: regexp.MustCompile(`(?m)^Ssl_cipher\tTLS_AES_\w+$`),
	},
	{
		reason: "documented: an account that the server blocked after wrong passwords stays refused for 10 s",
		tests:  regexp.MustCompile(`^main\.max_password_errors$`),
		ends:   regexp.MustCompile(`good_pass' failed: ER_USER_IS_BLOCKED \(4150\)`),
	},
}

// same reports whether a leg through the gateway has the result of a direct one, but for acceptances, and their reasons.
func same(test *suiteTest, direct, through *leg) (reasons []string, ok bool) {
	name := test.suite + "." + test.name
	for _, a := range acceptances {
		if a.ends != nil && a.tests.MatchString(name) && direct.code == 0 && a.ends.Match(through.output) {
			return []string{a.reason}, true
		}
	}
	d, t := *direct, *through
	if !d.equal(&t) {
		onePort(&d, &t, &reasons)
	}
	for _, a := range acceptances {
		if a.ends != nil || !a.tests.MatchString(name) || d.equal(&t) {
			continue
		}
		reasons = append(reasons, a.reason)
		legs, text := []*leg{&d, &t}, []byte("…")
		if a.own {
			legs, text = legs[1:], nil
		}
		for _, l := range legs {
			l.recorded, l.output = a.pattern.ReplaceAll(l.recorded, text), a.pattern.ReplaceAll(l.output, text)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(reasons))), d.equal(&t)
}

// onePort replaces the gateway's port, and the words for the server's port, by the server's port.
func onePort(direct, through *leg, reasons *[]string) {
	port := regexp.MustCompile(`\b(MASTER_(MY)?PORT|` + strconv.Itoa(through.port) + `)\b`)
	server := strconv.AppendInt(nil, int64(direct.port), 10)
	if port.Match(direct.recorded) || port.Match(through.recorded) || port.Match(through.output) {
		*reasons = append(*reasons, "port")
	}
	for _, l := range []*leg{direct, through} {
		l.recorded, l.output = port.ReplaceAll(l.recorded, server), port.ReplaceAll(l.output, server)
	}
}
