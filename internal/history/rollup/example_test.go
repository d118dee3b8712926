package rollup_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// Writes the rollup of an hour with one Key, and reads it back.
func ExampleOpen() {
	key := stmtstats.Key{Digest: [16]byte{1}, Schema: "shop", User: "app", Backend: "db1:3306"}
	var durations stmtstats.Histogram
	durations.Record(2 * time.Millisecond)
	durations.Record(4 * time.Millisecond)
	hour := rollup.Rollup{
		Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Span: rollup.Hour,
		Rows: []rollup.Row{{
			Print: rollup.PrintOf(&key), Key: key, Text: "SELECT ?",
			Counts: stmtstats.Counts{stmtstats.Calls: durations.Count(), stmtstats.Nanos: durations.Nanos},
			Spread: durations.AppendSpread(nil),
		}},
	}
	text, err := hour.Encode()
	if err != nil {
		fmt.Println(err)
		return
	}

	f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		fmt.Println(err)
		return
	}
	var decoder rollup.TextDecoder
	defer decoder.Close()
	read, err := f.Read(&decoder)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range read.Rows {
		fmt.Println(row.Text, row.Key.Schema, row.Counts[stmtstats.Calls], "calls", time.Duration(row.Counts[stmtstats.Nanos]))
	}
	// Output:
	// SELECT ? shop 2 calls 6ms
}
