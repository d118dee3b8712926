package promapi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/util/stats"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/visible"
)

// TestPointModel encodes samples at and beside the steps of ranges, in and out of order, with values that repeat: the text is that of each
// sample alone.
func TestPointModel(t *testing.T) {
	rng := testseed.Rand(t)
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1e-7, 1e21, 1 << 53, -(1 << 53), math.NaN(), math.Inf(1), math.Inf(-1)}
	for _, steps := range []int{0, 1, 5, maxStamps, maxStamps + 1} {
		var e sampleEncoder
		for range 2 { // again, with the values of before
			start, step := rng.Int64N(4000)-2000, 1+rng.Int64N(3)*499
			e.reset(start, step, steps)
			if want := min(steps, maxStamps); steps <= maxStamps && len(e.texts) != want || steps > maxStamps && len(e.texts) != 0 {
				t.Errorf("%d steps: %d texts", steps, len(e.texts))
			}
			at, v := start, 1.0
			for range 300 {
				switch rng.IntN(6) {
				case 0:
					at = start + int64(rng.IntN(steps+4)-2)*step
				case 1:
					at += rng.Int64N(5) - 2
				case 2:
					e.next = 0 // of another series
				default:
					at += step
				}
				if rng.IntN(2) == 0 {
					v = values[rng.IntN(len(values))]
				}
				want := "x[" + string(appendTimestamp(nil, at)) + `,"` + string(appendFloat(nil, v)) + `"]`
				if got := string(e.appendPoint([]byte("x"), at, v)); got != want {
					t.Fatalf("%d steps of %d from %d: %s, want %s", steps, step, start, got, want)
				}
			}
		}
	}
}

// TestStrings has each byte and each character that is escaped in a string of JSON.
func TestStrings(t *testing.T) {
	texts := []string{"", "\uFFFD", "\uFFFDx", "\xef\xbf", "\u2028", "\u202e", "\ufeff", "é", "日本", "\U0001F600"}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), "a"+string([]byte{byte(c)})+"b")
	}
	for r := rune(0x80); r < 0x2100; r++ {
		texts = append(texts, "a"+string(r)+"b")
	}
	for _, s := range texts {
		for name, b := range map[string][]byte{"string": appendString([]byte("x"), s), "text": appendText([]byte("x"), s)} {
			var got string
			if err := json.Unmarshal(b[1:], &got); err != nil || b[0] != 'x' || got != string([]rune(s)) {
				t.Errorf("%s of %q: %s, %q, %v", name, s, b, got, err)
			}
			for i, r := range string(b) {
				if visible.IsControl(r) || r < ' ' || name == "text" && strings.ContainsRune("<>&", r) || r == utf8.RuneError && !strings.ContainsRune(s, r) {
					t.Errorf("%s of %q: %q at %d", name, s, r, i)
				}
			}
		}
	}
	for list, want := range map[string]string{"": "[]", "a": `["a"]`, "a b <": `["a","b","\u003c"]`} {
		if got := string(appendTexts(nil, strings.Fields(list))); got != want {
			t.Errorf("%q: %s", list, got)
		}
	}
}

// TestStats has the costs of a query, with and without those of its steps, as Prometheus encodes them.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perStep := range []bool{false, true} {
			s := &stats.Statistics{Timers: stats.NewQueryTimers(), Samples: stats.NewQuerySamples(perStep)}
			for i := range stats.ExecTotalTime + 1 {
				timer := s.Timers.GetTimer(i).Start()
				time.Sleep(time.Duration(i+1) * time.Millisecond)
				timer.Stop()
			}
			s.Samples.InitStepTracking(1500, 3500, 1000)
			for i := range int64(3) {
				s.Samples.IncrementSamplesAtStep(int(i), 10+i)
				s.Samples.IncrementSamplesReadAtStep(int(i), 20+i)
			}
			s.Samples.UpdatePeak(77)
			text, err := json.Marshal(stats.NewQueryStats(s).Builtin())
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			b := appendStats(nil, s)
			if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %v, want %s", b, err, text)
			}
		}
	})
}

// TestOfParams has the forms and bounds of times, durations and limits.
func TestOfParams(t *testing.T) {
	for s, want := range map[string]int64{ // milliseconds; -1: refused
		"0": 0, "1.5": 1500, "1.0004": 1000, "1.0006": 1001, "1e3": 1e6, "1970-01-01T00:00:01.5Z": 1500, "1970-01-01T01:00:00+01:00": 0, "": -1, "x": -1, "NaN": -1, "Inf": -1, "9223372036854775": -1, "1970-01-01": -1,
		minTimeText: minSeconds * 1000, maxTimeText: maxSeconds*1000 + 999,
	} {
		if got, err := parseTime(s); (err != nil) != (want == -1) || err == nil && got.UnixMilli() != want {
			t.Errorf("time %q: %v, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]time.Duration{ // -1: refused
		"0": 0, "1.5": 1500 * time.Millisecond, "1m": time.Minute, "1h30m": 90 * time.Minute, "-2": -2 * time.Second, "9223372036": 9223372036 * time.Second, "9223372037": -1, "-9223372037": -1, "": -1, "x": -1, "1x": -1,
	} {
		if got, err := parseDuration(s); (err != nil) != (want == -1) || err == nil && got != want {
			t.Errorf("duration %q: %v, %v, want %v", s, got, err, want)
		}
	}
	for s, want := range map[string]int{"": 0, "0": 0, "7": 7, "-1": -1, "x": -1, "1.5": -1} {
		if got, err := parseLimit(s); (err != nil) != (want == -1) || err == nil && got != want {
			t.Errorf("limit %q: %d, %v", s, got, err)
		}
	}
	for limit, want := range map[int]int{0: 0, 1: 2, math.MaxInt - 1: math.MaxInt, math.MaxInt: math.MaxInt} {
		if got := hintLimit(limit); got != want {
			t.Errorf("hint of %d: %d", limit, got)
		}
	}
	for ms, want := range map[int64]string{0: "0", 1: "0.001", 12: "0.012", 123: "0.123", 1000: "1", -1: "-0.001", -1500: "-1.500", 1010: "1.010", math.MinInt64: "-9223372036854775.808"} {
		if got := string(appendTimestamp(nil, ms)); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0"}, {math.Copysign(0, -1), "-0"}, {1e-6, "0.000001"}, {9.9e-7, "9.9e-07"}, {1e20, "100000000000000000000"}, {1e21, "1e+21"}, {1 << 53, "9007199254740992"}, {-2, "-2"}, {0.1, "0.1"}, {-1e21, "-1e+21"},
	} {
		if got := string(appendFloat(nil, c.f)); got != c.want {
			t.Errorf("%v: %s, want %s", c.f, got, c.want)
		}
	}
	if got := fmt.Sprint(string(appendTime(nil, 1500)), string(appendTime(nil, 1435781451781))); got != "1.51435781451.781" {
		t.Error(got)
	}
}
