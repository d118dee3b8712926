package querylog

import (
	"log/slog"
	"time"
)

// faultEvery is the minimum interval between two reports of a sink that keeps failing.
const faultEvery = 10 * time.Second

// A faultReport logs to slog that a sink fails, keeps failing, or has recovered.
type faultReport struct {
	log  *slog.Logger
	name string

	failing bool
	last    time.Time // of the last report
	before  uint64    // dropped records at the time of the last report
}

// report records the result of a write; dropped is the number of records the sink has lost so far.
func (f *faultReport) report(err error, dropped uint64) {
	switch {
	case err == nil && !f.failing:
		return
	case err == nil:
		f.failing = false
		f.log.Info("query log works again", "sink", f.name, "dropped", dropped)
		return
	case f.failing && time.Since(f.last) < faultEvery:
		return
	}
	f.log.Error("query log has a fault", "sink", f.name, "err", err,
		"dropped", dropped, "since_last_report", dropped-f.before)
	f.failing, f.last, f.before = true, time.Now(), dropped
}
