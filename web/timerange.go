package web

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/taredb/tare/internal/urlparams"
)

const (
	defaultFrom = "now-1h"
	defaultTo   = "now"

	// maxSpan is the maximum time range of a page.
	maxSpan = 366 * 24 * time.Hour
)

// A span is the time range of a page.
type span struct {
	From, To         time.Time
	FromText, ToText string // texts from the URL
}

// parseSpan parses ?from= and ?to=, times as urlparams.ParseTime has them.
func parseSpan(q url.Values, now time.Time) (span, error) {
	s := span{FromText: strings.TrimSpace(q.Get("from")), ToText: strings.TrimSpace(q.Get("to"))}
	if s.FromText == "" {
		s.FromText = defaultFrom
	}
	if s.ToText == "" {
		s.ToText = defaultTo
	}
	var err error
	if s.From, err = urlparams.ParseTime(s.FromText, now); err != nil {
		return s, fmt.Errorf("from: %w", err)
	}
	if s.To, err = urlparams.ParseTime(s.ToText, now); err != nil {
		return s, fmt.Errorf("to: %w", err)
	}
	switch length := s.To.Sub(s.From); {
	case length <= 0:
		return s, fmt.Errorf("from %s is not before to %s", s.FromText, s.ToText)
	case length < time.Second:
		return s, fmt.Errorf("from %s to %s is less than a second", s.FromText, s.ToText)
	case length > maxSpan:
		return s, fmt.Errorf("from %s to %s is more than %d days", s.FromText, s.ToText, maxSpan/(24*time.Hour))
	}
	return s, nil
}

// Length returns the length of the span.
func (s span) Length() time.Duration { return s.To.Sub(s.From) }

// Relative reports whether the span ends at the current time.
func (s span) Relative() bool { return s.ToText == "now" }

// Query returns the span as URL parameters.
func (s span) Query() url.Values {
	q := url.Values{}
	s.put(q)
	return q
}

func (s span) put(q url.Values) {
	q.Set("from", s.FromText)
	q.Set("to", s.ToText)
}

// absolute returns the span with fixed times, so that a link always shows the same: in whole seconds,
// including the whole span.
func (s span) absolute() span {
	return spanOf(s.From, s.To.Add(time.Second-time.Nanosecond).Truncate(time.Second))
}

func spanOf(from, to time.Time) span {
	return span{From: from, To: to, FromText: stamp(from), ToText: stamp(to)}
}

// fitted returns the part of a span that has data, from one time to another, and false if that is half of it or more: a chart of
// the whole span would show a few points at its edge. The part has at least a minute.
func fitted(s span, from, to time.Time) (span, bool) {
	if from.Before(s.From) {
		from = s.From
	}
	if to.After(s.To) {
		to = s.To
	}
	if !from.Before(to) || to.Sub(from) >= s.Length()/2 {
		return s, false
	}
	if short := time.Minute - to.Sub(from); short > 0 {
		from = from.Add(-short)
		if from.Before(s.From) {
			from = s.From
		}
	}
	from, to = from.Truncate(time.Second), to.Add(time.Second-time.Nanosecond).Truncate(time.Second)
	return spanOf(from, to), true
}

// shifted returns the previous span (-1) or the next one (1).
func (s span) shifted(by int) span {
	d := time.Duration(by) * s.Length()
	return spanOf(s.From.Add(d), s.To.Add(d))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// A preset is a span one click away.
type preset struct{ Name, From string }

var presets = []preset{
	{"5 m", "now-5m"}, {"15 m", "now-15m"}, {"1 h", "now-1h"}, {"6 h", "now-6h"}, {"24 h", "now-24h"}, {"7 d", "now-7d"}, {"30 d", "now-30d"},
}

// spanText formats the span in full, with one date if both ends are on the same day.
func spanText(s span) string {
	to := moment(s.To)
	if s.From.UTC().Format(time.DateOnly) == s.To.UTC().Format(time.DateOnly) {
		to = secondTime.mark(s.To)
	}
	return moment(s.From) + " – " + to + " " + utc
}
