package rowstream_test

import (
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

func ExampleAppendLoad() {
	var b rowstream.Batch
	b.Reset(3)
	b.AppendRow(mysqlwire.TextRow{[]byte("1"), []byte("a\tb"), nil})
	b.AppendRow(mysqlwire.TextRow{[]byte("2"), []byte(""), []byte(`\N`)})
	text, err := rowstream.AppendLoad(nil, &b)
	fmt.Println(b.Rows, err)
	fmt.Print(string(text))
	// Output:
	// 2 <nil>
	// 1	a\tb	\N
	// 2		\\N
}

func ExampleFilter() {
	plan := rowstream.Plan{
		Where:  []rowstream.Condition{{Column: 0, Shard: rowstream.Shard{Index: 1, Count: 2}}},
		Output: []rowstream.Output{{Column: 1}, {From: rowstream.FixedValue, Value: []byte("eu")}},
	}
	f, err := rowstream.NewFilter(&plan, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range []mysqlwire.TextRow{{[]byte("1"), []byte("ann")}, {[]byte("2"), []byte("bob")}, {[]byte("4"), []byte("eve")}} {
		if out, ok := f.Apply(r); ok {
			fmt.Printf("%s\n", out)
		}
	}
	// Output:
	// [eve eu]
}
