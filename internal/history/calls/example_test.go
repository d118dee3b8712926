package calls_test

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// A statement became slow at half past: most of the slow calls are those of a new user.
func ExampleCompare() {
	sample, err := calls.New(calls.Options{Bytes: calls.DefaultBytes})
	if err != nil {
		fmt.Println(err)
		return
	}
	digest := sqldigest.OfText([]byte("SELECT * FROM `orders` WHERE `customer` = ?"))
	rise := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	for i := range 80 { // one call per 15 s, from 20 minutes before the rise
		start := rise.Add(time.Duration(i-80) * 15 * time.Second)
		sample.Observe(&querylog.Record{Start: start, Digest: digest, Command: mysqlwire.ComQuery, User: "shop", RowsReturned: 3})
	}
	for i := range 20 {
		start := rise.Add(time.Duration(i) * 15 * time.Second)
		sample.Observe(&querylog.Record{Start: start, Digest: digest, Command: mysqlwire.ComQuery, User: "report", RowsReturned: 3})
	}

	before := sample.Of(digest, rise.Add(-20*time.Minute), rise)
	within := sample.Of(digest, rise, rise.Add(5*time.Minute))
	for _, d := range calls.Compare(before, within) {
		fmt.Printf("%s %s: %.0f %% before, %.0f %% within\n", d.Dimension, d.Value, 100*d.Before, 100*d.Within)
	}
	// Output:
	// user report: 0 % before, 100 % within
	// user shop: 100 % before, 0 % within
}
