package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
)

// TestBars draws the bars of two tables, with an event above them and the lag below.
func TestBars(t *testing.T) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	b := newBars(&out, []tabledef.Spec{{Schema: "shop", Name: "orders"}, {Schema: "shop", Name: "items"}}, func() int { return 75 }, func() time.Time { return now })
	b.observe(telemetry.Event{Kind: telemetry.EventTable, Table: "shop.orders", RowsEstimate: 1000})
	b.observe(telemetry.Event{Kind: telemetry.EventChunk, Table: "shop.orders", Rows: 250, Bytes: 5e6})
	b.observe(telemetry.Event{Kind: telemetry.EventTable, Table: "shop.items", RowsEstimate: 10})
	b.observe(telemetry.Event{Kind: telemetry.EventDone, Table: "shop.items", Rows: 12})
	now = now.Add(10 * time.Second)
	b.draw("")
	b.observe(telemetry.Event{Kind: telemetry.EventIndexes, Table: "shop.items", Text: "an index"})
	b.observe(telemetry.Event{Kind: telemetry.EventLag, Lag: &telemetry.Lag{Changes: 7}})
	b.draw("")
	orders := "shop.orders          250 rows     0.5 MB/s [=======                       ]  25 % 30s"
	items := "shop.items            12 rows     0.0 MB/s [==============================] done"
	orders, items = orders[:74], items[:74]
	frames := strings.Split(out.String(), "\r\x1b[J")
	if len(frames) != 4 {
		t.Fatalf("%d frames in %q", len(frames), out.String())
	}
	for i, want := range []string{"", orders + "\n" + items + "\n\x1b[2A", "shop.items: building an index\n" + orders + "\n" + items + "\n\x1b[2A"} {
		if frames[i] != want {
			t.Errorf("frame %d is\n%q, want\n%q", i, frames[i], want)
		}
	}
	if want := orders + "\n" + items + "\n7 changes"; !strings.HasPrefix(frames[3], want) {
		t.Errorf("the last frame is\n%q, want\n%q", frames[3], want)
	}
}
