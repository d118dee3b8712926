//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestCopyNameCase copies and follows tables between servers that compare table names with and without case,
// by options in another case than the tables'.
func TestCopyNameCase(t *testing.T) {
	start := func(folds bool) *testmysql.Server {
		opts := []testmysql.Option{testmysql.WithBinlog(), copierAccount}
		if folds {
			opts = append(opts, testmysql.WithArgs("--lower-case-table-names=1"))
		}
		return testmysql.Start(t, opts...)
	}
	for name, tt := range map[string]struct {
		from, to     bool   // names are compared ignoring case
		table        string // the option
		first, other string // the table in the source and in the target
	}{
		"exact to folding":                     {false, true, "Names.Orders", "Names.Orders", "names.orders"},
		"folding to exact":                     {true, false, "names.orders", "names.orders", "names.orders"},
		"folding to exact, option in capitals": {true, false, "Names.Orders", "names.orders", "Names.Orders"},
		"folding to folding":                   {true, true, "NAMES.Orders", "names.orders", "names.orders"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := start(tt.from), start(tt.to)
			schema, _, _ := strings.Cut(tt.first, ".")
			must(t, from.Exec("create database "+schema, "create table "+tt.first+" (id int primary key, n int)", "insert into "+tt.first+" values (1, 1), (2, 2)"))
			args := copyArgs(from, to, "--tables="+tt.table, "--follow", "--follow-until=caught-up", "--verify")
			mustRun(t, "", binary, args...)
			must(t, from.Exec("insert into "+tt.first+" values (3, 3)", "update "+tt.first+" set n = 9 where id = 1", "delete from "+tt.first+" where id = 2"))
			mustRun(t, "", binary, args...)
			var want, got string
			scan(t, open(t, from.Addr, ""), sumOf("id, n) from "+tt.first), &want)
			scan(t, open(t, to.Addr, ""), sumOf("id, n) from "+tt.other), &got)
			if want != got || !strings.HasPrefix(want, "2 ") {
				t.Errorf("source: %s, target: %s", want, got)
			}
		})
	}
	t.Run("two names that differ in case", func(t *testing.T) {
		exact, folds := start(false), start(true)
		must(t, exact.Exec("create database names", "create table names.a (id int primary key)", "create table names.A (id int primary key)", "insert into names.a values (1)", "insert into names.A values (2)"))
		must(t, folds.Exec("create database names", "create table names.a (id int primary key)"))
		refused := func(from, to *testmysql.Server, want string, more ...string) {
			t.Helper()
			out, err := exec.CommandContext(t.Context(), binary, copyArgs(from, to, more...)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
		}
		refused(exact, folds, "both would be one table", "--tables=names.a,names.A")
		refused(exact, folds, "both would be one table", "--tables=names.a,names.A", "--dry-run")
		mustRun(t, "", binary, copyArgs(exact, folds, "--tables=names.a")...)
		refused(exact, folds, "has rows already", "--tables=names.A")
		refused(folds, start(false), "are one, whose changes can be followed once", "--tables=names.a,names.A", "--follow", "--follow-until=caught-up")
	})
	t.Run("foreign key in another case", func(t *testing.T) {
		from, to := start(true), start(false)
		must(t, from.Exec("create database names", "create table names.parent (id int primary key)", "insert into names.parent values (1)",
			"create table names.child (id int primary key, foreign key (id) references names.parent (id))", "insert into names.child values (1)"))
		// The target would have Names.Parent and a key to Names.parent.
		for _, more := range []string{"--verify", "--dry-run"} {
			out, err := exec.CommandContext(t.Context(), binary, copyArgs(from, to, "--tables=Names.Parent,Names.Child", more)...).CombinedOutput()
			if want := "refers to Names.parent, which is not copied"; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v: %s", more, err, out)
			}
		}
		mustRun(t, "", binary, copyArgs(from, to, "--tables=names.parent,names.child", "--verify")...)
	})
}
