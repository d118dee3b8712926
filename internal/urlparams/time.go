package urlparams

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// endYear is the year after the last one of a time: Unix seconds below 1<<33 are in the years before.
const endYear = 2243

// layouts are the absolute forms; those without a zone are in UTC.
var layouts = [...]string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly}

// ParseTime parses a time from 1970 to 2242: now, now-1h30m, now-7d, now-2w, RFC 3339, a date, a date and time in UTC, or Unix seconds.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if t, ok := parseTime(text, now); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("malformed time %.60q: want now, now-1h, now-7d, 2026-01-31T15:04:05Z, 2026-01-31 15:04 (UTC) or Unix seconds", text)
}

func parseTime(text string, now time.Time) (time.Time, bool) {
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		if rest == "" {
			return now, true
		}
		back, ok := strings.CutPrefix(rest, "-")
		if !ok {
			return time.Time{}, false
		}
		d, ok := length(back)
		t := now.Add(-d)
		return t, ok && t.Year() >= 1970
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return time.UnixMilli(int64(f * 1000)).UTC(), f >= 0 && f < 1<<33
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC()
			return t, t.Year() >= 1970 && t.Year() < endYear
		}
	}
	return time.Time{}, false
}

// length parses a duration of at least 0 in Go's format, or in whole days or weeks: 90m, 1h30m, 7d, 2w.
func length(text string) (time.Duration, bool) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(number, 10, 63)
			return time.Duration(n) * unit, err == nil && n <= math.MaxInt64/uint64(unit)
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && !strings.HasPrefix(text, "+")
}
