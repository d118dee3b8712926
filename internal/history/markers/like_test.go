package markers_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/markers"
)

// TestLikeMarkers merges like markers of one kind within a minute, in whichever order and between those of other kinds.
func TestLikeMarkers(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	deploy := func(from, to time.Duration) markers.Marker {
		return markers.Marker{Kind: markers.KindEvent, Title: "v2", Time: at(from), End: at(to)}
	}
	change := func(m markers.Marker, f func(*markers.Marker)) markers.Marker {
		f(&m)
		return m
	}
	for _, c := range []struct {
		name       string
		add        []markers.Marker
		count      int // of the last one
		from, to   time.Duration
		altogether int
	}{
		{"one", []markers.Marker{deploy(0, 0)}, 0, 0, 0, 1},
		{"two", []markers.Marker{deploy(0, 0), deploy(time.Second, time.Second)}, 2, 0, time.Second, 1},
		{"three", []markers.Marker{deploy(0, 0), deploy(1e9, 2e9), deploy(3e9, 4e9)}, 3, 0, 4e9, 1},
		{"a minute later", []markers.Marker{deploy(0, 0), deploy(time.Minute, time.Minute)}, 2, 0, time.Minute, 1},
		{"more than a minute later", []markers.Marker{deploy(0, 0), deploy(time.Minute+time.Millisecond, time.Minute+time.Millisecond)}, 0, time.Minute + time.Millisecond, time.Minute + time.Millisecond, 2},
		{"a minute earlier", []markers.Marker{deploy(time.Minute, 2*time.Minute), deploy(0, 0)}, 2, 0, 2 * time.Minute, 1},
		{"one of another kind between them", []markers.Marker{deploy(0, 0), {Kind: markers.KindRestart, Title: "v2", Time: at(1e9)}, deploy(2e9, 2e9)}, 2, 0, 2e9, 2},
		{"another one of the kind between them", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.Title = "v3" }), deploy(2e9, 2e9)}, 0, 2e9, 2e9, 3},
		{"another text", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.Text = "x" })}, 0, 1e9, 1e9, 2},
		{"another user", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.User = "x" })}, 0, 1e9, 1e9, 2},
		{"another digest", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.Digest = "x" })}, 0, 1e9, 1e9, 2},
		{"other tables", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.Tables = []string{"x"} })}, 0, 1e9, 1e9, 2},
		{"another link", []markers.Marker{deploy(0, 0), change(deploy(1e9, 1e9), func(m *markers.Marker) { m.Link = "https://x" })}, 0, 1e9, 1e9, 2},
	} {
		s, err := markers.Open(markers.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var last markers.Marker
		for _, m := range c.add {
			last = s.Add(m)
		}
		if last.Count != c.count || !last.Time.Equal(at(c.from)) || !last.End.Equal(at(c.to)) {
			t.Errorf("%s: %d from %v to %v, want %d from %v to %v", c.name, last.Count, last.Time, last.End, c.count, at(c.from), at(c.to))
		}
		if all := s.Between(at(-time.Hour), at(time.Hour), 100); len(all) != c.altogether {
			t.Errorf("%s: %d markers, want %d", c.name, len(all), c.altogether)
		}
	}
}
