package statements_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// TestPointsAreSampled calls a statement with a constant load in each ten seconds and queries more points
// than there were rounds: the result has fewer points, each has the same load, and neither the first nor the
// last looks like a pause.
func TestPointsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.start()
		for range 6 * 47 {
			r.call(1, 5*time.Second, false)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(7 * time.Second)
		now := time.Now()
		for _, length := range []time.Duration{90 * time.Second, 5 * time.Minute, 31*time.Minute + 7*time.Second} {
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: now.Add(-length), To: now, Points: 120})
			if err != nil {
				t.Fatal(err)
			}
			st, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: hexOf(1), From: now.Add(-length), To: now, Points: 120})
			if err != nil {
				t.Fatal(err)
			}
			if st.Totals != top.Rows[0].Totals || !st.To.Equal(top.To) {
				t.Errorf("%v: the statement has %+v up to %v, the table %+v up to %v", length, st.Totals, st.To, top.Rows[0].Totals, top.To)
			}
			for what, load := range map[string][]float64{"the row": top.Rows[0].Points, "all": top.Series.Load, "the statement": st.Series.Load} {
				if n := len(load); n == 0 || n > int(length/time.Minute) || n < int(length/time.Minute)-2 {
					t.Errorf("%v: %d points of %s, want one a minute at most", length, n, what)
				}
				for i, l := range load {
					if l < 0.4 || l > 0.6 {
						t.Errorf("%v: point %d of %d of %s is %v, want 0.5", length, i, len(load), what, l)
					}
				}
			}
		}
		r.stop()
	})
}
