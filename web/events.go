package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/panics"
)

// An Event is an occurrence, or a current condition, that needs attention.
type Event struct {
	Time  time.Time // occurrence or start; zero: unknown, and the condition lasts
	Lasts bool      // shown regardless of its start
	Name  string    // kind of the event
	Text  string    // a sentence
	Cause string    // a sentence with its evidence; "" if there is none
	Near  string    // events near in time without evidence; "" if there are none
	Link  string    // to details; "" for none
	Grave bool

	// Added is the load that a statement has added: the average number of concurrent calls beyond the
	// previous one.
	Added float64
}

const (
	// eventTimeout bounds a query of an event source.
	eventTimeout = 2 * time.Second

	// copiesFresh is the time for which the first page reuses the state of copies, since a query reads the
	// state tables of the target.
	copiesFresh = 30 * time.Second

	// maxRises bounds the listed statements whose load has risen, and those that are new.
	maxRises = 5
)

// An eventReader reads the events of the first page.
type eventReader struct {
	ready     func(context.Context) error // as Options.Ready
	server    func() []Event              // as Options.Events
	copies    *copiesPage
	locks     *lockReader
	mayFollow func(a access.Account, link string) bool
}

// query queries the sources of events while the page is prepared. The returned function waits for
// them; if one of them panicked, it panics in the request's own goroutine.
func (s *eventReader) query(ctx context.Context, v *view) func() []Event {
	var all [4][]Event
	var failed [4]error
	var queried sync.WaitGroup
	query := func(i int, source func(context.Context) []Event) {
		queried.Go(func() {
			failed[i] = panics.Guard(func() error {
				ctx, cancel := context.WithTimeout(ctx, eventTimeout)
				defer cancel()
				all[i] = source(ctx)
				return nil
			})
		})
	}
	if s.ready != nil {
		query(0, s.readyEvents)
	}
	if s.copies.source != nil {
		query(1, func(ctx context.Context) []Event { return copyEvents(s.copies.recent(ctx, v.now)) })
	}
	if s.server != nil {
		query(2, func(context.Context) []Event { return s.serverEvents(v) })
	}
	query(3, func(context.Context) []Event { return s.locks.events(v) })
	return func() []Event {
		queried.Wait()
		if p := panics.Of(errors.Join(failed[:]...)); p != nil {
			panic(p)
		}
		return slices.Concat(all[:]...)
	}
}

// readyEvents returns an event if the server is not ready.
func (s *eventReader) readyEvents(ctx context.Context) []Event {
	if err := s.ready(ctx); err != nil {
		return []Event{{Name: "Not ready", Text: sentence(err.Error()), Grave: true}}
	}
	return nil
}

// serverEvents returns the server's events that last or are within the range. It removes links that the
// account may not follow.
func (s *eventReader) serverEvents(v *view) []Event {
	var all []Event
	for _, e := range s.server() {
		if !e.Lasts && !e.Time.IsZero() && (e.Time.Before(v.span.From) || e.Time.After(v.span.To)) {
			continue
		}
		if !s.mayFollow(v.account, e.Link) {
			e.Link = ""
		}
		all = append(all, e)
	}
	return all
}

// inOrder sorts events: grave ones, then lasting ones, then past ones. Lasting events are sorted by the load
// that they added, behind states of the server, which added none; others by time, the latest first.
func inOrder(all []Event) []Event {
	slices.SortStableFunc(all, func(a, b Event) int {
		return cmp.Or(
			falseFirst(!a.Grave, !b.Grave),
			falseFirst(!a.lasting(), !b.lasting()),
			falseFirst(a.lasting() && a.Added > 0, b.lasting() && b.Added > 0),
			cmp.Compare(b.lastingLoad(), a.lastingLoad()),
			cmp.Compare(b.Time.UnixNano(), a.Time.UnixNano()),
		)
	})
	return all
}

func (e *Event) lasting() bool { return e.Lasts || e.Time.IsZero() }

func (e *Event) lastingLoad() float64 {
	if e.lasting() {
		return e.Added
	}
	return 0
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// statementEvents returns statements that are new and heavy, and those whose load has risen most. why returns the cause
// of a row.
func statementEvents(v *view, rows []queryRow, why func(i int) whyText) []Event {
	var all, rises []Event
	listed := make(map[string]bool) // a statement has one row per user and schema
	known := make(map[string]bool)
	for i := range rows {
		known[rows[i].Link] = known[rows[i].Link] || !rows[i].New
	}
	for i := range rows {
		r := &rows[i]
		if load := r.newLoad(v.now); r.New && r.Share >= newShare && load >= v.LeastLoad && !listed[r.Link] && len(all) < maxRises {
			listed[r.Link] = true
			e := Event{
				Time: r.First, Lasts: true, Name: "New statement", Link: r.Link, Added: load,
				Text: r.Name + " is new since " + clock(r.First, v.span.Length()) + ": load " + unitLoad.write(load) + ", " + percent(r.Share) + " of all execution time, p99 " + duration(r.P99) + ".",
			}
			if known[r.Link] { // of other callers
				e.Name = "New caller"
			}
			w := why(i)
			e.Cause, e.Near = w.Cause, w.Near
			all = append(all, e)
		}
	}
	var found []int
	for i := range rows {
		if r := &rows[i]; r.Rise != nil && !listed[r.Link] {
			listed[r.Link] = true
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int {
		x, y := rows[a].Rise, rows[b].Rise
		return cmp.Or(falseFirst(!x.Lasts, !y.Lasts), cmp.Compare(y.Inside-y.Outside, x.Inside-x.Outside))
	})
	for _, i := range found[:min(len(found), maxRises)] {
		e := riseEvent(v, &rows[i])
		w := why(i)
		e.Cause, e.Near = w.Cause, w.Near
		rises = append(rises, e)
	}
	return append(all, inOrder(rises)...)
}

// newLoad returns the average load of a new statement since its first call.
func (row *queryRow) newLoad(now time.Time) float64 {
	return row.Mean.Seconds() * float64(row.Calls) / max(now.Sub(row.First).Seconds(), leastCovered.Seconds())
}

func riseEvent(v *view, r *queryRow) Event {
	text := r.Name + ": load " + unitLoad.write(r.Rise.Inside)
	if times := r.Rise.Times(); times != "" {
		text = r.Name + ": " + factor(times) + " heavier (load " + unitLoad.write(r.Rise.Outside) + " → " + unitLoad.write(r.Rise.Inside) + ")"
	}
	if !r.Rise.Lasts {
		text += ", until " + clock(r.Rise.To, v.span.Length())
	}
	return Event{
		Time: r.Rise.From, Lasts: r.Rise.Lasts, Name: "Heavier", Link: r.Link, Text: text + ".",
		Added: r.Rise.Inside - r.Rise.Outside,
	}
}

// copyEvents returns copies that need attention.
func copyEvents(c Copies) []Event {
	var all []Event
	running := make(map[string]bool)
	for _, r := range c.Running {
		for _, t := range r.Tables {
			running[t.Target] = true
		}
		name, what := "Copy waits", "copy from "+r.From+" to "+r.To
		if r.Alter != nil {
			name, what = "Alteration waits", "alteration of "+r.Alter.Table+" on "+r.From
		}
		if r.Verify != nil && r.Verify.Mismatches > 0 {
			all = append(all, Event{Name: "Rows differ", Link: "/copies", Grave: true, Text: fmt.Sprintf("The %s found differing rows: %d.", what, r.Verify.Mismatches)})
		}
		switch {
		case r.Alter != nil && r.Alter.Step() == telemetry.StepPostponed:
			all = append(all, Event{Name: name, Link: "/copies", Text: "The " + what + " is ready: tare alter ctl cutover swaps the tables."})
		case r.Throttle.Stopped:
			all = append(all, Event{Name: name, Link: "/copies", Text: "The " + what + " is paused: " + cmp.Or(r.Throttle.Reason, "by request") + "."})
		case r.Follow != nil && r.Follow.Held != "":
			all = append(all, Event{Name: name, Link: "/copies", Text: "The changes of the " + what + " wait: " + r.Follow.Held + "."})
		}
	}
	for _, j := range c.Jobs {
		if j.Finished == nil && !running[j.Target] {
			all = append(all, Event{
				Time: j.Started, Name: "Copy not done", Link: "/copies",
				Text: fmt.Sprintf("%s from %s: %d of %d chunks copied; no copy is running here.", j.Target, j.Source, j.Copied, j.Chunks),
			})
		}
	}
	if len(c.Problems) > 0 {
		all = append(all, Event{Name: "Copies unreadable", Link: "/copies", Text: sentence(strings.Join(c.Problems, "; "))})
	}
	for i := range all {
		all[i].Text = cutText(all[i].Text, 4*shownValue)
	}
	return all
}

// A copiesCache caches the state of copies for the first page.
type copiesCache struct {
	mu sync.Mutex
	at time.Time
	c  Copies
}

// get returns the cached state, or queries it again if it is too old.
func (l *copiesCache) get(ctx context.Context, now time.Time, ask func(context.Context) Copies) Copies {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := now.Sub(l.at); l.at.IsZero() || age < 0 || age >= copiesFresh {
		l.c, l.at = ask(ctx), now
	}
	return l.c
}
