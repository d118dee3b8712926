package teststmt

import (
	"time"

	"github.com/taredb/tare/querylog"
)

// Record returns the record of a statement with digest n and duration d.
func Record(n int, d time.Duration) *querylog.Record {
	return &querylog.Record{
		Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Total: d,
		Digest: [16]byte{1, byte(n >> 16), byte(n >> 8), byte(n)}, Normalized: []byte("select ?"), Text: []byte("select 1"),
		Schema: "shop", User: "app", Backend: "127.0.0.1:3306",
		RowsReturned: 3, RowsAffected: 2, BytesIn: 20, BytesOut: 300, Warnings: 1,
	}
}
