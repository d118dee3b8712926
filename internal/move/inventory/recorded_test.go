package inventory

import (
	"strings"
	"testing"
)

// TestSystemSchemasInDumps has a dump that lists objects of the server's schemas: they are refused unless they are tables that are named.
func TestSystemSchemasInDumps(t *testing.T) {
	inv := &Inventory{}
	for _, schema := range []string{"shop", "mysql", "MySQL", "sys"} {
		for _, k := range []Kind{Schema, Table, Procedure} {
			inv.Objects = append(inv.Objects, &Object{Kind: k, Schema: schema, Name: map[Kind]string{Schema: schema}[k] + "x", Fate: Copied})
		}
	}
	all, err := inv.Select(&Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.Objects {
		if want := o.Kind != Schema && o.Schema != "shop"; want != (o.Fate == NeedsHand) {
			t.Errorf("%s: %s, %s", o, o.Fate, o.Why)
		}
	}
	if _, err := inv.Select(&Selection{Schemas: []string{"mysql"}}); err == nil || !strings.Contains(err.Error(), "the server's own") {
		t.Errorf("a whole schema of the server's: %v", err)
	}
	named, err := inv.Select(&Selection{Tables: []Pattern{{Schema: "mysql", Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range named.Objects {
		if want := o.Kind != Procedure; want != (o.Fate == Copied) || o.Schema != "mysql" {
			t.Errorf("%s: %s, %s", o, o.Fate, o.Why)
		}
	}
}
