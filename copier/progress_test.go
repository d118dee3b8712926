package copier

import (
	"testing"
	"time"
)

func TestCopyProgress(t *testing.T) {
	for _, tt := range []struct {
		tables []tableCount
		rows   int64
		want   string
	}{
		{[]tableCount{{250, 1000, false}, {0, 1000, false}}, 250, "12.5 %, 250 of about 2000 rows, 25 rows/s, 1.0 MB/s, 1m10s left"},
		{[]tableCount{{1500, 1000, false}}, 500, "99.9 %, 1500 of about 1500 rows, 50 rows/s, 1.0 MB/s"}, // how many are left is unknown
		{[]tableCount{{900, 1000, true}, {100, 100, false}}, 0, "99.9 %, 1000 of about 1000 rows, 0 rows/s, 1.0 MB/s"},
		{[]tableCount{{900, 1000, true}}, 900, "100.0 %, 900 of about 900 rows, 90 rows/s, 1.0 MB/s, 0s left"},
		{[]tableCount{{0, 0, false}}, 0, "0.0 %, 0 of about 0 rows, 0 rows/s, 1.0 MB/s"},
	} {
		if got := copyProgress(tt.tables, tt.rows, 10_000_000, 10*time.Second).Text(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
