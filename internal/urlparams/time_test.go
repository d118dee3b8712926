package urlparams

import (
	"strings"
	"testing"
	"time"
)

// TestParseTime has each form, and each bound on both sides.
func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for text, want := range map[string]time.Time{
		"now":                       now,
		"now-0s":                    now,
		"now-1ns":                   now.Add(-1),
		"now-1h30m":                 now.Add(-90 * time.Minute),
		"now-0d":                    now,
		"now-1d":                    now.Add(-day),
		"now-2w":                    now.Add(-14 * day),
		"now-20513d":                time.Unix(0, 0),
		"now-2930w":                 now.Add(-2930 * 7 * day),
		"now-492312h":               time.Unix(0, 0),
		"0":                         time.Unix(0, 0),
		"1.5":                       time.UnixMilli(1500),
		"8589934591":                time.Unix(8589934591, 0),
		"1970-01-01T00:00:00Z":      time.Unix(0, 0),
		"2242-12-31T23:59:59Z":      time.Date(2242, 12, 31, 23, 59, 59, 0, time.UTC),
		"2026-03-01T02:00:00+02:00": now,
		"2026-01-31T15:04:05.25Z":   time.Date(2026, 1, 31, 15, 4, 5, 25e7, time.UTC),
		"2026-01-31T15:04:05":       time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
		"2026-01-31T15:04":          time.Date(2026, 1, 31, 15, 4, 0, 0, time.UTC),
		"2026-01-31 15:04:05":       time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC),
		"2026-01-31 15:04":          time.Date(2026, 1, 31, 15, 4, 0, 0, time.UTC),
		"2026-01-31":                time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "now-", "now1h", "now+1h", "now--1h", "now-+1h", "now--5d", "now-+5d", "now-1.5d", "now-d", "now-1y", "nowadays", " now",
		"now-20514d", "now-2931w", "now-492313h", "now-2562048h",
		// Products above 64 bits, of which the rest is a few days.
		"now-30501w", "now-213504d", "now-18446744073709551616d", "now-9223372036854775808w",
		"-1", "8589934592", "1e300", "NaN", "Inf", "0x10p", strings.Repeat("9", 5000),
		"1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00", "2243-01-01T00:00:00Z", "2242-12-31T23:59:59-01:00", "0001-01-01", "2026-02-30", "2026-1-31",
	} {
		if got, err := ParseTime(text, now); err == nil || !strings.HasPrefix(err.Error(), "malformed time ") {
			t.Errorf("%.40q is %v (%v)", text, got, err)
		}
	}
}
