package follow

import (
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
)

// outrunWindow is the period for which a source must have been faster than the target before the follower
// reports that the copy will not catch up. Bursts are shorter.
const outrunWindow = 30 * time.Second

// A lagTrend estimates from samples of the lag whether the target catches up. It keeps the samples of one
// window. The time is part of each sample.
type lagTrend struct {
	samples  []lagSample
	reported time.Time // time of the last report that the source is faster
}

// A lagSample is a sample of the lag.
type lagSample struct {
	at      time.Time
	behind  int64 // bytes of the log that are not applied
	applied int64 // bytes of the log that are applied, in total
	changes int64 // applied changes of rows, in total

	throttled time.Duration // time that changes have waited for the throttle, in total
}

// add adds a sample and drops those older than the window.
func (p *lagTrend) add(l lagSample) {
	p.samples = append(p.samples, l)
	drop := 0
	for drop < len(p.samples)-2 && l.at.Sub(p.samples[drop+1].at) >= outrunWindow {
		drop++
	}
	p.samples = append(p.samples[:0], p.samples[drop:]...)
}

// perSecond returns the number of changes applied per second within the window.
func (p *lagTrend) perSecond() float64 {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	if seconds := last.at.Sub(first.at).Seconds(); seconds > 0 {
		return float64(last.changes-first.changes) / seconds
	}
	return 0
}

// outrun returns the rates of a source that wrote faster than the target applied for a whole window;
// otherwise nil.
func (p *lagTrend) outrun() *telemetry.Outrun {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	window := last.at.Sub(first.at)
	applied := last.applied - first.applied
	growth := last.behind - first.behind
	if window < outrunWindow || last.behind < outrunBytes || growth <= 0 {
		return nil
	}
	rate := func(n int64) float64 { return float64(n) / window.Seconds() }
	o := &telemetry.Outrun{
		Seconds: window.Seconds(), Source: rate(applied + growth), Target: rate(applied), LagGrowthBy: rate(growth), TargetRows: rate(last.changes - first.changes),
	}
	if applied > 0 {
		o.SourceRows = o.TargetRows * o.Source / o.Target
	}
	return o
}

// report returns the text to report for an outrun, at most once per ten windows; otherwise an empty string. If
// changes waited for the throttle for a large part of the window, the text names reason as the cause.
func (p *lagTrend) report(o *telemetry.Outrun, reason string) string {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	if o == nil || !p.reported.IsZero() && last.at.Sub(p.reported) < 10*outrunWindow {
		return ""
	}
	p.reported = last.at
	advice := "write less to the source, use more workers (option workers) while it catches up, or give the target faster disks"
	if held := last.throttled - first.throttled; reason != "" && held >= last.at.Sub(first.at)/throttledPart {
		advice = fmt.Sprintf("the throttle is the reason, which had changes wait for %.0f s of them: %s; raise the limit (tare copy ctl throttle), or write less to the source", held.Seconds(), reason)
	}
	return fmt.Sprintf("it will not catch up: %s; %s", o, advice)
}

// throttledPart: the throttle is named as the cause if changes waited for it for at least 1/throttledPart of the
// window.
const throttledPart = 4

// outrunBytes is the lag below which no outrun is reported: it is normal while clients write.
const outrunBytes = 16 << 20

// eta returns the estimated time to catch up at the current rates; 0: unknown.
func (p *lagTrend) eta() time.Duration {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	gained := first.behind - last.behind
	if gained <= 0 {
		return 0
	}
	return time.Duration(float64(last.at.Sub(first.at)) * float64(last.behind) / float64(gained)).Round(time.Second)
}
