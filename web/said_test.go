package web

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestDescriptions compares the descriptions of charts with their values.
func TestDescriptions(t *testing.T) {
	nan := math.NaN()
	c := lineChart{Times: chartTimes(4), Unit: unitSeconds, Series: []series{
		{"rises", []float64{0.001, 2, nan, 3}},
		{"falls", []float64{4, 3, 2, nan}},
		{"one", []float64{nan, 5, nan, nan}},
		{"none", []float64{nan, math.Inf(1), nan, nan}},
		{"zero", []float64{0, 0, 0, 0}},
	}}
	const want = "From 2026-01-31 12:00:00 to 2026-01-31 12:03:00 UTC. rises: 1 ms to 3 s, at last 3 s. falls: 2 s to 4 s, at last 2 s. one: 5 s to 5 s, at last 5 s. none: no value. zero: 0 s to 0 s, at last 0 s."
	if got := plainTimes(c.describe()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h := heatMap{ID: "h", Title: "Heat", Times: chartTimes(2), End: chartStart.Add(2 * time.Minute), Unit: unitSeconds, Bounds: []float64{1, 2, 4}, Counts: [][]uint64{{1, 0, 7}, {1200, 3, 0}}}
	got := plainTimes(string(h.HTML()))
	for _, want := range []string{"From 2026-01-31 12:00:00 to 2026-01-31 12:02:00 UTC: 1,211 calls, at most 1,200 in one field.", `<span class="legend">1 call<svg`, "</svg>1,200</span>"} {
		if !strings.Contains(got, want) {
			t.Errorf("the heat map lacks %s: %s", want, got)
		}
	}
}

// TestBadTimes requests each page and API of a range with times that cannot be read.
func TestBadTimes(t *testing.T) {
	o, _ := pageOptions()
	h := New(o).Handler()
	for _, path := range []string{
		"/", "/query/" + someDigest, "/incident/" + someDigest, "/api/v1/incidents/" + someDigest, "/incident/" + someDigest + "/card.svg", "/queries",
	} {
		for _, times := range []string{"?from=x", "?from=now-1h&to=x", "?from=now-1h&to=now-2h"} {
			if code, body := browse(t, h, path+times, "dba"); code != http.StatusBadRequest {
				t.Errorf("%s%s: %d %.300s", path, times, code, body)
			}
		}
		if code, body := browse(t, h, path+"?from=now-1h&to=now", "dba"); code != http.StatusOK {
			t.Errorf("%s of an hour: %d %.300s", path, code, body)
		}
	}
}

// TestTwoLockWaits expects the first of two lock waits of a statement in its sentence.
func TestTwoLockWaits(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o, _ := pageOptions()
	o.Now = func() time.Time { return now }
	digest, err := sqldigest.Parse(someDigest)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(connection uint32) serverstats.LockWait {
		return serverstats.LockWait{
			From: now.Add(-12 * time.Second), To: now.Add(-2 * time.Second), Kind: serverstats.RowLock, Table: "shop.t", Waiters: 5, Longest: 10 * time.Second,
			Waiting: []sqldigest.Digest{digest, {}}, Holder: serverstats.Holder{Connection: connection, User: "batch", Digest: digest},
		}
	}
	for _, connections := range [][2]uint32{{17, 18}, {18, 17}} {
		o.Counts = fakeCounts{locks: []serverstats.LockWait{wait(connections[0]), wait(connections[1])}}
		_, body := browse(t, New(o).Handler(), "/query/"+someDigest, "dba")
		_, said, _ := strings.Cut(body, "<strong>Connection ")
		if first := said[:min(len(said), 2)]; first != map[uint32]string{17: "17", 18: "18"}[connections[0]] {
			t.Errorf("%v: the sentence is of connection %q: %.300s", connections, first, said)
		}
	}
}
