package gateway_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// steps are templates: K is the client's number, N a small random number.
var randomSteps = []string{
	"INSERT INTO tK (v) VALUES (N)", "INSERT INTO tK (v) VALUES (N), (N)", "INSERT INTO tK VALUES (100000000 + N, N)", "REPLACE INTO tK (id, v) VALUES (N, N)",
	"INSERT INTO tK (v) VALUES (LAST_INSERT_ID())", "SELECT LAST_INSERT_ID()", "SELECT LAST_INSERT_ID(N)", "SELECT @@last_insert_id, @@identity",
	"UPDATE tK SET v = v + 1 WHERE id < N", "UPDATE tK SET v = LAST_INSERT_ID(v) WHERE id = N", "DELETE FROM tK WHERE v > 3", "SELECT * FROM tK ORDER BY id LIMIT 3",
	"INSERT INTO W2.tK (v) VALUES (N)", "SELECT COUNT(*) FROM tK", "SELECT id, v FROM tK WHERE id = N", "DELETE FROM tK",
	"SELECT SQL_CALC_FOUND_ROWS id FROM tK LIMIT 1", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SHOW WARNINGS", "SHOW ERRORS", "SELECT @@warning_count, @@error_count",
	"SELECT CAST('1x' AS SIGNED)", "SELECT CAST('yN' AS SIGNED), 1/0", "INSERT IGNORE INTO tK (id, v) VALUES (N, 'abc')", "INSERT INTO tK (id, v) VALUES (N, 1), (N, 1)",
	"GET DIAGNOSTICS @n = NUMBER", "SELECT nothing FROM tK", "SELEC 1", "SELECT 'a\\'b', \"c\"", "SELECT HEX('é'), CHARSET('x'), COLLATION('x')", "SELECT 'a' 'b'",
	"BEGIN", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT AND CHAIN",
	"SET autocommit = 0", "SET autocommit = 1", "SET autocommit = 1", "SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES latin1 COLLATE latin1_bin", "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
	"SET character_set_results = NULL", "SET character_set_client = latin1", "SET CHARACTER SET utf8mb4", "SET collation_connection = utf8mb4_unicode_ci",
	"SET sql_mode = ''", "SET sql_mode = 'ANSI_QUOTES'", "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'", "SET @@sql_mode = DEFAULT", "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
	"SET time_zone = '+0N:00'", "SET time_zone = 'nowhere'", "SET group_concat_max_len = 10N", "SET SESSION group_concat_max_len = @@group_concat_max_len + 1", "SET foreign_key_checks = 0, unique_checks = OFF",
	"SET sql_select_limit = N", "SET sql_select_limit = DEFAULT", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION READ ONLY",
	"SET SESSION TRANSACTION READ WRITE", "SET TRANSACTION READ ONLY", "SET div_precision_increment = N", "SET lc_time_names = 'de_DE'", "SET max_sort_length = 10N", "SET sql_auto_is_null = 0", "SET sql_safe_updates = N",
	"SET timestamp = 10N", "SET last_insert_id = N", "SET insert_id = 5000N", "SET rand_seed1 = N, rand_seed2 = N", "SELECT RAND(N)", "SET sql_big_selects = 1, @x = N",
	"USE W1", "USE W2", "USE W2", ":init W1", ":init W2", ":init nowhere", "USE nowhere", "SELECT DATABASE()",
	"CREATE DATABASE IF NOT EXISTS WxK", "USE WxK", "DROP DATABASE IF EXISTS WxK",
	"SET @u = N", "SET @u := @u + 1, @v = 'x'", "SELECT @u, @v, @w, @n, @trg, @f", "SELECT @w := N", "SELECT N INTO @u",
	"CREATE TEMPORARY TABLE ttK (a INT)", "INSERT INTO ttK VALUES (N)", "SELECT * FROM ttK", "DROP TEMPORARY TABLE IF EXISTS ttK",
	"SELECT GET_LOCK('W_K', 0)", "SELECT RELEASE_LOCK('W_K')", "SELECT RELEASE_ALL_LOCKS()", "SELECT IS_FREE_LOCK('W_K')", "DO RELEASE_LOCK('W_K')",
	"LOCK TABLES tK WRITE", "UNLOCK TABLES", "UNLOCK TABLES", "HANDLER tK OPEN", "HANDLER tK READ FIRST", "HANDLER tK CLOSE",
	"PREPARE p FROM 'SELECT COUNT(*) FROM tK'", "EXECUTE p", "DEALLOCATE PREPARE p", "EXECUTE p", "PREPARE q FROM 'SET @u = 7'", "EXECUTE q",
	":prepared SELECT id, v FROM tK LIMIT 2", ":prepared INSERT INTO tK (v) VALUES (N)", ":prepared SELECT LAST_INSERT_ID()", ":prepared SET @u = N", ":prepared SELECT @u", ":prepared nonsense",
	":prepared SET sql_mode = 'ANSI_QUOTES'", ":prepared SET NAMES latin1", ":prepared CREATE TEMPORARY TABLE ttK (a INT)", ":prepared SELECT FOUND_ROWS()",
	"INSERT INTO gK VALUES (N)", "SELECT * FROM vfK", "SELECT fK()", "CALL pK(N)", "SELECT v FROM viK", "SET STATEMENT max_statement_time = 100 FOR SELECT 1", "DO 1", "DO SLEEP(0)",
	":slot 0 prepare SELECT id, v FROM tK WHERE v < ? ORDER BY id LIMIT 3", ":slot 0 prepare SELECT id, v FROM tK WHERE v < ? ORDER BY id LIMIT 3", ":slot 1 prepare INSERT INTO tK (v) VALUES (?)",
	":slot 2 prepare SELECT ?, DATABASE(), 'a' 'b', @@sql_mode", ":slot 2 prepare SELECT LAST_INSERT_ID()", ":slot 1 prepare SELECT CONCAT(?, 'x')", ":slot 2 prepare SELECT \"id\" FROM tK",
	":slot 0 execute", ":slot 0 execute", ":slot 1 execute", ":slot 1 execute", ":slot 2 execute", ":slot 2 execute", ":slot 0 again", ":slot 1 again", ":slot 2 again", ":slot 0 again", ":slot 1 again",
	":slot 0 text", ":slot 1 text", ":slot 0 cursor", ":slot 0 fetch", ":slot 0 fetch", ":slot 1 long", ":slot 0 long", ":slot 0 reset", ":slot 1 reset", ":slot 0 close", ":slot 1 close", ":slot 2 close",
	":reset", ":reset", ":reset", ":reset", ":redial", ":change app", ":change root", "TRUNCATE tK", "ANALYZE TABLE tK", "SHOW TABLES LIKE 'tK'", "EXPLAIN SELECT 1", "SELECT 1; SELECT 2", "XA START 'W_K'", "XA END 'W_K'", "XA ROLLBACK 'W_K'",
	"CHECKSUM TABLE tK", "SELECT v FROM tK WHERE id = 1 FOR UPDATE", "LOCK TABLES", "KILL QUERY 0", "SIGNAL SQLSTATE '45000'", "/* only a comment */", "SELECT NEXTVAL(sK)", "SELECT LASTVAL(sK)",
}

// volatile variables differ between two connections.
var volatile = []string{
	"timestamp", "rand_seed1", "rand_seed2", "statement_id", "pseudo_thread_id", "session_track_state_change", "last_insert_id", "identity", "error_count", "warning_count",
	"last_gtid", "gtid_binlog_pos", "gtid_current_pos", "gtid_binlog_state", "gtid_executed", "insert_id", "innodb_buffer_pool_load_incremental", "in_transaction",
}

// lower returns s with the words of SQL in lower case: the upper case that remains is of templates.
func lower(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' })
	for _, w := range words {
		if len(w) > 1 {
			s = strings.Replace(s, w, strings.ToLower(w), 1)
		}
	}
	return s
}

// unsteady are the session variables that no step sets, by reason; a name may be a pattern.
var unsteady = map[string][]string{
	"values differ between two connections":                             append([]string{"pseudo_slave_mode", "pseudo_replica_mode"}, volatile...),
	"the time that a statement or a client takes would decide":          {".*_timeout", "max_statement_time", "max_execution_time", "regexp_time_limit"},
	"the server's memory, statistics or caches would decide":            {"max_session_mem_used", "connection_memory_.*", "max_join_size", "query_cache_.*", "profiling.*", "optimizer_trace.*", "max_tmp_.*"},
	"the packets of responses change, which clients then have to parse": {"session_track_.*", "resultset_metadata", "max_allowed_packet", "net_buffer_length", "character_set_results"},
	"a test server has no replication, and one log for all sessions":    {"gtid_.*", "server_id", "sql_log_bin", "binlog_.*", "skip_replication", "wsrep_.*", "immediate_server_version", "original_.*", "default_master_connection", "sql_(slave|replica)_skip_counter", "max_relay_log_size", "replicate_.*"},
	"each statement takes long":                                         {"debug.*", "innodb_fts_.*", "ft_.*", "histogram_size", "lock_wait_.*"},
}

// variableSteps returns templates of SETs for each session variable that the server lists, other than those of unsteady.
func variableSteps(t *testing.T, s *testmysql.Server) (all []string) {
	var patterns []string
	for _, names := range unsteady {
		patterns = append(patterns, names...)
	}
	skipped := regexp.MustCompile("^(" + strings.Join(patterns, "|") + ")$")
	c := dialPooled(t, s.Addr, "", nil)
	var names []string
	_, err := c.Query(t.Context(), "SHOW SESSION VARIABLES", func(r mysqlwire.TextRow) error {
		if name := string(r[0]); !skipped.MatchString(name) {
			names = append(names, name)
		}
		return nil
	})
	must(t, err)
	set := 0
	for _, name := range names {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("SET SESSION %s = @@SESSION.%s", name, name)); err != nil {
			if _, ok := errors.AsType[*mysqlconn.ServerError](err); !ok {
				t.Fatalf("%s: %v", name, err)
			}
			continue // it belongs to the server, or is read-only
		}
		set++
		for _, value := range []string{"DEFAULT", "N", "10N", "ON", "OFF"} {
			all = append(all, "SET SESSION "+name+" = "+value)
		}
		all = append(all, fmt.Sprintf("SET @@%s = @@SESSION.%s", name, name))
	}
	if set < 50 {
		t.Errorf("%d of %d session variables can be set", set, len(names))
	}
	return all
}

// apart are the commands that no step executes, by reason. Names are those of testdata/commands.txt; a name may be a pattern.
var apart = map[string][]string{
	"they concern the server, or all of its sessions": {
		"shutdown", "restart", "kill", "flush", "reset", "purge.*", "change_.*", "install_.*", "uninstall_.*", "clone", "import", ".*slaves?", "replica_.*", "group_replication_.*",
		"backup.*", "(un)?lock_instance", "alter_instance", "assign_to_keycache", "preload_keys", "binlog", "set_password", "create_udf",
	},
	"their objects are in no schema, so that both worlds would share them": {
		".*_user.*", ".*_roles?", ".*_server", "grant", "revoke.*", ".*_resource_group", ".*_tablespace", ".*_spatial_reference_system", "set_role", "alter_db_upgrade",
	},
	"the server runs them at a time of its choice":                             {"(create|alter|drop|show_create)_event"},
	"their locks remain after the session":                                     {"xa_prepare"},
	"their rows are of all sessions":                                           {"xa_recover", "show_explain", "show_analyze", "explain_other"},
	"statements of the list have them, or would name an object of all clients": {"create_db", "drop_db", "change_db", "set_option", "alter_db", "show_create_db"},
}

var ofShop = regexp.MustCompile(`\bshop\.(\w+)`)

// commandSteps returns templates of the statements of each command that servers count, other than those of apart. Of commands that
// show something about the server, rows are not compared.
func commandSteps(t *testing.T) (all []string) {
	var patterns []string
	for _, names := range apart {
		patterns = append(patterns, names...)
	}
	skipped := regexp.MustCompile("^(" + strings.Join(patterns, "|") + ")$")
	commands, err := os.ReadFile("../internal/mysql/sqlplan/testdata/commands.txt")
	must(t, err)
	for line := range strings.Lines(string(commands)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || f[2] == "" || skipped.MatchString(f[0]) || strings.Contains(f[2], "OUTFILE") {
			continue
		}
		sql := regexp.MustCompile(`'x'`).ReplaceAllString(ofShop.ReplaceAllString(f[2], "W2.${1}_K"), "'W_K'")
		sql = strings.ReplaceAll(strings.ReplaceAll(sql, "FROM shop", "FROM W2"), " ON shop.*", " ON W2.*")
		if strings.HasPrefix(f[0], "show_") && f[0] != "show_warnings" && f[0] != "show_errors" {
			sql = ":quiet " + sql
		}
		all = append(all, sql)
	}
	if len(all) < 100 {
		t.Errorf("%d statements of commands", len(all))
	}
	return all
}

// A randomStep is a command of a client, or a comparison of its session's state.
type randomStep struct {
	client int
	text   string
}

func (s randomStep) String() string { return fmt.Sprintf("%d: %s", s.client, s.text) }

// scriptOf returns steps in the form of testdata/pooled.
func scriptOf(steps []randomStep) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// parseScript parses the steps of a script. Lines that start with # are comments.
func parseScript(script string) (steps []randomStep, err error) {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		number, text, ok := strings.Cut(line, ": ")
		k, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil, fmt.Errorf("no step: %q", line)
		}
		steps = append(steps, randomStep{k, text})
	}
	return steps, nil
}

// A stepSource returns random steps.
type stepSource struct {
	rnd                 *rand.Rand
	clients             int
	variables, commands []string
	pending             []randomStep
}

func (g *stepSource) next() randomStep {
	if n := len(g.pending); n > 0 {
		s := g.pending[n-1]
		g.pending = g.pending[:n-1]
		return s
	}
	list := randomSteps
	switch n := g.rnd.IntN(16); {
	case n == 0 && len(g.commands) > 0:
		list = g.commands
	case n == 1 && len(g.variables) > 0:
		list = g.variables
	}
	k := g.rnd.IntN(g.clients)
	text := list[g.rnd.IntN(len(list))]
	text = strings.NewReplacer("K", strconv.Itoa(k), "N", strconv.Itoa(1+g.rnd.IntN(4))).Replace(lower(text))
	if g.rnd.IntN(8) == 0 && text != ":redial" && !strings.Contains(text, "warn") {
		if g.rnd.IntN(8) == 0 {
			g.pending = append(g.pending, randomStep{k, ":variables"})
		}
		g.pending = append(g.pending, randomStep{k, ":state"})
	}
	return randomStep{k, text}
}

// clientsOf returns the clients of steps, in order.
func clientsOf(steps []randomStep) (all []int) {
	for _, s := range steps {
		all = append(all, s.client)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
