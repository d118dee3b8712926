package web

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// TestUnits formats numbers with about three digits, always with their unit.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		u    unit
		v    float64
		want string
	}{
		{unitCount, 0, "0"},
		{unitCount, 7, "7"},
		{unitCount, 1234, "1,234"},
		{unitCount, 9999, "9,999"},
		{unitCount, 10_000, "10 k"},
		{unitCount, 45_600, "45.6 k"},
		{unitCount, 7_890_000, "7.89 M"},
		{unitCount, -1234, "-1,234"},
		{unitCount, 1e300, "1e+300"},
		{unitRate, 0.25, "0.25 /s"},
		{unitRate, 99.96, "100 /s"},
		{unitRate, 1234.4, "1,234 /s"},
		{unitRate, 217.557, "218 /s"},
		{unitRate, 217_557, "218 k /s"},
		{unitRate, 0.0004, "0.0004 /s"},
		{unitSeconds, 0, "0 s"},
		{unitSeconds, 1e-9, "1 ns"},
		{unitSeconds, 0.00095, "950 µs"},
		{unitSeconds, 0.0123, "12.3 ms"},
		{unitSeconds, 0.99951, "1 s"},
		{unitSeconds, 90, "90 s"},
		{unitSeconds, 3600, "60 min"},
		{unitSeconds, 86400, "24 h"},
		{unitSeconds, 864000, "10 d"},
		{unitBytes, 0, "0 B"},
		{unitBytes, 1023, "1 KiB"},
		{unitBytes, 1536, "1.5 KiB"},
		{unitBytes, 3 << 30, "3 GiB"},
		{unitByteRate, 2 << 20, "2 MiB/s"},
		{unitPercent, 0, "0 %"},
		{unitPercent, 0.0001, "< 0.1 %"},
		{unitPercent, 0.0123, "1.2 %"},
		{unitPercent, 0.5, "50 %"},
		{unitPercent, 12, "1,200 %"},
		{unitLoad, 0.333, "0.33 active"},
		{unitLoad, 9e-7, "< 0.01 active"},
		{unitLoad, 0, "0 active"},
		{unitActive, 0.333, "0.33"},
		{unitActive, 0.001, "< 0.01"},
		{unitActive, 22.71, "22.7"},
		{unitActive, 0, "0"},
		{unitActive, math.NaN(), "–"},
		{unitSeconds, math.NaN(), "–"},
		{unitBytes, math.Inf(1), "–"},
		{unitPercent, math.Inf(-1), "–"},
		{unitCount, math.NaN(), "–"},
	} {
		if got := c.u.write(c.v); got != c.want {
			t.Errorf("%v as %s: %q, want %q", c.v, c.u.name(), got, c.want)
		}
	}
	for _, c := range []struct {
		n    uint64
		want string
	}{{0, "0 rows"}, {1, "1 row"}, {2, "2 rows"}, {12345, "12,345 rows"}} {
		if got := many(c.n, "row"); got != c.want {
			t.Errorf("%d rows are %q, want %q", c.n, got, c.want)
		}
	}
	// Three digits, a sign and a unit at most: a tile of a page has room for that.
	for u := unitCount; u <= unitActive; u++ {
		for e := -12; e < 15; e++ {
			for _, m := range []float64{1, 1.2345, 5.55555, 9.995, 9.9999} {
				if got := u.write(m * math.Pow10(e)); len([]rune(got)) > 13 {
					t.Errorf("%ve%d as %s has %d characters: %s", m, e, u.name(), len([]rune(got)), got)
				}
			}
		}
	}
	if got := count(math.MaxUint64); got != "18,446,744,073,709,551,615" {
		t.Errorf("the largest count is %s", got)
	}
}

// TestNumbersOfAllMeasures formats each column of the queries and each headline value with values of all magnitudes: three digits,
// or an integer below 10,000; no cell is wider than its tile; nothing is the plural of one.
func TestNumbersOfAllMeasures(t *testing.T) {
	digits := regexp.MustCompile(`[0-9][0-9,.]*`)
	check := func(name, text string, width int) {
		t.Helper()
		if n := len([]rune(text)); n > width {
			t.Errorf("%s: %q has %d characters, want at most %d", name, text, n, width)
		}
		for _, number := range digits.FindAllString(text, -1) {
			whole, fraction, _ := strings.Cut(strings.ReplaceAll(number, ",", ""), ".")
			if significant := strings.TrimLeft(whole+fraction, "0"); len(significant) > 3 && (fraction != "" || len(whole) > 4) {
				t.Errorf("%s: %q has more than three digits", name, text)
			}
		}
		if one := plural.FindString(text); one != "" {
			t.Errorf("%s: %q", name, one)
		}
	}
	for e := -9; e < 15; e++ {
		for _, m := range []float64{1, 1.2345678, 2.17557, 9.9951, 9.99999} {
			x := m * math.Pow10(e)
			n := uint64(max(x, 0))
			totals := statements.Totals{Calls: n, Errors: n, Counts: stmtstats.Counts{stmtstats.RowsSent: n, stmtstats.RowsAffected: n, stmtstats.BytesSent: n}, Seconds: x, P50: time.Duration(x * 1e9), P99: time.Duration(x * 1e9), P999: time.Duration(x * 1e9)}
			now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
			v := &view{now: now, span: spanOf(now.Add(-time.Hour), now), texts: true, r: newRequest(t, ""), query: url.Values{}}
			top := &statements.Top{
				From: v.span.From, To: v.span.To, Source: statements.SourceSamples, Total: totals, Before: totals, Matching: 1,
				Rows: []statements.TopRow{{Text: "SELECT ?", Totals: totals, Before: totals, First: v.span.From, Last: now}},
			}
			row := &queryRowsOf(v, top)[0]
			row.counts = &serverstats.Counts{Calls: max(n, 1), RowsExamined: n, RowsSent: n, LockTime: n, NoIndex: n, TempTables: n, TempDiskTables: n}
			for i := range queryColumns {
				c := &queryColumns[i]
				if c.id == statements.ByFirstSeen.String() {
					continue
				}
				cell := c.cell(row)
				check(c.id, cell.Text, 13)
				check(c.id, cell.Sub, 18)
				check(c.id, cell.Change.Text, 13)
			}
			o := testOptions()
			o.Latest = func() Latest {
				return Latest{Seconds: 10, Statements: n, Errors: n, PerSecond: x, P50: time.Duration(x * 1e9), P99: time.Duration(x * 1e9), P999: time.Duration(x * 1e9), Sessions: int(n)}
			}
			for _, f := range New(o).parts.overview.figures(v, top) {
				check(f.Name, f.Value, 13)
				check(f.Name, f.Note, 45)
			}
		}
	}
	for n, want := range map[float64]string{0: "0 rows", 1: "1 row", 0.9999: "1 row", 2: "2 rows", 12_345: "12.3 k rows"} {
		if got := about(n, "row"); got != want {
			t.Errorf("%v rows are %q, want %q", n, got, want)
		}
	}
}

// plural is the plural of one thing.
var plural = regexp.MustCompile(`\b1 (call|row|error|statement|session|sample|span|lane|value|block|group|chunk|object|table|event|time)s\b`)

// TestNumbersHaveTheirNouns searches templates and code for a number before a plural that does not depend on it.
func TestNumbersHaveTheirNouns(t *testing.T) {
	for pattern, fixed := range map[string]*regexp.Regexp{
		"templates/*.html": regexp.MustCompile(`\{\{(count|short|len)\b[^}]*\}\} ([a-z]+s)\b`),
		"*.go":             regexp.MustCompile(`\b(count|short|Itoa|FormatUint|FormatInt)\([^"]*\) ?\+ ?" ([a-z]+s)\b`),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range fixed.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains([]string{"series", "ms", "ns", "is", "as", "was", "has"}, m[2]) {
					t.Errorf("%s: %s would be wrong for 1: write many or about", file, m[0])
				}
			}
		}
	}
}

// TestChange compares values with the previous range.
func TestChange(t *testing.T) {
	for _, c := range []struct {
		now, before float64
		want        string
	}{{1, 0, ""}, {0, 2, "−100 %"}, {2, 2, "±0 %"}, {3, 2, "+50 %"}, {40, 2, "× 20"}, {math.NaN(), 1, ""}, {1, math.NaN(), ""}} {
		if got := changeOf(c.now, c.before); got.Text != c.want {
			t.Errorf("%v after %v: %q, want %q", c.now, c.before, got.Text, c.want)
		}
	}
}

// TestTimeRange parses the time range of URLs.
func TestTimeRange(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(h, m int) time.Time { return time.Date(2026, 1, 31, h, m, 0, 0, time.UTC) }
	for _, c := range []struct {
		query    string
		from, to time.Time
		err      string
	}{
		{"", at(11, 0), now, ""},
		{"from=now-90m", at(10, 30), now, ""},
		{"from=now-1h30m&to=now-30m", at(10, 30), at(11, 30), ""},
		{"from=now-1d&to=now", now.AddDate(0, 0, -1), now, ""},
		{"from=now-2w", now.AddDate(0, 0, -14), now, ""},
		{"from=2026-01-31T10:00:00Z&to=2026-01-31T13:00:00%2B01:00", at(10, 0), at(12, 0), ""},
		{"from=2026-01-31+10:00&to=2026-01-31T11:00", at(10, 0), at(11, 0), ""},
		{"from=2026-01-31", at(0, 0), now, ""},
		{"from=1769853600&to=1769857200.5", at(10, 0), at(11, 0).Add(500 * time.Millisecond), ""},
		{"from=now&to=now-1h", now, now, "is not before"},
		{"from=now-400d", now, now, "more than 366 days"},
		{"from=yesterday", now, now, `from: malformed time "yesterday"`},
		{"to=now%2B1h", now, now, "to: "},
		{"from=now--1h", now, now, "malformed time"},
		{"from=now-1y", now, now, "malformed time"},
		{"from=NaN", now, now, "malformed time"},
		{"from=-5", now, now, "malformed time"},
		{"from=1e300", now, now, "malformed time"},
		{"from=0001-01-01", now, now, "malformed time"},
		{"from=now-99999w", now, now, "malformed time"},
		{"from=now-30501w", now, now, "malformed time"}, // three days, modulo 64 bits
		{"from=" + strings.Repeat("9", 5000), now, now, "malformed time"},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSpan(q, now)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || len(err.Error()) > 300 {
				t.Errorf("%.60s: %v, want an error with %q", c.query, err, c.err)
			}
			continue
		}
		if err != nil || !s.From.Equal(c.from) || !s.To.Equal(c.to) {
			t.Errorf("%s: %v to %v, %v; want %v to %v", c.query, s.From, s.To, err, c.from, c.to)
			continue
		}
		again, err := parseSpan(s.absolute().Query(), now.Add(time.Hour))
		// A link has whole seconds and includes the whole range.
		if late := again.To.Sub(s.To); err != nil || !again.From.Equal(s.From.Truncate(time.Second)) || late < 0 || late >= time.Second {
			t.Errorf("%s: the link to it is %v to %v, %v", c.query, again.From, again.To, err)
		}
	}
}
