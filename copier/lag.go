package copier

import (
	"fmt"
	"time"
)

// A Lag is how far the target is behind the source.
type Lag struct {
	Seconds   *float64 `json:"seconds"`                           // that the last heartbeat took, or the oldest that is under way has taken; null: unknown
	Confirmed *float64 `json:"confirmed_seconds_ago"`             // age of the last proof; null: there is none
	CommitAge *float64 `json:"last_commit_seconds_ago,omitempty"` // of the last applied transaction, by the source's clock
	Bytes     *int64   `json:"bytes"`                             // of the source's log that are not applied; null: unknown
	Position  string   `json:"position"`                          // of the source's log: all before it is applied
	Changes   int64    `json:"changes"`                           // of rows, that this run has applied
	PerSecond float64  `json:"changes_per_second"`
	CaughtUp  bool     `json:"caught_up"` // once: since then transactions are kept whole

	// ETASeconds is how long catching up takes at the present rates; left out when it makes no headway.
	ETASeconds float64 `json:"eta_seconds,omitempty"`

	// Outrun is there while the source writes faster than the target takes it.
	Outrun *Outrun `json:"outrun,omitempty"`
}

// Text is the lag with its age, for people.
func (l *Lag) Text() string {
	switch {
	case l.Seconds != nil && l.Confirmed != nil:
		return fmt.Sprintf("%.1f s behind, confirmed %.1f s ago", *l.Seconds, *l.Confirmed)
	case l.Confirmed != nil:
		return fmt.Sprintf("lag unknown, last confirmed %.0f s ago", *l.Confirmed)
	case l.CommitAge != nil:
		return fmt.Sprintf("lag unknown, applied up to a commit of %.0f s ago", *l.CommitAge)
	}
	return "lag unknown"
}

// An Outrun is a source that writes faster than the target takes it: at these rates it will not catch up.
type Outrun struct {
	Seconds     float64 `json:"seconds"`                 // that the rates are of
	Source      float64 `json:"source_bytes_per_second"` // of binary log
	Target      float64 `json:"target_bytes_per_second"` // of it that were applied
	TargetRows  float64 `json:"target_changes_per_second"`
	SourceRows  float64 `json:"source_changes_per_second"` // about: as many bytes each as those that were applied; 0 when none were
	LagGrowthBy float64 `json:"lag_bytes_per_second"`
}

// String is the rates for people.
func (o *Outrun) String() string {
	rows := ""
	if o.SourceRows > 0 {
		rows = fmt.Sprintf("about %.0f rows/s against %.0f, ", o.SourceRows, o.TargetRows)
	}
	return fmt.Sprintf("over %.0f s the source wrote %.2f MB/s of binary log and the target applied %.2f MB/s (%sthe lag grows by %.2f MB/s)",
		o.Seconds, o.Source/1e6, o.Target/1e6, rows, o.LagGrowthBy/1e6)
}

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
func (p *chase) outrun() *Outrun {
	first, last := p.looks[0], p.looks[len(p.looks)-1]
	window := last.at.Sub(first.at)
	applied := last.applied - first.applied
	growth := last.behind - first.behind
	if window < outrunWindow || last.behind < outrunBytes || growth <= 0 {
		return nil
	}
	rate := func(n int64) float64 { return float64(n) / window.Seconds() }
	o := &Outrun{
		Seconds: window.Seconds(), Source: rate(applied + growth), Target: rate(applied), LagGrowthBy: rate(growth), TargetRows: rate(last.changes - first.changes),
	}
	if applied > 0 {
		o.SourceRows = o.TargetRows * o.Source / o.Target
	}
	return o
}

// tell is what is to be said of an outrun, and again after ten windows; otherwise it is empty. Where the
// throttle, for the reason that is given, had changes wait for a good part of the window, it says so.
func (p *chase) tell(o *Outrun, reason string) string {
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
