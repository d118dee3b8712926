package promapi

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/alloctest"
)

// TestTimesOfClients parses the times that clients send back as they received them.
func TestTimesOfClients(t *testing.T) {
	for text, want := range map[string]time.Time{minTimeText: minTime(), maxTimeText: maxTime()} {
		if got := want.Format(time.RFC3339Nano); got != text {
			t.Errorf("%v is written %s, not %s", want.Unix(), got, text)
		}
		if got, err := parseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%s) is %v, %v", text, got, err)
		}
	}
}

// TestTimesAndDurations parses values at and beyond the edges of their ranges.
func TestTimesAndDurations(t *testing.T) {
	for text, want := range map[string]int64{ // Unix milliseconds
		"0": 0, "1.5": 1500, "-1e3": -1000_000, "1.0004": 1000, "1.0006": 1001, "-0.25": -250, "1970-01-01T00:00:01.5Z": 1500, "1970-01-01T01:00:00+01:00": 0,
		"9223372036854774": 9223372036854774_000, "-9223372036854774": -9223372036854774_000, // as float64, the next one is …776
	} {
		if got, err := parseTime(text); err != nil || got.UnixMilli() != want {
			t.Errorf("parseTime(%s) is %v, %v; want %d ms", text, got, err, want)
		}
	}
	for _, text := range []string{"1e300", "-1e300", "NaN", "Inf", "-Inf", "9223372036854775", "-9223372036854775", "9223372036854778", "0x10", "", "1h", "1970-01-01", "٣"} {
		if got, err := parseTime(text); err == nil || !strings.Contains(err.Error(), "cannot parse "+strconv.Quote(text)) {
			t.Errorf("parseTime(%s) is %v, %v; want an error", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, "-1": -time.Second, "1h30m": 90 * time.Minute, "5y": 5 * 365 * 24 * time.Hour, "1e-9": 1, "9223372036": 9223372036 * time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("parseDuration(%s) is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1e300", "-1e300", "NaN", "Inf", "-Inf", "9223372037", "-9223372037", "", "1d2x", "٣"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "cannot parse "+strconv.Quote(text)) {
			t.Errorf("parseDuration(%s) is %v, %v; want an error", text, got, err)
		}
	}
}

// TestLimits parses the maximum number of items.
func TestLimits(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "1": 1, "9223372036854775807": math.MaxInt} {
		if got, err := parseLimit(text); err != nil || got != want {
			t.Errorf("parseLimit(%s) is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "x", "1.5", " 1", "9223372036854775808"} {
		if got, err := parseLimit(text); err == nil {
			t.Errorf("parseLimit(%s) is %d, want an error", text, got)
		}
	}
	for limit, want := range map[int]int{0: 0, 1: 2, math.MaxInt - 1: math.MaxInt, math.MaxInt: math.MaxInt} {
		if got := hintLimit(limit); got != want {
			t.Errorf("the hint of %d is %d, want %d", limit, got, want)
		}
	}
}

// FuzzParams expects times and durations to survive a round trip, or to be rejected.
func FuzzParams(f *testing.F) {
	for _, s := range []string{"0", "1.5", "-1e3", "1e300", "NaN", "-Inf", "1h30m", "1970-01-01T00:00:00.123456789Z", minTimeText, maxTimeText, "9223372036854775", "0x10", "1_000", "5y", "", "1d2h", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer alloctest.Bounded(t, 16<<20)()
		if got, err := parseTime(s); err == nil {
			again, err := parseTime(strconv.FormatFloat(float64(got.UnixMilli())/1000, 'f', 3, 64))
			if err != nil || math.Abs(float64(got.UnixMilli()-again.UnixMilli())) > math.Abs(float64(got.UnixMilli()))/1e15+1 {
				t.Errorf("%q is %v, which reads back as %v, %v", s, got, again, err)
			}
		} else if !strings.Contains(err.Error(), "cannot parse") {
			t.Errorf("%q: %v", s, err)
		}
		if got, err := parseDuration(s); err == nil {
			again, err := parseDuration(strconv.FormatFloat(got.Seconds(), 'f', -1, 64))
			if err != nil || math.Abs(float64(got-again)) > math.Abs(float64(got))/1e15+1 {
				t.Errorf("%q is %v, which reads back as %v, %v", s, got, again, err)
			}
		}
		if n, err := parseLimit(s); err == nil && n < 0 {
			t.Errorf("limit %q is %d", s, n)
		}
	})
}

// FuzzStrings compares JSON strings with those of encoding/json.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c", "<&>", "\x00\x1f\x7f", "日本\u2028\u2029", "\xff\xc0a", "\xed\xa0\x80", strings.Repeat("x", 70) + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, b := range [][]byte{appendString(nil, s), appendText(nil, s)} {
			var got string
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatalf("%q becomes %s: %v", s, b, err)
			}
			if want := strings.ToValidUTF8(s, string(utf8.RuneError)); utf8.ValidString(s) && got != want || !utf8.ValidString(s) && !utf8.ValidString(got) {
				t.Errorf("%q becomes %s, which is %q", s, b, got)
			}
		}
		if b := appendText(nil, s); strings.ContainsAny(string(b), "<>&\u2028\u2029") {
			t.Errorf("%s is not safe in HTML", b)
		}
	})
}

// FuzzRequests sends arbitrary requests: each response is JSON with a matching status.
func FuzzRequests(f *testing.F) {
	api, err := New(Options{Queryable: storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"query?query=up&time=5", "query_range?query=rate(x[5m])&start=0&end=60&step=15&stats=all", "series?match[]=up",
		"labels?limit=1", "label/U__a_2e_b/values", "label/%20/values", "query_exemplars?query=x", "parse_query?query=a%2Bb",
		"query_range?query=1&start=-292273086-05-16T16:47:06Z&end=292277025-08-18T07:12:54.999999999Z&step=1e9",
		"query_range?query=1&start=0&end=1&step=1e-9", "query?query=1&time=9223372036854775&lookback_delta=1&timeout=0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer alloctest.Bounded(t, 64<<20)()
		r, err := http.NewRequest(http.MethodGet, "http://store/api/v1/"+s, http.NoBody)
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code == http.StatusNoContent {
			return
		}
		var a struct{ Status, ErrorType string }
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%q: %s: %v", s, w.Body, err)
		}
		if (a.Status == "success") != (w.Code == http.StatusOK) || a.Status == "error" && a.ErrorType == "" {
			t.Errorf("%q: status %d with %+v", s, w.Code, a)
		}
	})
}

// TestNumbers compares numbers with the rule of Prometheus' encoder.
func TestNumbers(t *testing.T) {
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e20, 1e21, -1e21, 123456789, exactInts - 1, exactInts, 1 - exactInts, -exactInts, 1 << 60, -1 << 60,
		math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 1.0000000000000002, 2.5e15 + 0.5,
	} {
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		if got, want := string(appendFloat(nil, f)), strconv.FormatFloat(f, format, -1, 64); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
	for ms, want := range map[int64]string{0: "0", 1: "0.001", -1: "-0.001", 1000: "1", 90_500: "90.500", -90_050: "-90.050", math.MinInt64: "-9223372036854775.808", math.MaxInt64: "9223372036854775.807"} {
		if got := string(appendTimestamp(nil, ms)); got != want {
			t.Errorf("%d ms is written %s, want %s", ms, got, want)
		}
	}
}

// TestStamps encodes points on, between and off the steps, with and without the table of times: the output is
// the same.
func TestStamps(t *testing.T) {
	points := []int64{1000, 16_000, 31_000, 31_000, 1000, 46_001, 61_000, -14_000, 76_000, 91_000, 1 << 50, 16_000}
	var with, without sampleEncoder
	with.reset(1000, 15_000, 6)
	without.reset(0, 0, 0)
	for i, ms := range points {
		f := float64(i / 3)
		if got, want := string(with.appendPoint(nil, ms, f)), string(without.appendPoint(nil, ms, f)); got != want {
			t.Errorf("point %d at %d: %s, want %s", i, ms, got, want)
		}
	}
}
