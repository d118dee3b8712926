package rowstream

import (
	"fmt"
	"strings"
	"testing"
)

// TestTooManyCascades refuses foreign keys of a table whose number exceeds Change.Cascade.
func TestTooManyCascades(t *testing.T) {
	create := "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `up` int,\n  PRIMARY KEY (`id`)"
	for i := range maxCascades + 2 {
		create = fmt.Sprintf("%s,\n  CONSTRAINT `k%d` FOREIGN KEY (`up`) REFERENCES `t` (`id`) ON DELETE SET NULL", create, i)
	}
	table := &Table{
		Schema: "f", Name: "t", Columns: []Column{{Name: "id", Type: "int", FullType: "int"}, {Name: "up", Type: "int", FullType: "int", Nullable: true}},
		Key: []int{0}, Create: create + "\n)",
	}
	if err := ResolveCascades([]*Table{table}); err != nil {
		t.Fatal(err)
	}
	for i := range table.Cascades {
		c := &table.Cascades[i]
		if refused := strings.Contains(c.Refused, "more than 256 foreign keys"); refused != (i >= maxCascades) {
			t.Errorf("key %d is refused with %q", i, c.Refused)
		}
	}
	if n := len(table.Cascades); n != maxCascades+2 {
		t.Errorf("%d keys", n)
	}
}
