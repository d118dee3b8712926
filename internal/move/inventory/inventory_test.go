package inventory

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/dialect"
)

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, schema, name string
		want                  bool
	}{
		{"shop.*", "shop", "orders", true},
		{"shop.*", "shops", "orders", false},
		{"sm.ord_*", "sm", "ord_1", true},
		{"sm.ord_*", "sm", "ordx1", false},
		{"sm.ord_*", "sm", "Ord_1", false},
		{"s*.*_?", "shop", "a_b_c", true},
		{"s*.*_?", "shop", "a_b_", false},
		{"s?.é?", "sü", "éß", true},
		{"a.*a*a*a*b", "a", strings.Repeat("a", 200), false},
		{"a.**", "a", "x", true},
		{"a.b.c*", "a", "b.cd", true},
	} {
		p, err := ParsePattern(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tt.schema, tt.name); got != tt.want {
			t.Errorf("%s and %s.%s: %v", tt.pattern, tt.schema, tt.name, got)
		}
	}
	for _, text := range []string{"", "*", ".x", "x."} {
		if _, err := ParsePattern(text); err == nil {
			t.Errorf("%q is a pattern", text)
		}
	}
}

// TestGrants finds which objects accounts see.
func TestGrants(t *testing.T) {
	kinds := []Kind{Table, View, Trigger, Event, Function}
	for _, tt := range []struct {
		vendor dialect.Vendor
		grants []string
		sees   []Kind
	}{
		{dialect.MySQL, []string{"GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"}, nil},
		{dialect.MySQL, []string{"GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `shop`.* TO `a`@`%`"}, []Kind{Table, View, Trigger, Event}},
		{dialect.MySQL, []string{"GRANT USAGE ON *.* TO `a`@`%`", "GRANT ROLE_ADMIN,SHOW_ROUTINE ON *.* TO `a`@`%`"}, []Kind{Function}},
		{dialect.MySQL, []string{"GRANT SELECT ON *.* TO `a`@`%`", "REVOKE SELECT ON `shop`.* FROM `a`@`%`"}, []Kind{Function}},
		{dialect.MySQL, []string{"GRANT SELECT (`a`, `b`), SHOW VIEW ON `shop`.`t` TO `a`@`%`", "GRANT `r`@`%` TO `a`@`%`"}, []Kind{}},
		{dialect.MariaDB, []string{"GRANT SELECT ON `sh%`.* TO `a`@`%`"}, []Kind{Table}},
		{dialect.MariaDB, []string{"GRANT SELECT ON `sh%`.* TO `a`@`%`", "GRANT EVENT ON `shop`.* TO `a`@`%`"}, []Kind{Event}},
		{dialect.MariaDB, []string{"GRANT SELECT ON `sh\\_p`.* TO `a`@`%`", "GRANT SELECT ON `shops`.* TO `a`@`%`"}, []Kind{}},
		{dialect.MariaDB, []string{"GRANT SELECT ON `sh_p`.* TO `a`@`%`", "GRANT SELECT ON `mysql`.`proc` TO `a`@`%`"}, []Kind{Table, Function}},
	} {
		g := &grants{vendor: tt.vendor}
		for _, line := range tt.grants {
			g.add(line)
		}
		var sees []Kind
		for _, k := range kinds {
			if g.lacks(k, "shop") == "" {
				sees = append(sees, k)
			}
		}
		want := tt.sees
		if want == nil {
			want = kinds
		}
		if len(sees) != len(want) || strings.Join(texts(sees), " ") != strings.Join(texts(want), " ") {
			t.Errorf("%s: sees %v, want %v", tt.grants, sees, want)
		}
	}
}

func texts(kinds []Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return all
}

func TestDisabledEvent(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ON COMPLETION NOT PRESERVE ENABLE COMMENT ' ON COMPLETION PRESERVE ENABLE' DO SELECT 1": "CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY ON COMPLETION NOT PRESERVE DISABLE COMMENT ' ON COMPLETION PRESERVE ENABLE' DO SELECT 1",
		"CREATE EVENT ` ON COMPLETION PRESERVE ENABLE` ON SCHEDULE AT '2030' ON COMPLETION PRESERVE DISABLE ON SLAVE DO SELECT 1":         "CREATE EVENT ` ON COMPLETION PRESERVE ENABLE` ON SCHEDULE AT '2030' ON COMPLETION PRESERVE DISABLE DO SELECT 1",
		"CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1":                                                                            "",
	} {
		if got, err := disabledEvent(text, 0); got != want || (err == nil) != (want != "") {
			t.Errorf("%s becomes %s, %v", text, got, err)
		}
	}
}
