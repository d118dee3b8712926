//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestMySQLTools dumps a schema, restores it, and reads the binary log, with MySQL's programs: directly and
// through Tare.
func TestMySQLTools(t *testing.T) {
	s := mysqlGTID.get(t)
	p := startTare(t, s.Addr)
	cleanSchema(t, "tools", s)
	source := session(t, s, "use tools", "set character_set_client = utf8mb4, character_set_results = utf8mb4")
	for _, z := range mysqlZoo {
		if z.name == "gipk" || z.name == "nothing" || z.name == "times" { // a dump does not restore the dates of the last
			continue
		}
		for _, text := range append([]string{"create table " + z.name + " " + z.columns}, z.inserts()...) {
			if _, err := source.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%.200s: %v", text, err)
			}
		}
	}
	for _, text := range []string{"create view seen as select id from numbers", "create procedure answer() select 42", "create event nightly on schedule every 1 day do select 1"} {
		_, err := source.ExecContext(t.Context(), text)
		must(t, err)
	}
	dump := func(addr string, more ...string) string {
		return mustRun(t, "", "mysqldump", mysqlRootArgs(t, addr, append(more, "--skip-dump-date", "--skip-comments", "--hex-blob", "--routines", "--triggers", "--events", "--single-transaction",
			"--set-gtid-purged=OFF", "--max-allowed-packet=64M", "tools")...)...)
	}
	direct := dump(s.Addr)
	for _, want := range []string{"`vectors`", "SRID 4326", "PROCEDURE `answer`", "EVENT `nightly`", "`computed`"} {
		if !strings.Contains(direct, want) {
			t.Errorf("the dump has no %s: it is no test", want)
		}
	}
	for _, mode := range []string{"DISABLED", "REQUIRED"} {
		if through := dump(p.addr, "--ssl-mode="+mode); through != direct {
			t.Errorf("with TLS %s the dump differs: %s", mode, difference(through, direct))
		}
	}
	cleanSchema(t, "tools", s)
	mustRun(t, direct, "mysql", mysqlRootArgs(t, p.addr, "--binary-mode", "--max-allowed-packet=64M", "tools")...)
	if restored, want := definition([]string{dump(s.Addr)}), definition([]string{direct}); restored != want {
		t.Errorf("what was restored differs: %s", difference(restored, want))
	}

	var file, position string
	var rest [3]any
	for i := range rest {
		rest[i] = new(any)
	}
	must(t, source.QueryRowContext(t.Context(), "show binary log status").Scan(append([]any{&file, &position}, rest[:]...)...))
	read := func(addr, how string) string {
		args := slices.DeleteFunc(mysqlRootArgs(t, addr), func(a string) bool { return strings.HasPrefix(a, "--default-character-set") })
		return mustRun(t, "", "mysqlbinlog", append(args, "--read-from-remote-source="+how, "--stop-position="+position, "--base64-output=DECODE-ROWS", "--verbose", file)...)
	}
	for _, how := range []string{"BINLOG-DUMP-NON-GTIDS", "BINLOG-DUMP-GTIDS"} {
		direct := read(s.Addr, how)
		through := read(p.addr, how)
		if direct != through {
			t.Errorf("%s: the log differs: %s", how, difference(through, direct))
		}
		if !strings.Contains(direct, "INSERT INTO `tools`.`numbers`") {
			t.Errorf("%s: the log is no test: %.1000s", how, direct)
		}
	}
}

// mysqlRootArgs is mysqlArgs for the account with all privileges.
func mysqlRootArgs(t *testing.T, addr string, more ...string) []string {
	args := mysqlArgs(t, addr, more...)
	for i, a := range args {
		args[i] = strings.Replace(a, "--user=app", "--user=root", 1)
	}
	return args
}
