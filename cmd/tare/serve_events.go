package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/web"
)

// events returns the gateway's events that matter to readers of its statements.
func (s *service) events() []web.Event {
	return slices.Concat(s.routeEvents(), s.lossEvents(), s.history.events())
}

// routeEvents returns the last switch to another server, and a current pause.
func (s *service) routeEvents() []web.Event {
	if s.cfg.Standby == "" {
		return nil
	}
	var all []web.Event
	route := s.gateway.Route()
	if route.Until != nil {
		all = append(all, web.Event{
			Name: "Commands held", Link: gateway.RoutePattern, Grave: true,
			Text: fmt.Sprintf("New commands wait until sessions are switched, until %s at the latest (%s).", route.Until.UTC().Format("15:04:05"), route.Stage),
		})
	}
	if last := s.switched.Load(); last != nil && last.Address == route.Address {
		to := "the standby"
		if route.Active == switchover.Backend.String() {
			to = "--backend"
		}
		all = append(all, web.Event{
			Time: last.At, Name: "Switched", Link: gateway.RoutePattern,
			Text: fmt.Sprintf("Sessions were switched to %s, %s.", to, last.Address),
		})
	}
	return all
}

// clockStepAge is how long a new instance label is reported as an event.
const clockStepAge = 30 * 24 * time.Hour

// events returns an event if the table of digests was too small.
func (h *historyService) events() []web.Event {
	if h == nil {
		return nil
	}
	st := h.table.Stats()
	var all []web.Event
	if h.archive != nil {
		if cause := h.archive.Waiting(); cause != nil {
			all = append(all, web.Event{
				Time: h.archive.Opened(), Name: "History waits", Grave: true,
				Text: fmt.Sprintf("%v. Statements are counted; samples are written as soon as that is possible, without a restart.", cause),
			})
		}
		if ahead := h.archive.Ahead(); ahead > h.cfg.Archive.Interval {
			all = append(all, web.Event{
				Time: h.archive.Now(), Name: "Clock set back", Grave: true,
				Text: fmt.Sprintf("Samples continue after the newest ones, %s ahead of the system clock.", ahead.Round(time.Second)),
			})
		}
		for _, at := range h.archive.ClockSteps() {
			if h.archive.Now().Sub(at.To) > clockStepAge {
				continue
			}
			all = append(all, web.Event{
				Time: at.To, Name: "Clock set back", Grave: true,
				Text: fmt.Sprintf("Samples up to %s have instance=%q; those since have instance=%q.", at.From.Format("2006-01-02 15:04:05 UTC"), at.Before, at.After),
			})
		}
		for _, d := range h.archive.Unexplained() {
			all = append(all, web.Event{
				Time: d.To, Name: "History differs from its ledger", Grave: true,
				Text: fmt.Sprintf("Samples since %s: %d more or fewer than were written, and increases by %d calls.", d.From.Format("2006-01-02 15:04:05 UTC"), d.Samples, d.Calls),
			})
		}
	}
	if st.Evictions > 0 {
		all = append(all, web.Event{
			Time: st.LastEviction, Name: "Digests made room",
			Text: fmt.Sprintf(`%d have so far, the last one then: their calls count on as digest="evicted". --history-max-digests is %d.`, st.Evictions, h.cfg.Table.MaxDigests),
		})
	}
	if st.Untracked > 0 {
		all = append(all, web.Event{
			Name: "No place for digests",
			Text: fmt.Sprintf(`%d calls since the start count as digest="other": more kinds of statements came than --history-max-digests %d lets in at once.`, st.Untracked, h.cfg.Table.MaxDigests),
		})
	}
	return all
}

// lossEvents returns the local state that could not be used.
func (s *service) lossEvents() []web.Event {
	var all []web.Event
	for _, l := range s.Data.Losses() {
		text := fmt.Sprintf("%s: %s. Lost: %s.", l.Path, l.Cause, l.Lost)
		all = append(all, web.Event{Time: l.Time, Name: "Local state lost", Link: "/weight#state", Grave: true, Text: text})
	}
	return all
}
