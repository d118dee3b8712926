package statements_test

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
)

// Counts calls in a table, and ranks the statements by the time of their calls.
func ExampleTableReader_Top() {
	table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: 100, Bytes: 2 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = table.Close() }() // in memory
	now := time.Now()
	for _, call := range []struct {
		digest byte
		text   string
		took   time.Duration
	}{{1, "SELECT ?", time.Millisecond}, {2, "UPDATE t SET a = ?", 4 * time.Millisecond}, {1, "SELECT ?", time.Millisecond}} {
		table.Observe(&querylog.Record{
			Start: now, Total: call.took, Digest: [16]byte{call.digest}, Normalized: []byte(call.text), Schema: "shop", User: "app",
		})
	}

	top, err := statements.TableReader{Table: table}.Top(context.Background(), statements.TopQuery{
		From: now.Add(-time.Hour), To: now.Add(time.Hour), By: statements.BySeconds, Limit: 10,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(top.Total.Calls, "calls")
	for _, row := range top.Rows {
		fmt.Printf("%.3f s  %d calls  %s\n", row.Seconds, row.Calls, row.Text)
	}
	// Output:
	// 3 calls
	// 0.004 s  1 calls  UPDATE t SET a = ?
	// 0.002 s  2 calls  SELECT ?
}
