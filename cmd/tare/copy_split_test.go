package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestCopySplit divides a table over two servers, refuses a server that is named twice under two addresses, and reports a row
// in the wrong target.
func TestCopySplit(t *testing.T) {
	from, first, second := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t), testmysql.Start(t, testmysql.WithBinlog())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	must(t, from.Exec("CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT)",
		"INSERT INTO shop.orders SELECT seq, seq FROM seq_1_to_100", "CREATE TABLE shop.countries (id INT PRIMARY KEY)", "INSERT INTO shop.countries VALUES (1), (2)"))
	account := func(addr string) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + addr
	}
	split := func(code int, a, b string, args ...string) (string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{
			"copy", "--from", account(from.Addr), "--to-shard", account(a), "--to-shard", account(b), "--tables", "shop.orders,shop.countries",
			"--shard-by", "shop.orders: range(customer, 31)", "--shard-by", "shop.countries: all", "--follow", "--follow-until", "caught-up",
		}, args...)
		if got := run(t.Context(), args, &stdout, &stderr); got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	stdout, _ := split(0, first.Addr, second.Addr, "--dry-run")
	for _, want := range []string{
		"to " + first.Addr + ":\nshop.orders: table shop.orders; where (`customer` < 31 OR `customer` IS NULL)\n",
		"to " + second.Addr + ":\nshop.orders: table shop.orders; where `customer` >= 31\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	_, port, _ := strings.Cut(first.Addr, ":")
	for _, args := range [][]string{{"--dry-run"}, nil, {"--restart"}} {
		_, stderr := split(1, first.Addr, "localhost:"+port, args...)
		if want := first.Addr + " and localhost:" + port + " are one server, and the rows of both parts would go to its table shop.orders"; !strings.Contains(stderr, want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
	must(t, first.Exec("CREATE DATABASE shop", "CREATE DATABASE _tare", "DROP DATABASE shop", "DROP DATABASE _tare")) // neither part has created anything
	stdout, stderr := split(0, first.Addr, second.Addr, "--verify")
	if !strings.Contains(stderr, "all 2 targets have caught up with the source\n") || !strings.Contains(stderr, first.Addr+": ") {
		t.Error(stderr)
	}
	if want := "shop.orders: verified in all 2 targets: 100 rows in total\nshop.countries: verified in all 2 targets: 4 rows in total\n"; !strings.Contains(stdout, want) {
		t.Errorf("no %q in %s", want, stdout)
	}
	must(t, second.Exec("INSERT INTO shop.orders VALUES (500, 5)")) // belongs to the first target, and is not in the source
	stdout, stderr = split(3, first.Addr, second.Addr, "--verify", "--json")
	if !strings.Contains(stderr, second.Addr+": 1 row differs between the two sides") || strings.Contains(stderr, first.Addr+": 1 row") {
		t.Error(stderr)
	}
	var reports []string
	for line := range strings.Lines(stdout) {
		var e struct{ Event, To string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "report" {
			reports = append(reports, e.To)
		}
	}
	if len(reports) != 2 || reports[0] != first.Addr || reports[1] != second.Addr {
		t.Errorf("reports of %v", reports)
	}
}

// TestCopySplitCutover makes the source read-only once both targets have everything, and repeats the command.
func TestCopySplitCutover(t *testing.T) {
	from, first, second := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t), testmysql.Start(t)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	must(t, from.Exec("CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT)", "INSERT INTO shop.orders SELECT seq, seq FROM seq_1_to_100",
		"CREATE OR REPLACE USER few IDENTIFIED BY '"+testmysql.Password+"'", "GRANT ALL ON shop.* TO few"))
	t.Cleanup(func() { must(t, from.Exec("SET GLOBAL read_only = 0", "DROP USER few")) })
	account := func(user, addr string) string { return "mysql://" + user + ":" + testmysql.Password + "@" + addr }
	cutOver := func(user string, code int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{
			"copy", "--from", account(user, from.Addr), "--to-shard", account(testmysql.RootUser, first.Addr), "--to-shard", account(testmysql.RootUser, second.Addr), "--tables", "shop.orders",
			"--shard-by", "shop.orders: hash(customer)", "--follow", "--verify", "--cutover", "--cutover-hold", "20s",
		}, args...)
		if got := run(t.Context(), args, &stdout, &stderr); got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, &stderr)
		}
		return stdout.String() + stderr.String()
	}
	if out := cutOver("few", 1, "--dry-run"); !strings.Contains(out, "makes the source read-only at the end, which its account must be permitted to do") {
		t.Error(out)
	}
	if out := cutOver("few", 1); !strings.Contains(out, "makes the source read-only at the end, which its account must be permitted to do") {
		t.Error(out)
	}
	for _, want := range []string{"shop.orders: verified in all 2 targets: 100 rows in total\n", ""} {
		out := cutOver(testmysql.RootUser, 0)
		if !strings.Contains(out, want) || strings.Count(out, "handed over: everything before ") != 2 || !strings.Contains(out, "the source is read-only: start the clients with the targets\n") {
			t.Error(out)
		}
	}
	if err := from.Exec("SET @on = IF(@@GLOBAL.read_only, 1, (SELECT 1 UNION SELECT 2))"); err != nil {
		t.Errorf("the source is not read-only: %v", err)
	}
}
