package rowstream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestTooManyCascades refuses foreign keys of a table whose number exceeds Change.Cascade.
func TestTooManyCascades(t *testing.T) {
	const most = 256 // whose numbers Change.Cascade holds
	create := "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `up` int,\n  PRIMARY KEY (`id`)"
	for i := range most + 2 {
		create = fmt.Sprintf("%s,\n  CONSTRAINT `k%d` FOREIGN KEY (`up`) REFERENCES `t` (`id`) ON DELETE SET NULL", create, i)
	}
	table := &rowstream.Table{
		Schema: "f", Name: "t", Columns: []rowstream.Column{{Name: "id", Type: "int", FullType: "int"}, {Name: "up", Type: "int", FullType: "int", Nullable: true}},
		Key: []int{0}, Create: create + "\n)",
	}
	if err := rowstream.ResolveCascades([]*rowstream.Table{table}); err != nil {
		t.Fatal(err)
	}
	for i := range table.Cascades {
		c := &table.Cascades[i]
		if refused := strings.Contains(c.Refused, "more than 256 foreign keys"); refused != (i >= most) {
			t.Errorf("key %d is refused with %q", i, c.Refused)
		}
	}
	if n := len(table.Cascades); n != most+2 {
		t.Errorf("%d keys", n)
	}
}
