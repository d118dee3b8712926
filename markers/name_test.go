package markers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
