package follow

import (
	"fmt"
	"time"

	"github.com/taredb/tare/copier/telemetry"
)

// outrunWindow is how long a source must have been faster than the target before it is said
// that the copy will not catch up. Bursts are shorter.
const outrunWindow = 30 * time.Second

// A chase tells from looks at the lag whether the target catches up. It keeps looks for one
// window; time comes in as a value.
type chase struct {
	looks []look
	told  time.Time // when it was last said that the source is faster
}

// A look is what is known at one moment.
type look struct {
	at      time.Time
	behind  int64 // bytes of the log that are not applied
	applied int64 // bytes of the log that are, in all
	changes int64 // of rows that are applied, in all

	held time.Duration // that changes have waited for the throttle, in all
}

// note takes a look.
func (p *chase) note(l look) {
	p.looks = append(p.looks, l)
	drop := 0
	for drop < len(p.looks)-2 && l.at.Sub(p.looks[drop+1].at) >= outrunWindow {
		drop++
	}
	p.looks = append(p.looks[:0], p.looks[drop:]...)
}

// perSecond is how many changes were applied a second within the window.
func (p *chase) perSecond() float64 {
	first, last := p.looks[0], p.looks[len(p.looks)-1]
	if seconds := last.at.Sub(first.at).Seconds(); seconds > 0 {
		return float64(last.changes-first.changes) / seconds
	}
	return 0
}

// outrun tells that the source writes faster than the target takes it, when that was so for a
// window; otherwise it is nil.
func (p *chase) outrun() *telemetry.Outrun {
	first, last := p.looks[0], p.looks[len(p.looks)-1]
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

// tell is what is to be said of an outrun, and again after ten windows; otherwise it is empty. Where the
// throttle, for the reason that is given, had changes wait for a good part of the window, it says so.
func (p *chase) tell(o *telemetry.Outrun, reason string) string {
	first, last := p.looks[0], p.looks[len(p.looks)-1]
	if o == nil || !p.told.IsZero() && last.at.Sub(p.told) < 10*outrunWindow {
		return ""
	}
	p.told = last.at
	advice := "write less to the source, use more --workers while it catches up, or give the target faster disks"
	if held := last.held - first.held; reason != "" && held >= last.at.Sub(first.at)/heldPart {
		advice = fmt.Sprintf("the throttle is the reason, which had changes wait for %.0f s of them: %s; raise the limit (tare copy ctl throttle), or write less to the source", held.Seconds(), reason)
	}
	return fmt.Sprintf("it will not catch up: %s; %s", o, advice)
}

// heldPart is the part of a window, a quarter, for which the throttle must have held changes back
// to be named as the reason.
const heldPart = 4

// outrunBytes is a lag that is nothing to speak of: it is there whenever somebody writes.
const outrunBytes = 16 << 20

// eta is how long catching up takes at the present rates; 0 when that cannot be said.
func (p *chase) eta() time.Duration {
	first, last := p.looks[0], p.looks[len(p.looks)-1]
	gained := first.behind - last.behind
	if gained <= 0 {
		return 0
	}
	return time.Duration(float64(last.at.Sub(first.at)) * float64(last.behind) / float64(gained)).Round(time.Second)
}
