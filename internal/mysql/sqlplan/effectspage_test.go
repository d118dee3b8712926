package sqlplan

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

const effectsPage = "../../../docs/reference/rule-effects.md"

var rewriteEffects = flag.Bool("rewrite-effects", false, "write the table of statements into "+effectsPage)

// TestEffectsByStatement plans the statements of testdata/commands.txt and compares the table of their types and effects on
// the page.
func TestEffectsByStatement(t *testing.T) {
	const begin = "Type; effects: statements.\n\n"
	text, err := os.ReadFile(effectsPage)
	if err != nil {
		t.Fatal(err)
	}
	page, old, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no table of statements", effectsPage)
	}
	commands, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(t)
	type row struct{ typ, effects string }
	var order []row
	statements := make(map[row][]string)
	for line := range strings.Lines(string(commands)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 || f[2] == "" {
			continue
		}
		c := client{schema: "shop", mode: sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.0"))}
		if strings.HasPrefix(f[1], "10") {
			c.mode = sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.19-MariaDB"))
		}
		plan := p.Plan(c.statement(p, f[2]))
		a := analysis{effects: plan.Effects(), typ: plan.Type()}
		effects := strings.ReplaceAll(a.ruleEffects().String(), ",", ", ")
		r, statement := row{plan.Type().String(), effects}, "`"+strings.ReplaceAll(f[2], "`", "")+"`"
		if statements[r] == nil {
			order = append(order, r)
		}
		if !slices.Contains(statements[r], statement) {
			statements[r] = append(statements[r], statement)
		}
	}
	groups := make(map[string]int) // of the first words of statements
	for _, r := range order {
		seen := make(map[string]bool)
		for _, statement := range statements[r] {
			if words := firstWords(statement); !seen[words] {
				seen[words] = true
				groups[words]++
			}
		}
	}
	for _, r := range order {
		var short []string
		for _, statement := range statements[r] {
			if words := firstWords(statement); groups[words] == 1 {
				statement = words
			}
			if !slices.Contains(short, statement) {
				short = append(short, statement)
			}
		}
		statements[r] = short
	}
	slices.SortStableFunc(order, func(a, b row) int { return strings.Compare(a.typ, b.typ) })
	var b strings.Builder
	for _, r := range order {
		effects := r.effects
		if effects == "-" {
			effects = "none"
		}
		list := strings.Join(byVerb(statements[r]), ", ")
		if r == (row{"show", "-"}) {
			list = "`SHOW …`, all others" // some sixty
		}
		fmt.Fprintf(&b, "- %s; %s: %s\n", r.typ, effects, list)
	}
	if *rewriteEffects {
		if err := os.WriteFile(effectsPage, []byte(page+begin+b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != b.String() {
		t.Errorf("the table of %s differs: go test ./internal/mysql/sqlplan -run TestEffectsByStatement -rewrite-effects\n%s", effectsPage, b.String())
	}
}

// byVerb returns sorted statements, those of a verb that has more than four together: `ALTER` (`EVENT`, `TABLE`).
func byVerb(statements []string) (out []string) {
	for rest := statements; len(rest) > 0; {
		verb, _, _ := strings.Cut(rest[0], " ")
		n := slices.IndexFunc(rest, func(s string) bool { return !strings.HasPrefix(s, verb+" ") })
		if n < 0 {
			n = len(rest)
		}
		if n > 4 {
			var objects []string
			for _, s := range rest[:n] {
				objects = append(objects, "`"+s[len(verb)+1:])
			}
			out = append(out, verb+"` ("+strings.Join(objects, ", ")+")")
		} else {
			n = max(n, 1)
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// firstWords returns the words in upper case that a statement starts with, as code.
func firstWords(statement string) string {
	words := regexp.MustCompile("^`(?:[A-Z_]+[ `])*").FindString(statement)
	return "`" + strings.Trim(words, " `") + "`"
}

// TestEffectsPage compares the page with the effects and the types that imply them.
func TestEffectsPage(t *testing.T) {
	text, err := os.ReadFile(effectsPage)
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([a-z-]+)`")
	words := func(cell string) (list []string) {
		for _, m := range word.FindAllStringSubmatch(cell, -1) {
			list = append(list, m[1])
		}
		return list
	}
	var onPage Effect
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for _, name := range words(cells[1]) {
			e, err := ParseEffect(name)
			if err != nil || onPage&e != 0 {
				t.Errorf("%s: %v, or twice", name, err)
			}
			onPage |= e
			var want []string
			for i := range AllTypes() {
				if i.Implied()&e != 0 {
					want = append(want, i.String())
				}
			}
			got := words(cells[3])
			slices.Sort(got)
			slices.Sort(want)
			if strings.Contains(cells[3], " type") {
				continue // described in words
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the page has the types %v, want %v", name, got, want)
			}
		}
	}
	for e := range AllEffects() {
		if onPage&e == 0 {
			t.Errorf("%s is not on the page", e)
		}
	}
}
