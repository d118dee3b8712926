package web

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// TestUnitBounds formats numbers on both sides of each bound between two formats.
func TestUnitBounds(t *testing.T) {
	for _, c := range []struct {
		u    unit
		v    float64
		want string
	}{
		{unitCount, 0.00099, "0.00099"},
		{unitCount, 0.001, "0.001"},
		{unitCount, 0.9994, "0.999"},
		{unitCount, 0.9995, "1"},
		{unitCount, 9.994, "9.99"},
		{unitCount, 9.995, "10"},
		{unitCount, 99.94, "99.9"},
		{unitCount, 99.95, "100"},
		{unitCount, 9999.4, "9,999"},
		{unitCount, 9999.5, "10 k"},
		{unitCount, 999_499, "999 k"},
		{unitCount, 999_500, "1 M"},
		{unitCount, 999.4e12, "999 T"},
		{unitCount, 999.5e12, "1e+15"},
		{unitCount, 0.1, "0.1"},
		{unitLoad, 0.0049, "< 0.01 active"},
		{unitLoad, 0.005, "0.01 active"},
		{unitLoad, 9.994, "9.99 active"},
		{unitLoad, 9.996, "10 active"},
		{unitLoad, -0.5, "-0.50 active"},
		{unitSeconds, 999.4e-9, "999 ns"},
		{unitSeconds, 999.6e-9, "1 µs"},
		{unitSeconds, 999.4e-6, "999 µs"},
		{unitSeconds, 999.6e-6, "1 ms"},
		{unitSeconds, 0.9994, "999 ms"},
		{unitSeconds, 0.9996, "1 s"},
		{unitSeconds, 119.4, "119 s"},
		{unitSeconds, 119.5, "1.99 min"},
		{unitSeconds, 119.4 * 60, "119 min"},
		{unitSeconds, 119.5 * 60, "1.99 h"},
		{unitSeconds, 47.4 * 3600, "47.4 h"},
		{unitSeconds, 47.5 * 3600, "1.98 d"},
		{unitSeconds, -2, "-2 s"},
		{unitSeconds, 12.34e-3, "12.3 ms"},
		{unitSeconds, 123.4e-3, "123 ms"},
		{unitBytes, 999.4, "999 B"},
		{unitBytes, 999.5, "0.98 KiB"},
		{unitBytes, 999.4 * 1024, "999 KiB"},
		{unitBytes, 999.6 * 1024, "0.98 MiB"},
		{unitBytes, 999.4 * (1 << 20), "999 MiB"},
		{unitBytes, 999.6 * (1 << 20), "0.98 GiB"},
		{unitBytes, 999.4 * (1 << 30), "999 GiB"},
		{unitBytes, 999.6 * (1 << 30), "0.976 TiB"},
		{unitPercent, 0.00049, "< 0.1 %"},
		{unitPercent, 0.0005, "0.1 %"},
		{unitPercent, 0.0994, "9.9 %"},
		{unitPercent, 0.0995, "10 %"},
		{unitPercent, -0.2, "-20 %"},
	} {
		if got := c.u.write(c.v); got != c.want {
			t.Errorf("%v as %s: %q, want %q", c.v, c.u.name(), got, c.want)
		}
	}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{-time.Hour: "now", 2*time.Second - 1: "now", 2 * time.Second: "2 s ago", 2*time.Second + 900*time.Millisecond: "2 s ago", time.Hour: "60 min ago"} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if ago(time.Time{}, now) != noValue || duration(0) != noValue || duration(time.Second) != "1 s" {
		t.Error("unknown times")
	}
	three := int64(3)
	for _, n := range []any{3, int64(3), uint64(3), 3.0, &three, int32(3), uint32(3)} {
		if float(n) != 3 || manyText(n, "row") != "3 rows" {
			t.Errorf("%T: %v", n, float(n))
		}
	}
	if ratio(1, 0) != 0 || ratio(1, -1) != 0 || ratio(1, 4) != 0.25 || about(1, "row") != "1 row" || about(1.2, "row") != "1.2 rows" || about(0, "row") != "0 rows" {
		t.Error("ratios")
	}
}

// TestTicks labels axes of time with at most seven labels.
func TestTicks(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		7 * time.Second: time.Second, 7*time.Second + 1: 2 * time.Second, 7 * time.Hour: time.Hour, 7*time.Hour + 1: 2 * time.Hour, 7 * 24 * time.Hour: 24 * time.Hour,
		49 * 24 * time.Hour: 7 * 24 * time.Hour, 49*24*time.Hour + 1: 14 * 24 * time.Hour, 98*24*time.Hour - 1: 14 * 24 * time.Hour,
	} {
		if got := tickStep(length); got != want {
			t.Errorf("%v: a step of %v, want %v", length, got, want)
		}
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from   time.Duration
		length time.Duration
		want   string // position and format of each label
	}{
		{0, 0, ""},
		{0, -time.Hour, ""},
		{0, 4 * time.Minute, "0t 0.25t 0.5t 0.75t 1t"},
		{30 * time.Second, 4 * time.Minute, "0.13t 0.38t 0.63t 0.88t"},
		{0, 6 * time.Second, "0s 0.17s 0.33s 0.5s 0.67s 0.83s 1s"},
		{0, 6 * time.Hour, "0t 0.17t 0.33t 0.5t 0.67t 0.83t 1t"},
		{18 * time.Hour, 12 * time.Hour, "0t 0.17t 0.33t 0.5a 0.67t 0.83t 1t"},
		{0, 4 * 24 * time.Hour, "0A 0.25A 0.5A 0.75A 1A"},
		{0, 366 * 24 * time.Hour, "first A"},
		{0, 367 * 24 * time.Hour, "first D"},
	} {
		var got []string
		for _, k := range timeTicks(start.Add(c.from), start.Add(c.from+c.length)) {
			_, format, _ := strings.Cut(k.text, markStart)
			got = append(got, fmt.Sprintf("%v%c", math.Round(k.at*100)/100, format[0]))
		}
		text := strings.Join(got, " ")
		if first, ok := strings.CutPrefix(c.want, "first "); ok {
			if len(got) == 0 || !strings.HasSuffix(got[0], first) || len(got) > maxTicks+1 {
				t.Errorf("%v: %s", c.length, text)
			}
			continue
		}
		if text != c.want {
			t.Errorf("%v from %v: %s, want %s", c.length, c.from, text, c.want)
		}
	}
}

// TestHeatBorders has the lower bound of each row and the shade of each number of calls.
func TestHeatBorders(t *testing.T) {
	octaves, zero := heatMap{Bounds: []float64{1, 2, 4}}, heatMap{Bounds: []float64{0.001, 2, 4}}
	for row, want := range []float64{0.5, 1, 2, 4} {
		if got := octaves.border(row); got != want {
			t.Errorf("row %d from %v, want %v", row, got, want)
		}
	}
	if zero.border(0) != 0 || zero.border(1) != 0.001 || (heatMap{Bounds: []float64{3}}).border(0) != 1.5 {
		t.Error("the row of the shortest durations")
	}
	for _, c := range [][3]uint64{{1, 1, heatSteps - 1}, {1, 2, 0}, {2, 2, heatSteps - 1}, {1, 1000, 0}, {10, 1000, 2}, {999, 1000, heatSteps - 1}, {1000, 1000, heatSteps - 1}} {
		if got := shade(c[0], c[1]); got != int(c[2]) {
			t.Errorf("%d of %d calls: shade %d, want %d", c[0], c[1], got, c[2])
		}
	}
	times := []time.Time{chartStart, chartStart.Add(time.Minute)}
	for name, c := range map[string]struct {
		h     heatMap
		shown bool
	}{
		"calls":    {heatMap{Times: times, Bounds: []float64{1, 2}, Counts: [][]uint64{{1, 0}, {0, 2}}}, true},
		"no calls": {heatMap{Times: times, Bounds: []float64{1, 2}, Counts: [][]uint64{{0, 0}, {0, 0}}}, false},
		"no times": {heatMap{Bounds: []float64{1, 2}, Counts: [][]uint64{{1, 0}}}, false},
		"no rows":  {heatMap{Times: times, Counts: [][]uint64{{1, 2}}}, false},
	} {
		c.h.End = chartStart.Add(2 * time.Minute)
		html := string(c.h.HTML())
		if shown := strings.Contains(html, "<path class=\"h"); shown != c.shown || strings.Contains(html, "No data in this range") == c.shown {
			t.Errorf("%s: %s", name, html)
		}
	}
	h := heatMap{Times: times, End: chartStart.Add(2 * time.Minute), Bounds: []float64{1, 2, 4, 8, 16}, Counts: [][]uint64{{0, 0, 3}, {0, 0, 0, 1, 0}}}
	fields := h.fields([]float64{0, 500, 1000}, 1, 4)
	if got := fmt.Sprint(fields); got != "[{columns 0 500 1000} {rows 1|2|4|8|16} {calls 1:3 ;2:1 }]" {
		t.Error(got)
	}
	table := h.table(1, 4)
	for _, want := range []string{">≤ 2</th>", ">≤ 16</th>", `<td class="n">3</td>`} {
		if !strings.Contains(table, want) {
			t.Errorf("no %s in %s", want, table)
		}
	}
	if strings.Contains(table, "≤ 1<") || strings.Count(table, "<tr>") != 3 {
		t.Error(table)
	}
}

// TestPageCacheBounds renders a page once per second, and again after an error, beside a full cache, and if it is too large.
func TestPageCacheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pageCache
		rendered := 0
		fill := func(body string, err error) func() ([]byte, error) {
			return func() ([]byte, error) { rendered++; return []byte(body), err }
		}
		page := func(key string, f func() ([]byte, error), want string, renders int) {
			t.Helper()
			body, err := c.page(key, time.Now, f)
			if string(body) != want || (err == nil) != (want != "") || rendered != renders {
				t.Errorf("%s: %.20q (%v), rendered %d times, want %.20q and %d", key, body, err, rendered, want, renders)
			}
		}
		page("a", fill("one", nil), "one", 1)
		page("a", fill("two", nil), "one", 1)
		time.Sleep(cacheFor - 1)
		page("a", fill("two", nil), "one", 1)
		time.Sleep(time.Nanosecond)
		page("a", fill("three", nil), "three", 2)
		page("b", fill("", errors.New("no")), "", 3)
		page("b", fill("four", nil), "four", 4)
		if len(c.entries) != 2 || c.bytes != len("three")+len("four") {
			t.Errorf("%d entries, %d bytes", len(c.entries), c.bytes)
		}
		time.Sleep(cacheFor)
		synctest.Wait()
		if len(c.entries) != 0 || c.bytes != 0 {
			t.Errorf("%d entries, %d bytes after a second", len(c.entries), c.bytes)
		}
		large := strings.Repeat("x", cacheBytes)
		page("l", fill(large, nil), large, 5)
		page("l", fill("", nil), large, 5)
		page("m", fill("x", nil), "x", 6)
		page("m", fill("y", nil), "y", 7)
		if len(c.entries) != 1 || c.bytes != cacheBytes {
			t.Errorf("%d entries, %d bytes", len(c.entries), c.bytes)
		}
		time.Sleep(cacheFor)
		synctest.Wait()
		for i := range cacheEntries + 1 {
			page(fmt.Sprint(i), fill("z", nil), "z", 8+i)
		}
		page("0", fill("y", nil), "z", 8+cacheEntries)
		page(fmt.Sprint(cacheEntries), fill("y", nil), "y", 9+cacheEntries)
		time.Sleep(cacheFor)
	})
}

// TestConfigHandler sets the headers of the file, limits requests, and refuses them while it cannot be read.
func TestConfigHandler(t *testing.T) {
	name := filepath.Join(t.TempDir(), "web.yml")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	ask := func(h http.Handler) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, w.Header().Get("X-Frame-Options")
	}
	write("http_server_config:\n  headers:\n    X-Frame-Options: deny\n")
	h, err := configFile(name).handler(served)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code, header := ask(h); code != http.StatusAccepted || header != "deny" {
			t.Errorf("%d, header %q", code, header)
		}
	}
	write("rate_limit:\n  interval: 1h\n  burst: 2\n")
	limited, err := configFile(name).handler(served)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusAccepted, http.StatusAccepted, http.StatusTooManyRequests} {
		if code, header := ask(limited); code != want || header != "" {
			t.Errorf("request %d: %d, header %q", i, code, header)
		}
	}
	write("nonsense: 1\n")
	if code, _ := ask(h); code != http.StatusInternalServerError {
		t.Errorf("a malformed file: %d", code)
	}
	if _, err := configFile(name).handler(served); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a malformed file: %v", err)
	}
	if _, err := usersOf([]byte("nonsense: 1\n")); err == nil {
		t.Error("users of a malformed file")
	}
	if users, err := usersOf([]byte("basic_auth_users:\n  a: hash\n")); err != nil || users["a"] != "hash" || len(users) != 1 {
		t.Errorf("%v (%v)", users, err)
	}
	if c, err := configFile(name).tls(); err == nil || c != nil {
		t.Errorf("TLS of a malformed file: %v", err)
	}
	if c, err := configFile("").tls(); err != nil || c != nil {
		t.Errorf("TLS without a file: %v", err)
	}
	if err := configFile(name).serve(nil, &http.Server{Handler: served}); err == nil {
		t.Error("a malformed file is served")
	}
	if err := CheckConfig(name, ""); err == nil {
		t.Error("a malformed file passes the check")
	}
	if err := CheckConfig("", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "option web-accounts-file") {
		t.Errorf("no accounts file: %v", err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	write("basic_auth_users:\n  a: " + string(hash) + "\n")
	if err := CheckConfig(name, name); err == nil || !strings.Contains(err.Error(), "excludes") {
		t.Errorf("users in both: %v", err)
	}
	for config, accounts := range map[string]string{filepath.Join(t.TempDir(), "none"): "", "": filepath.Join(t.TempDir(), "none")} {
		if g, err := NewGate(config, accounts, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q and %q: %v", config, accounts, g)
		}
	}
	if g, err := NewGate("", "", slog.New(slog.DiscardHandler)); err != nil || !g.Open() {
		t.Errorf("no files: %v", err)
	}
}

// TestSpanBounds parses ranges at their bounds.
func TestSpanBounds(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, ok := range map[string]bool{
		"": true, "from=now-1s": true, "from=now-999ms": false, "from=now": false, "from=now-366d": true, "from=now-8784h1ns": false, "from=0": false, "from=0&to=1": true,
		"from=-1": false, "from=8589934591&to=8589934592": false, "from=8589934590&to=8589934591": true, "from=NaN": false, "from=now%2B1h": false, "from=now--1h": false,
		"from=now-%2B1h": false, "from=now-2w": true, "from=now-65536d": false, "from=now-1.5d": false, "from=1969-12-31": false, "from=2242-12-30&to=2242-12-31": true,
		"from=2243-01-01&to=2243-01-02": false, "from=2026-02-28&to=2026-03-01+11:00": true, "to=x": false, "from=2026-03-01T11:00&to=2026-03-01T11:00:01.5Z": true,
	} {
		q, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSpan(q, now)
		if (err == nil) != ok {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	at := func(minute float64) time.Time { return now.Add(time.Duration(minute * float64(time.Minute))) }
	whole := spanOf(at(0), at(100))
	for _, c := range []struct {
		from, to         float64
		wantFrom, wantTo float64
		ok               bool
	}{
		{0, 50, 0, 100, false},
		{0, 49, 0, 49, true},
		{-9, 49, 0, 49, true},
		{60, 120, 60, 100, true},
		{70, 70, 0, 100, false},
		{80, 70, 0, 100, false},
		{70, 70.5, 69.5, 70.5, true},
		{0, 0.5, 0, 0.5, true},
		{70, 71, 70, 71, true},
	} {
		s, ok := fitted(whole, at(c.from), at(c.to))
		if ok != c.ok || !s.From.Equal(at(c.wantFrom)) || !s.To.Equal(at(c.wantTo)) {
			t.Errorf("from %v to %v: from %v to %v, %v", c.from, c.to, s.From, s.To, ok)
		}
	}
	for _, by := range []int{-1, 1} {
		if s := whole.shifted(by); !s.From.Equal(at(float64(100*by))) || s.Length() != whole.Length() {
			t.Errorf("shifted by %d: %v", by, s)
		}
	}
	s := span{From: at(0), To: at(1).Add(1)}
	if a := s.absolute(); !a.From.Equal(s.From) || !a.To.Equal(at(1).Add(time.Second)) {
		t.Errorf("in whole seconds: %v", a)
	}
	formats := []string{}
	for _, d := range []time.Duration{10 * time.Minute, 10*time.Minute + 1, 26 * time.Hour, 26*time.Hour + 1, 8 * 24 * time.Hour, 8*24*time.Hour + 1} {
		formats = append(formats, clock(now, d)[len(markStart):len(markStart)+1])
	}
	if got := strings.Join(formats, ""); got != "sttddD" {
		t.Errorf("formats %s", got)
	}
	exact := []string{exactClock(now, 26*time.Hour), exactClock(now, 26*time.Hour+1)}
	if exact[0] != secondTime.mark(now) || exact[1] == exact[0] || slices.Contains(exact, "") {
		t.Errorf("%q", exact)
	}
}
