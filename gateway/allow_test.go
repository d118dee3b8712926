package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// TestDefaultDeny checks that allow rules refuse everything they do not match, as text, prepared, and as a
// command without text, and that dry runs refuse nothing but count and log.
func TestDefaultDeny(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE TABLE IF NOT EXISTS "+s.Name+".a (x INT)", "CREATE TABLE IF NOT EXISTS "+s.Name+".b (x INT)"))
	path := filepath.Join(t.TempDir(), "query.log")
	log, err := querylog.New(querylog.Options{Sinks: []querylog.SinkOptions{{Path: path}}})
	must(t, err)
	g := startGateway(t, s.Addr, func(o *gateway.Options) { o.Log = log })
	rules := func(dry bool) {
		must(t, g.planner.SetRules([]sqlplan.Rule{
			{Name: "no-truncate", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeDDL}, DryRun: true},
			{Name: "a", Action: sqlplan.ActionAllow, Tables: []string{s.Name + ".a"}, DryRun: dry},
		}))
	}
	for _, dry := range []bool{false, true} {
		rules(dry)
		client := raw(t, g, s, 0)
		for _, c := range []struct {
			name    string
			body    []byte
			refused bool
		}{
			{"allowed", append([]byte{byte(mysqlwire.ComQuery)}, "DELETE FROM a"...), false},
			{"allowed by all but a dry run", append([]byte{byte(mysqlwire.ComQuery)}, "TRUNCATE a"...), false},
			{"another table", append([]byte{byte(mysqlwire.ComQuery)}, "DELETE FROM b"...), true},
			{"both tables", append([]byte{byte(mysqlwire.ComQuery)}, "DELETE FROM a WHERE x IN (SELECT x FROM b)"...), true},
			{"another schema", append([]byte{byte(mysqlwire.ComInitDB)}, s.Name...), true},
			{"hidden text", append([]byte{byte(mysqlwire.ComQuery)}, "EXECUTE IMMEDIATE 'DELETE FROM a'"...), true},
		} {
			packets := command(t, client, c.body, func(p []byte) bool { return true })
			var e mysqlwire.Err
			refused := packets[0][0] == mysqlwire.MarkErr && e.Decode(packets[0]) == nil && e.Number == mysqlwire.ErrnoSpecificAccessDenied
			if refused != (c.refused && !dry) {
				t.Errorf("%s, dry run %v: refused %v: %q", c.name, dry, refused, packets[0])
			}
		}
	}
	// Default deny would refuse three times, two of them statements; the log has no line for the command
	// without text. The text of EXECUTE IMMEDIATE may be a TRUNCATE.
	want := `{rule="default-deny",action="dry-run"} 3, {rule="no-truncate",action="dry-run"} 3`
	if got := ruleHits(t, g.Server); got != want {
		t.Errorf("rule hits are %s, want %s", got, want)
	}
	idle(t, g) // a session records a statement after it has forwarded the response
	must(t, log.Close(context.Background()))
	text, err := os.ReadFile(path)
	must(t, err)
	for line, want := range map[string]int{
		`"rule":"default-deny","rule_action":"deny"`: 3, `"rule":"default-deny","rule_action":"dry-run"`: 2,
		`"rule":"no-truncate","rule_action":"dry-run"`: 3,
	} {
		if n := strings.Count(string(text), line); n != want {
			t.Errorf("the log has %d lines with %s, want %d:\n%s", n, line, want, text)
		}
	}
}

// ruleHits returns the metric of rule hits, by rule.
func ruleHits(t *testing.T, s *gateway.Server) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	must(t, r.Register(s.Collector()))
	families, err := r.Gather()
	must(t, err)
	var all []string
	for _, f := range families {
		if f.GetName() != "tare_rule_hits_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all = append(all, fmt.Sprintf("{rule=%q,action=%q} %v", labels["rule"], labels["action"], m.GetCounter().GetValue()))
		}
	}
	return strings.Join(all, ", ")
}
