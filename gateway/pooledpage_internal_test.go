package gateway

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

var rewritePool = flag.Bool("rewrite-pool", false, "write the tables of docs/reference/pool.md")

const poolPage = "../docs/reference/pool.md"

// TestPoolPage compares the tables of the page with what a session that shares connections does after the statements of
// testdata/commands.txt, and with the variables that move.
func TestPoolPage(t *testing.T) {
	old, err := os.ReadFile(poolPage)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := os.ReadFile("../internal/mysql/sqlplan/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	byReason := make(map[string][]string)
	var protocol []string
	for line := range strings.Lines(string(commands)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(f) != 3:
			continue
		case f[2] == "":
			protocol = append(protocol, "`"+f[0]+"`")
			continue
		}
		server := "9.7.0"
		if strings.HasPrefix(f[1], "10") || strings.HasPrefix(f[1], "11") {
			server = "10.11.19-MariaDB"
		}
		reason := pinOf(planner, f[2], server)
		if text := "`" + strings.ReplaceAll(f[2], "`", "") + "`"; !slices.Contains(byReason[reason], text) {
			byReason[reason] = append(byReason[reason], text)
		}
	}
	var b strings.Builder
	b.WriteString("| the session keeps its connection because of | after |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		if reason != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", reason, strings.Join(byReason[reason], ", "))
		}
	}
	fmt.Fprintf(&b, "| nothing, outside of a transaction and without warnings | %s |\n", strings.Join(byReason[""], ", "))
	head, _, ok := strings.Cut(string(old), "<!-- generated -->\n")
	if !ok {
		t.Fatalf("%s has no place for the tables", poolPage)
	}
	page := head + "<!-- generated -->\n" + b.String() +
		"\nCounted by servers without a statement of the text protocol: " + strings.Join(protocol, ", ") + ".\n" +
		"\n## Session variables\n\nA `SET` of plain values moves if all of its variables are among these; every other one pins:\n\n`" +
		strings.Join(pool.Variables(), "`, `") + "`.\n"
	if *rewritePool {
		if err := os.WriteFile(poolPage, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != string(old) {
		t.Errorf("%s is out of date: go test ./gateway -run TestPoolPage -rewrite-pool", poolPage)
	}
}

// pinOf returns why a session keeps its connection after a statement.
func pinOf(planner *sqlplan.Planner, sql, server string) string {
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer(server)).WithCharset(sqldigest.CharsetNamed([]byte("utf8mb4")))
	var d sqldigest.Digester
	digest := d.Digest([]byte(sql), mode)
	plan := planner.Plan(sqlplan.Statement{
		SQL: []byte(sql), Complete: true, Text: d.Text(), Digest: digest, Scope: planner.ScopeOf([]byte("shop"), []byte("app"), mode), Schema: []byte("shop"), User: []byte("app"), Mode: mode,
	})
	x := &executor{}
	x.srv = &Server{}
	x.query, x.pooled, x.carried.shares = &query{}, true, true
	x.lease.shared = &pool.Conn[class, *sharedConn]{Value: &sharedConn{}}
	x.plan, x.rec.Text = plan, []byte(sql)
	x.msg.cmd, x.msg.whole = mysqlwire.ComQuery, true
	x.resp.Results = 1
	if plan.Effects().Any(statefulEffects) && x.carried.track(x.query, mode, plan.Effects()) {
		return "`SET TRANSACTION` for the next transaction"
	}
	x.afterShared()
	if p := x.carried.pin.Load(); p != nil {
		return p.Reason
	}
	if plan.Effects().Has(sqlplan.EffectBegin) {
		return "a transaction"
	}
	return ""
}
