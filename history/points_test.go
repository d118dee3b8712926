package history

import (
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"
)

// TestPointsAreSampled calls a statement ten times a second's worth in each ten seconds and asks for more points than there
// were rounds: there are fewer, each has the same load, and neither the first nor the last looks like a pause.
func TestPointsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &day{t: t, model: newModel(), rig: newRig(t, t.TempDir(), t.TempDir(), t.TempDir())}
		d.start()
		for range 6 * 47 {
			d.model.call(1, time.Now(), 5*time.Second, false)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(7 * time.Second)
		now := time.Now()
		for _, length := range []time.Duration{90 * time.Second, 5 * time.Minute, 31*time.Minute + 7*time.Second} {
			top, err := d.archive.Top(t.Context(), TopQuery{From: now.Add(-length), To: now, Points: 120})
			if err != nil {
				t.Fatal(err)
			}
			key := keyOf(1)
			st, err := d.archive.Statement(t.Context(), StatementQuery{Digest: hex.EncodeToString(key.Digest[:]), From: now.Add(-length), To: now, Points: 120})
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
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
	})
}
