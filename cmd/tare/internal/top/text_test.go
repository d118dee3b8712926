package top

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// widthOf returns the columns of a text.
func widthOf(text string) (n int) {
	for _, r := range text {
		n += cells(r)
	}
	return n
}

// TestTexts cuts, fits and wraps random texts of narrow and wide characters: nothing is wider than it may be, and nothing is cut that has room.
func TestTexts(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 5000 {
		var b strings.Builder
		for range rnd.IntN(14) {
			b.WriteString([]string{"a", "b", " ", "é", "漢", "→", "語"}[rnd.IntN(7)])
		}
		text, width := b.String(), 1+rnd.IntN(14)
		switch got := cut(text, width); {
		case widthOf(text) <= width && got != text:
			t.Fatalf("%q has room in %d columns, got %q", text, width, got)
		case widthOf(text) > width:
			head, ok := strings.CutSuffix(got, "…")
			next := strings.TrimPrefix(text, head)
			if !ok || next == text && head != "" || widthOf(got) > width || widthOf(head)+cells([]rune(next)[0])+1 <= width {
				t.Fatalf("%q in %d columns is %q", text, width, got)
			}
		}
		if got := fit(text, width); widthOf(got) != width || !strings.HasPrefix(got, cut(text, width)) {
			t.Fatalf("%q fits %d columns as %q", text, width, got)
		}
		lines := wrap(text, max(width, 2))
		if strings.ReplaceAll(strings.Join(lines, ""), " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q is wrapped as %q", text, lines)
		}
		for i, line := range lines {
			if widthOf(line) > max(width, 2) || strings.HasSuffix(line, " ") {
				t.Fatalf("%q in %d columns is wrapped as %q", text, width, lines)
			}
			if word, _, _ := strings.Cut(text, " "); i == 0 && widthOf(word) <= max(width, 2) && !strings.HasPrefix(line, word) {
				t.Fatalf("%q in %d columns breaks a word: %q", text, width, lines)
			}
		}
	}
}

// TestNumbers formats durations and rates at the edges of their forms.
func TestNumbers(t *testing.T) {
	for r, want := range map[rune]int{'a': 1, 0x10ff: 1, 0x1100: 2, 0x200f: 2, 0x2010: 1, 0x27ff: 1, 0x2800: 2, '漢': 2} {
		if cells(r) != want {
			t.Errorf("%U: %d columns", r, cells(r))
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1499 * time.Microsecond: "1ms", 999 * time.Millisecond: "999ms", time.Second: "1s", 1499 * time.Millisecond: "1s", 45 * time.Second: "45s", time.Minute: "1m", 90 * time.Second: "1m30s",
		time.Hour: "1h", time.Hour - time.Second: "59m59s", 90 * time.Minute: "1h30m", time.Hour + 29*time.Second: "1h", time.Hour + 30*time.Second: "1h1m", 10 * time.Hour: "10h", 20 * time.Minute: "20m",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.001: "0.00", 1: "1.00", 999: "999", 999.4: "999", 999.5: "1,000", 1234567: "1,234,567"} {
		if got := rate(v); strings.Map(plainSpace, got) != strings.ReplaceAll(want, ",", " ") && got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for _, tt := range []struct {
		n       uint64
		seconds float64
		want    float64
	}{{10, 4, 2.5}, {10, 0, 0}, {10, -1, 0}, {0, 5, 0}} {
		if got := perSecond(tt.n, tt.seconds); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if duration(0) != "–" || duration(-1) != "–" || duration(1) == "–" || duration(time.Second) != "1 s" && duration(time.Second) != "1.00 s" {
		t.Errorf("%q, %q", duration(1), duration(time.Second))
	}
}

func plainSpace(r rune) rune {
	if r == '\u00a0' || r == '\u202f' || r == '\u2009' {
		return ' '
	}
	return r
}

// TestQuantiles compares quantiles of differences of histograms with those of the sorted calls.
func TestQuantiles(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 2000 {
		var before, after Durations
		var calls []float64
		for us := 1.0; us < 9; us++ {
			earlier, later := float64(rnd.IntN(3)), float64(rnd.IntN(4))
			if earlier > 0 {
				before = append(before, [2]float64{us, earlier})
			}
			if earlier+later > 0 {
				after = append(after, [2]float64{us, earlier + later})
			}
			for range int(later) {
				calls = append(calls, us)
			}
		}
		q := []float64{0, 0.5, 0.99, 1}[rnd.IntN(4)]
		want := time.Duration(0)
		if n := len(calls); n > 0 {
			rank := 1
			for float64(rank) < q*float64(n) {
				rank++
			}
			want = micros(calls[rank-1])
		}
		if got := after.quantile(q, before); got != want {
			t.Fatalf("%v of %v without %v: %v, want %v", q, after, before, got, want)
		}
	}
}

// TestKeys has each key come on each screen.
func TestKeys(t *testing.T) {
	r := &Reading{At: time.Unix(100, 0), Statements: Statements{From: time.Unix(0, 0), To: time.Unix(100, 0), Source: counters}, Sessions: someSessions()}
	for i := range 30 {
		r.Statements.Statements = append(r.Statements.Statements, Row{Key: Key{Digest: fmt.Sprintf("%02d", i)}, Text: strings.Repeat("SELECT ", 400), Counts: Counts{Calls: uint64(100 - i), Seconds: float64(100 - i)}})
	}
	for keys, want := range map[string]string{
		"":             "0 0 0 0 0 0",
		"?":            "2 0 0 0 0 0",
		"? ?":          "0 0 0 0 0 0",
		"? esc":        "0 0 0 0 0 0",
		"? down down":  "2 2 0 0 0 0",
		"? down up":    "2 0 0 0 0 0",
		"? pgdown":     "2 23 0 0 0 0",
		"? pgdown up":  "2 22 0 0 0 0",
		"? pgdown g":   "2 0 0 0 0 0",
		"? p":          "2 0 0 0 0 0 paused",
		"? p p":        "2 0 0 0 0 0 refresh",
		"enter":        "1 0 0 0 0 0",
		"enter j j ?":  "2 0 0 0 0 0",
		"enter j left": "0 1 0 0 0 0",
		"down":         "0 0 1 0 0 0",
		"j j k":        "0 0 1 0 0 0",
		"up":           "0 0 0 0 0 0",
		"end":          "0 0 29 12 0 0",
		"end home":     "0 0 0 0 0 0",
		"pgdown":       "0 0 18 1 0 0",
		"pgdown pgup":  "0 0 0 0 0 0",
		"p":            "0 0 0 0 0 0 paused",
		"p p":          "0 0 0 0 0 0 refresh",
		"n":            "3 0 0 0 0 0",
		"n down":       "3 0 0 0 1 0",
		"n down down":  "3 0 0 0 1 0",
		"n down up":    "3 0 0 0 0 0",
		"n down g":     "3 0 0 0 0 0",
		"n down t":     "3 0 0 0 0 1",
		"n t t":        "3 0 0 0 0 0",
		"n ?":          "2 0 0 0 0 0",
		"n q":          "0 0 0 0 0 0",
		"n p p":        "3 0 0 0 0 0 refresh",
		"n x n":        "3 0 0 0 0 0",
		"n x y":        "3 0 0 0 0 0 kill",
		"n down x y":   "3 0 0 0 1 0",
		"n down X y":   "3 0 0 0 1 0 kill",
		"q":            "0 0 0 0 0 0 quit",
		"enter ctrl+c": "1 0 0 0 0 0 quit",
		"x":            "0 0 0 0 0 0",
		"s":            "0 0 0 0 0 0 refresh",
		"/":            "0 0 0 0 0 0",
		"/ enter":      "0 0 0 0 0 0",
		"/ q esc q":    "0 0 0 0 0 0 quit",
	} {
		m := NewModel(ModelOptions{Host: "h", Window: time.Minute, By: ByLoad})
		var h History
		m.Show(h.Frame(r, time.Minute))
		last := None
		for key := range strings.FieldsSeq(keys) {
			last = m.Key(key)
		}
		transactions := 0
		if m.byTransaction {
			transactions = 1
		}
		got := fmt.Sprint(m.shows, m.scroll, m.cursor, m.first, m.session, transactions)
		got += map[Action]string{Quit: " quit", Refresh: " refresh", KillSession: " kill"}[last]
		if m.Paused() {
			got += " paused"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", keys, got, want)
		}
	}
}

// TestTyping types filters.
func TestTyping(t *testing.T) {
	m := NewModel(ModelOptions{})
	if m.Type("a"); m.typed != "" {
		t.Error("typed outside of a filter")
	}
	m.Key("/")
	m.Type("a\x1b\tb\xffé")
	if m.Key("backspace"); m.typed != "ab" || !m.Typing() {
		t.Errorf("typed %q", m.typed)
	}
	if m.Type(strings.Repeat("x", 300)); len(m.typed) != maxFilter {
		t.Errorf("typed %d bytes", len(m.typed))
	}
	if m.Key("ctrl+u"); m.typed != "" {
		t.Errorf("typed %q", m.typed)
	}
	m.Type("é")
	if m.Key("ctrl+h"); m.typed != "" {
		t.Errorf("typed %q", m.typed)
	}
	m.Key("backspace")
	m.Type("c")
	if m.Key("enter") != Refresh || m.filter != "c" || m.Typing() {
		t.Errorf("the filter is %q", m.filter)
	}
	m.Key("/")
	m.Type("d")
	if m.Key("esc") != None || m.filter != "c" || m.Typing() {
		t.Errorf("the filter is %q", m.filter)
	}
}

// TestWindows chooses longer and shorter windows, also from one that is between two.
func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		from time.Duration
		key  string
		want time.Duration
	}{
		{time.Minute, "+", 5 * time.Minute},
		{time.Minute, "=", 5 * time.Minute},
		{time.Minute, "-", 30 * time.Second},
		{2 * time.Minute, "+", 5 * time.Minute},
		{2 * time.Minute, "-", time.Minute},
		{time.Hour, "+", time.Hour},
		{10 * time.Second, "-", 10 * time.Second},
		{time.Second, "-", 10 * time.Second},
		{time.Second, "+", 10 * time.Second},
		{3 * time.Hour, "+", time.Hour},
		{3 * time.Hour, "-", time.Hour},
	} {
		m := NewModel(ModelOptions{Window: tt.from, By: ByLoad})
		if action := m.Key(tt.key); action != Refresh || m.Window() != tt.want {
			t.Errorf("%+v: %v", tt, m.Window())
		}
	}
	m := NewModel(ModelOptions{By: ByLoad})
	for i := range 2 * len(Measures()) {
		if by, _ := m.Selection(); by != Measures()[i%len(Measures())] {
			t.Errorf("%d: %s", i, by)
		}
		m.Key("s")
	}
	m.Key("S")
	if by, _ := m.Selection(); by != ByRows {
		t.Errorf("before the first: %s", by)
	}
}

// TestPrintedSessions prints sessions by age, each once.
func TestPrintedSessions(t *testing.T) {
	s := &Sessions{
		Sessions:     []Session{{Session: 1, Seconds: 0.9}, {Session: 2, Seconds: 1, Text: "one second"}, {Session: 3, Seconds: 0, Transaction: 5, Text: "five"}},
		Transactions: []Session{{Session: 3, Transaction: 5, Text: "again"}, {Session: 4, Transaction: 0.5, Text: "young"}, {Session: 5, Transaction: 1, Text: "idle"}},
	}
	got := s.plain()
	for text, want := range map[string]int{"Running longer than a second": 1, "one second": 1, "five": 1, "again": 0, "young": 0, "idle": 1, "AGE": 1} {
		if strings.Count(got, text) != want {
			t.Errorf("%q is there %d times:\n%s", text, strings.Count(got, text), got)
		}
	}
	if (&Sessions{Sessions: s.Sessions[:1]}).plain() != "" {
		t.Error("a young session is printed")
	}
	var row Row
	if err := json.Unmarshal([]byte(`{"digest":"d","calls":"x"}`), &row); err == nil {
		t.Error("a row with a wrong count")
	}
}
