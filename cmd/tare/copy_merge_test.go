package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestCopyMerge merges a table of two servers, refuses the sources in another order, and reports a row of the target that no source has, and a
// row that both have.
func TestCopyMerge(t *testing.T) {
	first, second, to := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for i, s := range []*testmysql.Server{first, second} {
		must(t, s.Exec("CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT, code VARCHAR(10) UNIQUE)",
			"INSERT INTO shop.orders SELECT 2 * seq + "+[]string{"0", "1"}[i]+", seq, CONCAT(seq, '-', @@port) FROM seq_"+[]string{"1_to_30", "31_to_100"}[i]))
	}
	account := func(addr string) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + addr
	}
	merge := func(code int, a, b string, args ...string) (string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{
			"copy", "--from-shard", account(a), "--from-shard", account(b), "--to", account(to.Addr), "--tables", "shop.orders",
			"--shard-by", "shop.orders: range(customer, 31)", "--follow", "--follow-until", "caught-up",
		}, args...)
		if got := run(t.Context(), args, &stdout, &stderr); got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	stdout, _ := merge(0, first.Addr, second.Addr, "--dry-run")
	for _, want := range []string{
		"from " + first.Addr + ":\nshop.orders: table shop.orders; from source 1 of 2 by range(customer, 31)\n",
		"from " + second.Addr + ":\nshop.orders: table shop.orders; from source 2 of 2 by range(customer, 31)\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	for _, args := range [][]string{{"--dry-run"}, nil} {
		_, stderr := merge(1, second.Addr, first.Addr, args...)
		if !strings.Contains(stderr, "it belongs to source 2 ("+first.Addr+")") && !strings.Contains(stderr, "it belongs to source 1 ("+second.Addr+")") {
			t.Error(stderr)
		}
	}
	must(t, to.Exec("DROP DATABASE IF EXISTS shop", "DROP DATABASE IF EXISTS _tare"))
	stdout, stderr := merge(0, first.Addr, second.Addr, "--verify")
	if !strings.Contains(stderr, "the target has caught up with all 2 sources\n") || !strings.Contains(stderr, second.Addr+": ") {
		t.Error(stderr)
	}
	if want := "shop.orders: verified in all 2 sources: 100 rows in total\n"; !strings.Contains(stdout, want) {
		t.Errorf("no %q in %s", want, stdout)
	}
	must(t, to.Exec("INSERT INTO shop.orders VALUES (500, 5, NULL)")) // would belong to the first source
	stdout, stderr = merge(3, first.Addr, second.Addr, "--verify", "--json")
	if !strings.Contains(stderr, first.Addr+": 1 row differs between the two sides") || strings.Contains(stderr, second.Addr+": 1 row") {
		t.Error(stderr)
	}
	var reports []string
	for line := range strings.Lines(stdout) {
		var e struct{ Event, From, To string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "report" {
			reports = append(reports, e.From+" "+e.To)
		}
	}
	if len(reports) != 2 || reports[0] != first.Addr+" "+to.Addr || reports[1] != second.Addr+" "+to.Addr {
		t.Errorf("reports of %v", reports)
	}
	must(t, second.Exec("INSERT INTO shop.orders VALUES (2, 77, 'second')"))
	_, stderr = merge(1, first.Addr, second.Addr, "--patience", "1s")
	if want := "a row of source 2 (" + second.Addr + ") has the same value of a unique key of shop.orders as one of source 1 (" + first.Addr + ")"; !strings.Contains(stderr, want) || !strings.Contains(stderr, "'2' for key") {
		t.Errorf("no %q in %s", want, stderr)
	}
}
