package top

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a screen and a simulated gateway.
type script struct {
	model   *Model
	history History
	began   time.Time
	at      time.Time
	buckets map[Key]map[float64]float64 // calls by duration, since began
}

// TestScreens runs the transcripts of testdata: frames and keys in, the screen out.
//
//	reading at=<duration since the counters began> [live=<statements/s>]
//	digest[[×times]@changed since] schema user calls errors rows seconds us text…
//
// Each call since the reading before took us microseconds.
//
//	----
//	key <names…> · type <text> · resize <columns> <rows> · fail <text> · again at=…
func TestScreens(t *testing.T) {
	local := time.Local //nolint:gosmopolitan // the screen has the user's time
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		s.model = NewModel(ModelOptions{Host: "db1:8316", Every: 2 * time.Second, Window: time.Minute, By: ByLoad})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var said []string
	switch d.Cmd {
	case "reading":
		s.read(t, d)
	case "key":
		for _, a := range d.CmdArgs {
			name := map[string]string{"space": " "}[a.Key]
			if name == "" {
				name = a.Key
			}
			if action := s.model.Key(name); action != None {
				said = append(said, map[Action]string{Quit: "quit", Refresh: "refresh"}[action])
			}
		}
	case "type":
		s.model.Type(d.Input)
	case "resize":
		width, height := number(t, d.CmdArgs[0].Key), number(t, d.CmdArgs[1].Key)
		s.model.Resize(width, height)
	case "fail":
		s.model.Fail(errors.New(d.Input))
	case "asked":
		by, filter := s.model.Selection()
		return fmt.Sprintf("by %s, filter %q, window %v, paused %v\n", by, filter, s.model.Window(), s.model.Paused())
	default:
		d.Fatalf(t, "no command %s", d.Cmd)
	}
	return s.screen(t, said)
}

// screen returns the screen with its right border, so that overlong lines are visible.
func (s *script) screen(t *testing.T, said []string) string {
	t.Helper()
	lines := strings.Split(s.model.View(), "\n")
	if len(lines) > s.model.height {
		t.Errorf("%d lines on a screen of %d", len(lines), s.model.height)
	}
	var b strings.Builder
	if len(said) > 0 {
		fmt.Fprintf(&b, "(%s)\n", strings.Join(said, ", "))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > s.model.width {
			t.Errorf("a line of %d columns on a screen of %d: %q", n, s.model.width, line)
		}
		b.WriteString("|" + strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (s *script) read(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	var after, source string
	d.ScanArgs(t, "at", &after)
	live := 100.0
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "live":
			live = float64(number(t, a.Vals[0]))
		case "source":
			source = a.Vals[0]
		case "began": // the counters were reset
			age, err := time.ParseDuration(a.Vals[0])
			if err != nil {
				d.Fatalf(t, "began: %v", err)
			}
			s.began, s.buckets = s.began.Add(age), nil
		}
	}
	age, err := time.ParseDuration(after)
	if err != nil {
		d.Fatalf(t, "at: %v", err)
	}
	s.at = s.began.Add(age)
	r := &Reading{
		At:   s.at,
		Live: Live{Seconds: 10, Statements: uint64(live * 10), PerSecond: live, Errors: 5, P50: 800, P99: 12_500, P999: 80_000, Connections: 7},
		Statements: Statements{
			From: s.began, To: s.at, Source: map[string]string{"": "counters"}[source] + source,
		},
	}
	for line := range strings.Lines(d.Input) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), " ", 9)
		if len(f) < 9 {
			d.Fatalf(t, "row %q", line)
		}
		seconds, err := strconv.ParseFloat(f[6], 64)
		if err != nil {
			d.Fatalf(t, "seconds: %v", err)
		}
		text, err := strconv.Unquote(f[8])
		if err != nil {
			text = f[8]
		}
		row := Row{Key: Key{Digest: f[0], Schema: f[1], User: f[2]}, Text: text, First: s.began, Last: s.at}
		if kind, since, ok := strings.Cut(f[0], "@"); ok { // for example bbbb×6.2@30s
			digest, times, _ := strings.Cut(kind, "×")
			age, err := time.ParseDuration(since)
			if err != nil {
				d.Fatalf(t, "since: %v", err)
			}
			row.Digest, row.Change = digest, &Change{Kind: "new", Since: s.began.Add(age)}
			if times != "" {
				row.Change.Kind = "heavier"
				if row.Change.Times, err = strconv.ParseFloat(times, 64); err != nil {
					d.Fatalf(t, "times: %v", err)
				}
			}
		}
		row.Counts.Calls, row.Counts.Errors, row.Counts.Counts[stmtstats.RowsSent] = uint64(number(t, f[3])), uint64(number(t, f[4])), uint64(number(t, f[5]))
		row.Counts.Seconds, row.Counts.P99, row.Counts.P50 = seconds, micros(float64(number(t, f[7]))), micros(500)
		if strings.HasPrefix(f[0], "new") {
			row.First = s.at
		}
		row.Durations = s.durations(&row)
		r.Statements.Statements = append(r.Statements.Statements, row)
	}
	r.Statements.Matching = len(r.Statements.Statements) + 3
	s.model.Show(s.history.Frame(r, s.model.Window()))
}

// durations returns the histogram of a row, all of whose new calls took as long as its p99.
func (s *script) durations(row *Row) (d Durations) {
	if s.buckets == nil {
		s.buckets = make(map[Key]map[float64]float64)
	}
	of := s.buckets[row.Key]
	if of == nil {
		of = make(map[float64]float64)
		s.buckets[row.Key] = of
	}
	before := 0.0
	for _, calls := range of {
		before += calls
	}
	of[float64(row.Counts.P99.Microseconds())] += float64(row.Counts.Calls) - before
	for us, calls := range of {
		if calls > 0 {
			d = append(d, [2]float64{us, calls})
		}
	}
	slices.SortFunc(d, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	return d
}

// TestWindowQuantile compares quantiles of the difference of two histograms with those of the calls in between.
func TestWindowQuantile(t *testing.T) {
	rng := testseed.Rand(t)
	for range 200 {
		var before, after, between stmtstats.Histogram
		for range rng.IntN(300) {
			d := time.Duration(rng.Int64N(1 << (1 + rng.IntN(40))))
			before.Record(d)
			after.Record(d)
		}
		for range rng.IntN(300) {
			d := time.Duration(rng.Int64N(1 << (1 + rng.IntN(40))))
			between.Record(d)
			after.Record(d)
		}
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			if got, want := durationsOf(&after).quantile(q, durationsOf(&before)), between.Quantile(q); got != want {
				t.Fatalf("the %v-quantile of %d calls after %d is %v, want %v", q, between.Count(), before.Count(), got, want)
			}
		}
	}
}

func durationsOf(h *stmtstats.Histogram) (d Durations) {
	for _, b := range h.NonEmpty() {
		d = append(d, [2]float64{float64(b.Duration) / 1e3, float64(b.Count)})
	}
	return d
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FuzzModel presses keys on screens of all sizes: no panic, and nothing outside of the screen.
func FuzzModel(f *testing.F) {
	f.Add([]byte("jjGk/abc\r?q"), uint8(80), uint8(24), uint8(30), "SELECT 1")
	f.Add([]byte("\x1bssrr+-  p\r"), uint8(1), uint8(1), uint8(0), "\x1b[2J")
	f.Add([]byte("\r???"), uint8(200), uint8(3), uint8(2), strings.Repeat("長", 500))
	names := map[byte]string{'\r': "enter", 0x1b: "esc", 8: "backspace", 1: "home", 5: "end", 2: "pgup", 6: "pgdown", 21: "ctrl+u", 14: "down", 16: "up"}
	f.Fuzz(func(t *testing.T, keys []byte, width, height, rows uint8, text string) {
		defer alloctest.Bounded(t, 256<<20)()
		m := NewModel(ModelOptions{Host: "h", Every: time.Second, Window: time.Minute, By: ByLoad})
		var h History
		began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for turn, k := range keys {
			switch {
			case m.Typing() && k >= ' ':
				m.Type(string(rune(k)))
			case names[k] != "":
				m.Key(names[k])
			default:
				m.Key(string(rune(k)))
			}
			if turn%3 == 0 {
				r := &Reading{At: began.Add(time.Duration(turn) * time.Second), Statements: Statements{From: began, Source: "counters"}}
				for i := range int(rows) {
					row := Row{Key: Key{Digest: fmt.Sprint("d", (i+turn)%251)}, Text: text}
					row.Counts.Calls, row.Counts.Seconds = uint64(turn*(i%7)), float64(turn)
					r.Statements.Statements = append(r.Statements.Statements, row)
				}
				m.Show(h.Frame(r, m.Window()))
			}
			m.Resize(int(width), int(height))
			lines := strings.Split(m.View(), "\n")
			if len(lines) > max(1, int(height)) {
				t.Fatalf("%d lines on a screen of %d", len(lines), height)
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) > max(1, int(width)) || strings.ContainsAny(line, "\x1b\x07\r\t") {
					t.Fatalf("line %q on a screen of %d columns", line, width)
				}
			}
		}
	})
}
