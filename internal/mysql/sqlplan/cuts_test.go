package sqlplan

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

var rewriteCuts = flag.Bool("rewrite-cuts", false, "write testdata/cuts.txt again")

// cutWord matches a word of a statement, or a sign.
var cutWord = regexp.MustCompile("[\\w$]+|'[^']*'|\"[^\"]*\"|`[^`]*`|/\\*.*?\\*/|--.*|\\S")

// TestCuts plans each statement of testdata/commands.txt and testdata/plan after each of its words, as a client may send it and as a log may have it
// cut. testdata/cuts.txt has the number of words from which on a plan differs from the one before; "maria" and "mysql" stand before plans of one server,
// and "any-table" and "any-type" after plans that a rule blocks which names a table, or the type of KILL, that the statements do not have.
func TestCuts(t *testing.T) {
	statements := allStatements(t)
	p := newPlanner(t)
	rules := map[string]*Planner{
		" any-table": newPlanner(t, Rule{Name: "r", Action: ActionBlock, Tables: []string{"none.secret"}}),
		" any-type":  newPlanner(t, Rule{Name: "r", Action: ActionBlock, Types: []Type{TypeKill}}),
	}
	servers := map[string]*client{
		"maria": {schema: "shop", mode: sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.19-MariaDB"))},
		"mysql": {schema: "shop", mode: sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.0"))},
	}
	var out strings.Builder
	for _, sql := range statements {
		fmt.Fprintln(&out, sql)
		last := make(map[string]string)
		for i, end := range cutWord.FindAllStringIndex(sql, -1) {
			plans := make(map[string]string)
			for name, c := range servers {
				var plan strings.Builder
				describe(&plan, p.Plan(c.statement(p, sql[:end[1]])))
				var text strings.Builder
				text.WriteString(strings.TrimSuffix(strings.ReplaceAll(plan.String(), " effects=-", ""), "\n"))
				for _, rule := range []string{" any-table", " any-type"} {
					if v, _ := rules[rule].Plan(c.statement(rules[rule], sql[:end[1]])).Verdict(); v.Refuses() {
						text.WriteString(rule)
					}
				}
				plans[name] = text.String() + "\n"
			}
			switch {
			case plans["maria"] == plans["mysql"] && (plans["maria"] != last["maria"] || plans["mysql"] != last["mysql"]):
				fmt.Fprintf(&out, "\t%d %s", i+1, plans["maria"])
			case plans["maria"] != plans["mysql"]:
				for _, name := range []string{"maria", "mysql"} {
					if plans[name] != last[name] {
						fmt.Fprintf(&out, "\t%d %s %s", i+1, name, plans[name])
					}
				}
			}
			last = plans
		}
		for name, c := range servers {
			st := c.statement(p, sql)
			st.Text, st.Complete = bytes.Clone(st.Text), false
			digest := st.Digest
			if st.Digest = c.statement(p, sql+" and more").Digest; st.Digest == digest {
				continue // it ends within a comment or a text
			}
			if plan := p.Plan(st); plan.ReadOnly() || !plan.Effects().Has(EffectUnknown|EffectSQLMode) {
				t.Errorf("%s, the beginning of a statement for %s: read-only %t, %s", sql, name, plan.ReadOnly(), plan.Effects())
			}
		}
	}
	const file = "testdata/cuts.txt"
	if *rewriteCuts {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.SplitAfter(out.String(), "\n"), strings.SplitAfter(string(text), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("line %d of %s: got %s, want %s; if that is right, run the test with -rewrite-cuts", i+1, file, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// allStatements returns the statements of testdata/commands.txt and testdata/plan.
func allStatements(t *testing.T) (all []string) {
	commands, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(commands)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 3 && f[2] != "" {
			all = append(all, f[2])
		}
	}
	files, err := filepath.Glob("testdata/plan/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		in := false
		for line := range strings.Lines(string(text)) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "plan") || strings.HasPrefix(line, "lines"):
				in = true
			case line == "----" || line == "":
				in = false
			case in:
				all = append(all, line)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
