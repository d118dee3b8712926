package markers

import "testing"

// TestBy has each part of the origin of a marker.
func TestBy(t *testing.T) {
	for _, c := range [][3]string{{"", "", ""}, {"root", "", "root"}, {"", "10.0.0.7:1", "10.0.0.7:1"}, {"root", "10.0.0.7:1", "root from 10.0.0.7:1"}} {
		if got := (&Marker{User: c[0], Client: c[1]}).By(); got != c[2] {
			t.Errorf("%q, %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestNames has tables with and without a schema, and whole schemas.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		marker, table string
		want          bool
	}{
		{"shop.orders", "shop.orders", true},
		{"shop.orders", "SHOP.Orders", true},
		{"shop.orders", "orders", true},
		{"orders", "shop.orders", true},
		{"orders", "orders", true},
		{"shop.orders", "crm.orders", false},
		{"shop.orders", "shop.items", false},
		{"orders", "items", false},
		{"shop.orders", "items", false},
		{"shop.orders", "shop.orders_old", false},
		{"shop.*", "shop.orders", true},
		{"shop.orders", "shop.*", true},
		{"shop.*", "crm.orders", false},
		{"shop.orders", "crm.*", false},
		{"*", "shop.orders", true},
		{"shop.*", "orders", true},
	} {
		m := Marker{Tables: []string{"other.none", c.marker}}
		if got := m.Names([]string{"else.where", c.table}); got != c.want {
			t.Errorf("%s of %s: %t", c.table, c.marker, got)
		}
	}
	if (&Marker{}).Names([]string{"*"}) || (&Marker{Tables: []string{"*"}}).Names(nil) {
		t.Error("no table is named")
	}
}
