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
		{[]TableCount{{250, 1000, false}, {0, 1000, false}}, 250, "12.5 %, 250 of about 2000 rows, 25 rows/s, 1.0 MB/s, 1m10s left"},
		{[]TableCount{{1500, 1000, false}}, 500, "99.9 %, 1500 of about 1500 rows, 50 rows/s, 1.0 MB/s"}, // the number of remaining rows is unknown
		{[]TableCount{{900, 1000, true}, {100, 100, false}}, 0, "99.9 %, 1000 of about 1000 rows, 0 rows/s, 1.0 MB/s"},
		{[]TableCount{{900, 1000, true}}, 900, "100.0 %, 900 of about 900 rows, 90 rows/s, 1.0 MB/s, 0s left"},
		{[]TableCount{{0, 0, false}}, 0, "0.0 %, 0 of about 0 rows, 0 rows/s, 1.0 MB/s"},
	} {
		if got := NewCopyProgress(tt.tables, tt.rows, 10_000_000, 10*time.Second).Text(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
