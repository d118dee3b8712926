package telemetry

import (
	"testing"
	"time"
)

func TestCopyProgress(t *testing.T) {
	for _, tt := range []struct {
		tables []TableCount
		rows   int64
		want   string
	}{
		{[]TableCount{{Rows: 250, Estimate: 1000, Copied: false}, {Rows: 0, Estimate: 1000, Copied: false}}, 250, "12.5 %, 250 of about 2000 rows, 25 rows/s, 1.0 MB/s, 1m10s left"},
		{[]TableCount{{Rows: 1500, Estimate: 1000, Copied: false}}, 500, "99.9 %, 1500 of about 1500 rows, 50 rows/s, 1.0 MB/s"}, // the number of remaining rows is unknown
		{[]TableCount{{Rows: 900, Estimate: 1000, Copied: true}, {Rows: 100, Estimate: 100, Copied: false}}, 0, "99.9 %, 1000 of about 1000 rows, 0 rows/s, 1.0 MB/s"},
		{[]TableCount{{Rows: 900, Estimate: 1000, Copied: true}}, 900, "100.0 %, 900 of 900 ± 0 rows, 90 rows/s, 1.0 MB/s, 0s left"},
		{[]TableCount{{Rows: 0, Estimate: 0, Copied: false}}, 0, "0.0 %, 0 of about 0 rows, 0 rows/s, 1.0 MB/s"},
		{[]TableCount{{Rows: 250, Estimate: 1000, Sampled: true, Deviation: 50}, {Rows: 10, Estimate: 10, Copied: true}}, 250, "25.7 %, 260 of 1010 ± 50 rows, 25 rows/s, 1.0 MB/s, 30s ± 2s left"},
		{[]TableCount{{Rows: 250, Estimate: 1000, Sampled: true, Deviation: 50}, {Rows: 0, Estimate: 10}}, 250, "24.8 %, 250 of about 1010 rows, 25 rows/s, 1.0 MB/s, 30s left"},
	} {
		if got := NewCopyProgress(tt.tables, tt.rows, 10_000_000, 10*time.Second).Text(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
