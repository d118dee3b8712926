package markers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// TestName has the line of each kind of marker with and without a text.
func TestName(t *testing.T) {
	for _, c := range []struct {
		m    Marker
		want string
	}{
		{Marker{Kind: KindDDL, Title: "Schema change", Text: "drop table t"}, "drop table t"},
		{Marker{Kind: KindAnalyze, Title: "Statistics", Text: "analyze table t", TextCut: true}, "analyze table t …"},
		{Marker{Kind: KindLock, Title: "Lock", Text: "t: select"}, "t: select"},
		{Marker{Kind: KindDDL, Title: "Schema change"}, "Schema change"},
		{Marker{Kind: "deploy", Title: "release", Text: "details"}, "release"},
		{Marker{Kind: "deploy", Title: "release", TextCut: true}, "release"},
	} {
		if got := c.m.Name(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.m, got, c.want)
		}
		textless := c.m.Textless()
		if got := textless.Name(); got != c.m.Title {
			t.Errorf("%+v without texts: %q, want %q", c.m, got, c.m.Title)
		}
	}
}

// TestRewriteFails has the file not rewritten when it has grown: the loss is reported once, and markers are kept in memory.
func TestRewriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events", "events.log")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	o := Options{Path: path, State: localstate.Open(dir, nil, discard()), Bytes: 4096}
	s := open(t, o)
	s.Add(Marker{Kind: "deploy", Title: "first", Time: noon})
	must(t, os.RemoveAll(filepath.Dir(path)))
	for i := range 200 {
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprintf("release %d", i), Time: noon})
	}
	if n := o.State.Counts()[FilePiece.Name]; n != 1 {
		t.Errorf("%d losses are reported, want 1", n)
	}
	if got := s.Between(noon, noon, 1000); len(got) == 0 || got[len(got)-1].Title != "release 199" {
		t.Errorf("in memory: %+v", got)
	}
}

// TestParse has files with as many markers as the header says, fewer and more, and lines that are cut.
func TestParse(t *testing.T) {
	file := func(version, said int, ids ...uint64) string {
		text, err := appendLine(nil, header{Version: version, Markers: said})
		must(t, err)
		for _, id := range ids {
			text, err = appendLine(text, &Marker{ID: id, Time: noon, End: noon, Kind: KindDDL, Title: fmt.Sprint("title ", len(text))})
			must(t, err)
		}
		return string(text)
	}
	for _, c := range []struct {
		name, text string
		want       int // -1: an error
	}{
		{"none", file(1, 0), 0},
		{"as many", file(1, 2, 1, 2), 2},
		{"more", file(1, 1, 1, 2), 2},
		{"fewer", file(1, 2, 1), -1},
		{"one twice", file(1, 2, 1, 1), 1},
		{"another version", file(2, 0), -1},
		{"no version", file(0, 0), -1},
		{"no header", "", -1},
		{"a header that is cut", file(1, 0)[:20], -1},
		{"a header without its line break", file(1, 0)[:len(file(1, 0))-1], -1},
		{"a line that is cut", file(1, 1, 1, 2)[:len(file(1, 1, 1, 2))-5], 1},
		{"a line that is cut among those of the header", file(1, 2, 1, 2)[:len(file(1, 2, 1, 2))-5], -1},
		{"an empty line", file(1, 1, 1) + "\n", -1},
		{"another line", file(1, 1, 1) + "x y\n", -1},
	} {
		all, err := parse([]byte(c.text))
		if (err == nil) != (c.want >= 0) || err == nil && len(all) != c.want {
			t.Errorf("%s: %d markers, %v, want %d", c.name, len(all), err, c.want)
		}
	}
	all, err := parse([]byte(file(1, 2, 7, 8, 7)))
	if first, second := file(1, 2, 7), file(1, 2, 7, 8); err != nil || len(all) != 2 || all[0].ID != 7 || all[0].Title != fmt.Sprint("title ", len(second)) || all[1].Title != fmt.Sprint("title ", len(first)) {
		t.Errorf("a marker that was written again: %+v, %v", all, err)
	}
}

// TestBetweenOrder has markers in the order of their times, whatever the order in which they were reported; without a clock of the
// options that of the process counts.
func TestBetweenOrder(t *testing.T) {
	s, err := Open(Options{Log: discard()})
	must(t, err)
	for _, minutes := range []time.Duration{5, 1, 3} {
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprint(int(minutes)), Time: noon.Add(minutes * time.Minute)})
	}
	var text strings.Builder
	for _, m := range s.Between(noon, noon.Add(time.Hour), 10) {
		text.WriteString(m.Title)
	}
	if text.String() != "135" {
		t.Errorf("order: %s", text.String())
	}
	before := time.Now()
	if m := s.Add(Marker{Kind: "deploy", Title: "now"}); m.Time.Before(before.Truncate(time.Millisecond)) || m.Time.After(time.Now()) {
		t.Errorf("at %v", m.Time)
	}
	must(t, s.Close())
}

// TestFileUnreadable has the file not read at the start: it is set aside with the reason.
func TestFileUnreadable(t *testing.T) {
	for name, text := range map[string]string{"header: no checksum": "\n", "more than 25165824 bytes": strings.Repeat("x", maxFile+1)} {
		dir := t.TempDir()
		o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard()), Bytes: 4096}
		must(t, os.WriteFile(o.Path, []byte(text), 0o600))
		s := open(t, o)
		s.Add(Marker{Kind: "deploy", Title: "release", Time: noon})
		must(t, s.Close())
		if lost := o.State.Losses(); len(lost) != 1 || lost[0].Cause != name || lost[0].Aside == "" {
			t.Errorf("%s: %+v", name, lost)
		}
		if got := open(t, o).Between(noon, noon, 10); len(got) != 1 {
			t.Errorf("%s: %d markers of the new file", name, len(got))
		}
	}
}
