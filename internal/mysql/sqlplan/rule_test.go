package sqlplan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestRules shows the refusals of rules. In testdata/rules, the command "rules" sets rules, one per line:
// name, action, and lists; "try" prints the verdict on each line.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		p := newPlanner(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "rules":
				var rules []Rule
				for line := range strings.Lines(d.Input) {
					rules = append(rules, parseRule(t, d, strings.Fields(line)))
				}
				if err := p.SetRules(rules); err != nil {
					return err.Error() + "\n"
				}
				return ""
			case "hits":
				var out strings.Builder
				for _, h := range p.RuleHits() {
					fmt.Fprintf(&out, "%s %s %d\n", h.Rule, h.Action, h.Count)
				}
				return out.String()
			case "try":
				c := client{schema: "shop", user: "app"}
				for _, arg := range d.CmdArgs {
					switch v := strings.Join(arg.Vals, ""); arg.Key {
					case "user":
						c.user = v
					case "schema":
						c.schema = v
					}
				}
				var out strings.Builder
				for sql := range strings.Lines(d.Input) {
					plan := p.Plan(c.statement(p, sql))
					v, rule := plan.Verdict()
					plan.Hit()
					fmt.Fprint(&out, v)
					if rule != "" {
						fmt.Fprintf(&out, " by %s", rule)
					}
					if m := plan.Message(); m != "" {
						fmt.Fprintf(&out, ": %s", m)
					}
					out.WriteByte('\n')
				}
				return out.String()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func parseRule(t *testing.T, d *datadriven.TestData, fields []string) Rule {
	r := Rule{Name: fields[0]}
	if a, err := ParseAction(fields[1]); err == nil {
		r.Action = a
	}
	for _, f := range fields[2:] {
		k, v, _ := strings.Cut(f, "=")
		if k == "dry-run" {
			r.DryRun = true
			continue
		}
		switch k {
		case "tables":
			r.Tables = strings.Split(v, ",")
		case "users":
			r.Users = strings.Split(v, ",")
		case "message":
			r.Message = v
		case "types":
			for name := range strings.SplitSeq(v, ",") {
				typ, err := ParseType(name)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				r.Types = append(r.Types, typ)
			}
		case "digest-of":
			var dg sqldigest.Digester
			r.Digests = append(r.Digests, dg.Digest([]byte(strings.ReplaceAll(v, "_", " ")), 0))
		default:
			d.Fatalf(t, "unknown list %s", k)
		}
	}
	return r
}

func TestTypeNames(t *testing.T) {
	for typ := range AllTypes() {
		got, err := ParseType(typ.String())
		if err != nil || got != typ {
			t.Errorf("ParseType(%q) = %v, %v", typ.String(), got, err)
		}
	}
	if _, err := ParseType("Select"); err == nil {
		t.Error("ParseType takes a name that String does not return")
	}
	if typeCount > 64 {
		t.Error("a typeSet has no room for all types")
	}
}

func TestEffectNames(t *testing.T) {
	all := effectsEnd - 1
	names := strings.Split(all.String(), ",")
	if want := len(effectNames); len(names) != want || effectsEnd != 1<<want {
		t.Errorf("%d names for effects up to %#x, want %d", len(names), effectsEnd, want)
	}
	if got := Effect(0).String(); got != "-" {
		t.Errorf("no effect is %q", got)
	}
}

// TestSynonyms compares the list of words that a pattern has to cover with the digest's.
func TestSynonyms(t *testing.T) {
	for _, s := range synonyms {
		kw := sqldigest.LookupKeyword(s)
		if kw == 0 || strings.EqualFold(kw.String(), s) {
			t.Errorf("%s is no synonym: the digest prints it as %q", s, kw.String())
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true},
		{"*", "abc", true},
		{"", "", true},
		{"", "a", false},
		{"a*c", "abbc", true},
		{"a*c", "abb", false},
		{"a?c", "aBc", true},
		{"a?c", "ac", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"orders", "ORDERS", true},
		{strings.Repeat("*a", 200), strings.Repeat("a", 2000) + "b", false},
	} {
		if got := globMatch(c.pattern, c.s); got != c.want {
			t.Errorf("globMatch(%.20q, %.20q) = %v", c.pattern, c.s, got)
		}
	}
}

// TestUnknownMode checks that rules about tables, types and read-only statements refuse statements that may
// be read in another way.
func TestUnknownMode(t *testing.T) {
	for _, r := range []Rule{
		{Name: "r", Action: ActionBlock, Tables: []string{"shop.secret"}},
		{Name: "r", Action: ActionBlock, Types: []Type{TypeDelete}},
		{Name: "r", Action: ActionReadOnly},
	} {
		p, err := New(Options{Rules: []Rule{r}})
		if err != nil {
			t.Fatal(err)
		}
		for _, unknown := range []sqldigest.Mode{0, sqldigest.UnknownCharset, sqldigest.UnknownSQLMode} {
			var d sqldigest.Digester
			digest := d.Digest([]byte("select 1"), unknown)
			plan := p.Plan(Statement{
				SQL: []byte("select 1"), Complete: true, Text: d.Text(), Digest: digest, Mode: unknown,
				Scope: p.ScopeOf(nil, nil, unknown),
			})
			if v, _ := plan.Verdict(); (v == VerdictPass) != (unknown == 0) {
				t.Errorf("%+v in mode %#x: %v", r, unknown, v)
			}
		}
	}
}
