package telemetry_test

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
)

// Prints the lag of a copy when it is reported. Such a function is set as copier.Options.Observe.
func ExampleLag_Text() {
	observe := func(e telemetry.Event) {
		if e.Kind == telemetry.EventLag {
			fmt.Println(e.Lag.Text())
		}
	}
	behind, confirmed, old := 1.4, 0.2, 12.0
	observe(telemetry.Event{Kind: telemetry.EventLag, Lag: &telemetry.Lag{Seconds: &behind, Confirmed: &confirmed}})
	observe(telemetry.Event{Kind: telemetry.EventLag, Lag: &telemetry.Lag{Confirmed: &old}})
	// Output:
	// 1.4 s behind, confirmed 0.2 s ago
	// lag unknown, last confirmed 12 s ago
}

// Computes the progress of a run that has copied 30,000 rows in 10 s: one table is complete, the other is not.
func ExampleNewCopyProgress() {
	p := telemetry.NewCopyProgress([]telemetry.TableCount{
		{Rows: 10_000, Estimate: 9_500, Copied: true},
		{Rows: 20_000, Estimate: 50_000},
	}, 30_000, 6_000_000, 10*time.Second)
	fmt.Println(p.Text())
	// Output:
	// 50.0 %, 30000 of about 60000 rows, 3000 rows/s, 0.6 MB/s, 10s left
}
