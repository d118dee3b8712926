package memory

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestDescribed registers collectors a second time: their metrics are known without a collection.
func TestDescribed(t *testing.T) {
	count := func() uint64 { return 1 }
	for name, c := range map[string]prometheus.Collector{"ledger": NewLedger(), "returner": NewReturner(time.Hour, count, slog.New(slog.DiscardHandler)), "plan cache": NewPlanCache(newPlanner(t, 1<<20), count)} {
		r := prometheus.NewRegistry()
		if err := r.Register(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.Register(c); err == nil {
			t.Errorf("%s is registered twice: it describes nothing", name)
		}
	}
}

// TestOwned has owners of nothing, and of more than the heap at the start: the sum is the heap all the same.
func TestOwned(t *testing.T) {
	if got := NewLedger().ByOwner(); len(got) != 1 || got[0].Owner != BaseOwner || got[0].Bytes <= 0 {
		t.Errorf("without owners: %v", got)
	}
	owns := int64(1 << 40)
	l := NewLedger(Owner{"all", func() int64 { return owns }})
	if off := l.Sum() - HeapInUse(); l.Base() > -(1<<40)/2 || off > 1<<20 || off < -1<<20 {
		t.Errorf("the base is %d, the sum is off by %d", l.Base(), off)
	}
	if owns++; l.Sum() != l.Base()+1<<40+1 {
		t.Errorf("the sum is %d, the base %d", l.Sum(), l.Base())
	}
}

// TestGivesBack returns memory in three seconds, and no bytes the second time: that is counted and logged.
func TestGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewReturner(time.Hour, nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		r.free = func() { time.Sleep(3 * time.Second) }
		readings := []int64{10, 17, 17, 12} // the runtime takes memory back meanwhile
		r.released = func() (bytes int64) {
			bytes, readings = readings[0], readings[1:]
			return bytes
		}
		r.giveBack()
		r.giveBack()
		want := "# TYPE tare_idle_memory_return_seconds_total counter\ntare_idle_memory_return_seconds_total 6\n# TYPE tare_idle_memory_returned_bytes_total counter\ntare_idle_memory_returned_bytes_total 7\n" +
			"# TYPE tare_idle_memory_returns_total counter\ntare_idle_memory_returns_total 2\n"
		if got := metricsOf(t, r); got != want {
			t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
		}
		if text := log.String(); strings.Count(text, "idle memory returned to the system") != 2 || !strings.Contains(text, "took=3s") {
			t.Error(text)
		}
	})
}
