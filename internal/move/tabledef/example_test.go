package tabledef_test

import (
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
)

// Selects two tables, one of them in part and under another name.
func ExampleParseTables() {
	specs, err := tabledef.ParseTables("shop.items,shop.orders=archive.orders_2026")
	if err == nil {
		err = tabledef.AddWhere(specs, "shop.orders: created > '2026-01-01'")
	}
	if err == nil {
		err = tabledef.AddColumns(specs, "shop.items: id, name as title")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range specs {
		specs[i].Defaults()
		fmt.Printf("%s -> %s: %s\n", specs[i].Source(), specs[i].Target(), specs[i].Text())
	}
	// Output:
	// shop.items -> shop.items: table shop.items; columns id, name as title
	// shop.orders -> archive.orders_2026: table shop.orders; where created > '2026-01-01'
}
