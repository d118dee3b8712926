package telemetry

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Waits are the current waits of a copy. They are reported in the status, and as events when they have lasted
// for waitReported and when they end. A nil *Waits records nothing.
type Waits struct {
	Observe func(Event)

	mu   sync.Mutex
	open []*openWait // the oldest first
}

// An openWait is a wait in progress.
type openWait struct {
	what   string
	detail string
	since  time.Time
	limit  time.Duration // 0: unlimited

	timer    *time.Timer
	reported bool
	over     bool
}

// A WaitStatus is a wait of a copy.
type WaitStatus struct {
	For     string  `json:"for"`
	Detail  string  `json:"detail,omitempty"` // such as the last error
	Seconds float64 `json:"seconds"`          // so far
	Limit   float64 `json:"limit_seconds"`    // after which the wait fails or is retried in another way; 0: no limit
}

// Text returns the wait, for messages.
func (w *WaitStatus) Text() string {
	text := fmt.Sprintf("waits for %s, %.0f s so far", w.For, w.Seconds)
	if w.Limit > 0 {
		text += fmt.Sprintf(" of %.0f s", w.Limit)
	}
	if w.Detail != "" {
		text += ": " + w.Detail
	}
	return text
}

// waitReported is the duration after which a wait is reported as an event.
const waitReported = 2 * time.Second

// Begin starts a wait, which the returned function ends.
func (w *Waits) Begin(what, detail string, limit time.Duration) (end func()) {
	if w == nil {
		return func() {}
	}
	one := w.start(what, detail, limit)
	return func() { w.finish(one) }
}

// BeginMoving starts a wait for something that arrives in parts: moved restarts its time. The wait is
// reported only if no part arrives.
func (w *Waits) BeginMoving(what string) (moved, end func()) {
	if w == nil {
		return func() {}, func() {}
	}
	one := w.start(what, "", 0)
	return func() { w.restart(one) }, func() { w.finish(one) }
}

func (w *Waits) start(what, detail string, limit time.Duration) *openWait {
	one := &openWait{what: what, detail: detail, since: time.Now(), limit: limit}
	one.timer = time.AfterFunc(waitReported, func() { w.report(one) })
	w.mu.Lock()
	w.open = append(w.open, one)
	w.mu.Unlock()
	return one
}

func (w *Waits) restart(one *openWait) {
	w.mu.Lock()
	status, reported := one.status(), one.reported
	one.since, one.reported = time.Now(), false
	one.timer.Reset(waitReported)
	w.mu.Unlock()
	if reported {
		w.waited(status)
	}
}

// report sends the event of a wait that has lasted long enough.
func (w *Waits) report(one *openWait) {
	w.mu.Lock()
	status := one.status()
	report := !one.over
	one.reported = report
	w.mu.Unlock()
	if report {
		w.Observe(Event{Kind: EventWait, Wait: &status, Text: status.Text()})
	}
}

func (w *Waits) finish(one *openWait) {
	one.timer.Stop()
	w.mu.Lock()
	one.over = true
	w.open = slices.DeleteFunc(w.open, func(x *openWait) bool { return x == one })
	status, reported := one.status(), one.reported
	w.mu.Unlock()
	if reported {
		w.waited(status)
	}
}

// waited sends the event of the end of a reported wait.
func (w *Waits) waited(status WaitStatus) {
	w.Observe(Event{Kind: EventWaited, Wait: &status, Text: fmt.Sprintf("waited %.1f s for %s", status.Seconds, status.For)})
}

func (one *openWait) status() WaitStatus {
	return WaitStatus{For: one.what, Detail: one.detail, Seconds: time.Since(one.since).Seconds(), Limit: one.limit.Seconds()}
}

// Status returns the current waits, the oldest first.
func (w *Waits) Status() []WaitStatus {
	if w == nil {
		return []WaitStatus{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]WaitStatus, len(w.open))
	for i, one := range w.open {
		all[i] = one.status()
	}
	return all
}

// Sleep sleeps for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
