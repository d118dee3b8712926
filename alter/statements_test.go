package alter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysqlconn"
)

// TestEachStatementFails has the server fail at each statement of an alteration, in turn: it fails with the server's error, except where it
// does without the statement's effect, or repeats it.
func TestEachStatementFails(t *testing.T) {
	d := newDatabase(t, "MariaDB")
	proxy := testproxy.StartFaulty(t, d.server.Addr)
	tables := 0
	seen := make(map[string]bool)
	for _, a := range faultyAlters(d) {
		if a.name == "lint" || strings.HasPrefix(a.name, "copy") || a.name == "revert" {
			continue // TestNoErrorIsAbsence has a lint, and TestFaults those that copy
		}
		if a.do == nil {
			a.do = func(ctx context.Context, o Options) error {
				_, err := Run(ctx, o)
				return err
			}
		}
		run := func(at int) error {
			tables++
			table := fmt.Sprintf("faulty_%d_", tables)
			d.exec("CREATE TABLE " + d.schema + "." + table + " (id INT PRIMARY KEY, n INT NOT NULL)")
			o := d.options(table, a.clauses)
			o.Observe, o.On.TLSMode, o.MaxLockWait = nil, mysqlconn.TLSDisabled, 4*time.Second
			if a.before != nil {
				if err := a.before(o); err != nil {
					t.Fatalf("%s: %v", a.name, err)
				}
			}
			o.On.Addr = proxy.Addr
			proxy.Set(at, testproxy.Failed)
			return a.do(t.Context(), o)
		}
		if err := run(0); err != nil {
			t.Fatalf("%s without a fault: %v", a.name, err)
		}
		for i, sql := range proxy.Packets() {
			form := variable.ReplaceAllString(sql, "?")
			if seen[form] || slices.ContainsFunc(doneWithout, func(part string) bool { return strings.Contains(sql, part) }) || sql == "SELECT 1" {
				continue
			}
			seen[form] = true
			err := run(i + 1)
			switch {
			case proxy.Sent() == "": // a login
			case err == nil:
				t.Errorf("%s: the server failed to execute %q, unnoticed", a.name, sql)
			case !strings.Contains(err.Error(), testproxy.RefusedText):
				t.Errorf("%s: the server failed to execute %q: %v", a.name, sql, err)
			}
		}
	}
	t.Logf("%d statements", len(seen))
}

// variable matches the parts in which a statement differs between two runs.
var variable = regexp.MustCompile(`x?'[^']*'|[0-9]+`)

// doneWithout are parts of statements whose failure does not fail an alteration: those that try what the server supports, and those that
// are sent again with each variable that the server does not have. SELECT 1 checks a connection, which is opened again.
var doneWithout = []string{"alter_probe_", "SELECT VERSION(), CONNECTION_ID(),", "time_zone"}
