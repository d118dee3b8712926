package sqlplan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/mysql/sqldigest"
)

// newPlanner returns a planner with default options.
func newPlanner(t testing.TB, rules ...Rule) *Planner {
	t.Helper()
	p, err := New(Options{CacheBytes: 4 << 20, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A client creates statements as the gateway does.
type client struct {
	digester     sqldigest.Digester
	schema, user string
	mode         sqldigest.Mode
}

func (c *client) statement(p *Planner, sql string) Statement {
	st := Statement{
		SQL: []byte(sql), Complete: true,
		Schema: []byte(c.schema), User: []byte(c.user), Mode: c.mode,
	}
	st.Digest = c.digester.Digest(st.SQL, c.mode)
	st.Text = c.digester.Text()
	st.Scope = p.ScopeOf(st.Schema, st.User, c.mode)
	if sqldigest.Divergent(st.SQL, c.mode) {
		st.Scope = st.Scope.Divergent()
	}
	return st
}

// TestPlan runs the table of statements and their plans in testdata.
func TestPlan(t *testing.T) {
	datadriven.Walk(t, "testdata/plan", func(t *testing.T, path string) {
		p := newPlanner(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c := client{schema: "shop"}
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "schema":
					c.schema = strings.Join(arg.Vals, "")
				case "ansi":
					c.mode |= sqldigest.ANSIQuotes
				case "mariadb":
					c.mode = c.mode.WithServer(sqldigest.ParseServer("10.11.6-MariaDB"))
				case "no-backslash":
					c.mode |= sqldigest.NoBackslashEscapes
				default:
					d.Fatalf(t, "unknown argument %s", arg.Key)
				}
			}
			var out strings.Builder
			statements := []string{d.Input}
			if d.Cmd == "lines" {
				statements = strings.Split(d.Input, "\n")
			}
			for _, sql := range statements {
				st := c.statement(p, sql)
				describe(&out, p.Plan(st))
			}
			return out.String()
		})
	})
}

func describe(out *strings.Builder, p *Plan) {
	fmt.Fprintf(out, "%s", p.Type())
	if p.ReadOnly() {
		out.WriteString(" read-only")
	}
	if !p.Parsed() {
		out.WriteString(" unparsed")
	}
	fmt.Fprintf(out, " effects=%s", p.Effects())
	for t := range p.Tables() {
		fmt.Fprintf(out, " %s:%s", t, t.Access)
	}
	for h := range p.Hints() {
		fmt.Fprintf(out, " hint=%q", strings.TrimSpace(h))
	}
	out.WriteByte('\n')
}
