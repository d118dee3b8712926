package blocksync

import (
	"testing"
	"time"
)

func TestParseTimeBound(t *testing.T) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-01-31T00:00:00Z":      "2026-01-31T00:00:00Z",
		"2026-01-31T02:00:00+02:00": "2026-01-31T00:00:00Z",
		"-2w":                       "2026-01-18T00:00:00Z",
		"-1h30m":                    "2026-01-31T22:30:00Z",
		"1d":                        "2026-02-02T00:00:00Z",
		"0s":                        "2026-02-01T00:00:00Z",
	} {
		b, err := ParseTimeBound(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := time.UnixMilli(b.millis(now)).UTC().Format(time.RFC3339); got != want || b.String() != text {
			t.Errorf("%s is %s (%s), want %s", text, got, b, want)
		}
	}
	for _, text := range []string{"yesterday", "2026-01-31", "-", "--1h", "1.5h", "9999999y"} {
		if b, err := ParseTimeBound(text); err == nil {
			t.Errorf("%s is accepted as %v", text, b.millis(now))
		}
	}
	early, err := ParseTimeBound("-2h")
	if err != nil {
		t.Fatal(err)
	}
	if (TimeRange{Min: early}).Validate() != nil || (TimeRange{Max: early}).Validate() != nil {
		t.Error("a range with one end is refused")
	}
	if (TimeRange{Min: TimeBound{offset: time.Hour, text: "1h"}, Max: early}).Validate() == nil {
		t.Error("an empty range is accepted")
	}
}
