package stmtseries_test

import (
	"fmt"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// Prints the series of a Key: one per metric, and for errors one per class.
func ExampleLabeller() {
	l := stmtseries.NewLabeller(map[string]string{"instance": "gw1"})
	key := stmtstats.Key{Digest: [16]byte{1}, Schema: "shop", User: "app", Backend: "db1:3306"}
	for _, number := range []int{int(stmtseries.Queries), int(stmtseries.Duration), int(stmtseries.Errors) + int(stmtstats.ClassDeadlock)} {
		l.SetSeries(stmtstats.Tracked, &key, number)
		fmt.Println(l.Labels())
	}
	// Output:
	// {__name__="tare_queries_total", backend="db1:3306", digest="01000000000000000000000000000000", instance="gw1", schema="shop", user="app"}
	// {__name__="tare_query_duration_seconds", backend="db1:3306", digest="01000000000000000000000000000000", instance="gw1", schema="shop", user="app"}
	// {__name__="tare_query_errors_total", backend="db1:3306", class="deadlock", digest="01000000000000000000000000000000", instance="gw1", schema="shop", user="app"}
}
