package copier_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/move/copier"
)

// TestEverySQLMode creates a function under each mode that the server has: no mode is unknown to the copy.
func TestEverySQLMode(t *testing.T) {
	p := newPair(t, "modes")
	created := 0
	for bit := range 64 {
		if _, err := p.source.Exec(t.Context(), fmt.Sprintf("SET SESSION sql_mode = %d", uint64(1)<<bit)); err != nil {
			continue // the server has no such mode
		}
		function := fmt.Sprintf("CREATE FUNCTION f%d() ", bit)
		if _, err := p.source.Exec(t.Context(), function+"RETURNS INT DETERMINISTIC RETURN 1"); err != nil { // in Oracle's dialect
			sqlExec(t, p.source, function+"RETURN INT DETERMINISTIC AS BEGIN RETURN 1; END")
		}
		created++
	}
	sqlExec(t, p.source, "SET SESSION sql_mode = DEFAULT")
	if created < 15 {
		t.Fatalf("the server has %d modes", created)
	}
	o := p.options()
	inv, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{p.schema}})
	if inv == nil {
		t.Fatal(err)
	}
	for _, f := range inv.Objects {
		if strings.Contains(f.Why, "which is unknown") {
			t.Errorf("%s with %s: %s", f, f.Context.SQLMode, f.Why)
		}
	}
}
