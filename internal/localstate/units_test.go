package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A place is a directory with a Store, whose clock is set by the test.
type place struct {
	t   *testing.T
	dir string
	now time.Time
	log strings.Builder
}

func newPlace(t *testing.T) *place {
	return &place{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
}

func (p *place) open() *Store {
	p.log.Reset()
	return Open(p.dir, func() time.Time { return p.now }, slog.New(slog.NewTextHandler(&p.log, nil)))
}

func (p *place) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

func (p *place) write(name, text string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Dir(p.path(name)), 0o700))
	must(p.t, os.WriteFile(p.path(name), []byte(text), 0o600))
}

func (p *place) read(name string) string {
	text, err := os.ReadFile(p.path(name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestRecorded has files that are recorded, replaced, forgotten and missing, also after a restart.
func TestRecorded(t *testing.T) {
	p := newPlace(t)
	s := p.open()
	for _, name := range []string{"a", "ab", "d/1", "d/2", "d/sub/3", "e/4"} {
		p.write(name, name)
	}
	piece := func(name string) File { return File{Piece: Piece{Name: name}} }
	must(t, s.Dir(p.path("d"), piece("d")))
	s.Created(p.path("a"), piece("a"))
	s.Created(p.path("ab"), piece("ab"))
	s.Created(p.path("d/sub/3"), piece("3"))
	s.Replace(p.path("d"), map[string]File{p.path("d/1"): piece("1"), p.path("d/2"): {Piece: Piece{Name: "2"}, Managed: true}})
	check := func(what, dir string, want ...string) {
		t.Helper()
		for _, s := range []*Store{s, p.open()} { // the manifest has it too
			var got []string
			for path, f := range s.Files(p.path(dir)) {
				got = append(got, filepath.Base(path)+"="+f.Name)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %q, want %q", what, dir, got, want)
			}
		}
	}
	check("created", "d", "1=1", "2=2")
	check("created", ".", "a=a", "ab=ab", "d=d")
	s.Replace(p.path("d"), map[string]File{p.path("d/1"): piece("other")})
	check("replaced", "d", "1=other")
	check("not replaced", "d/sub", "3=3")
	was, err := os.Stat(p.path(ManifestName))
	must(t, err)
	s.Replace(p.path("d"), map[string]File{p.path("d/1"): piece("other")})
	s.Created(p.path("a"), piece("a"))
	s.Forget(p.path("none"))
	if is, err := os.Stat(p.path(ManifestName)); err != nil || !os.SameFile(was, is) {
		t.Errorf("the manifest was written without a change: %v", err)
	}
	s.Forget(p.path("a"), p.path("d"))
	check("forgotten", ".", "ab=ab")
	check("forgotten", "d/sub")

	s.Replace(p.path("e"), map[string]File{p.path("e/4"): {Piece: Piece{Name: "4"}, Managed: true}})
	s.Created(p.path("g"), piece("g"))
	s.Created(p.path("g/1"), piece("g1"))
	s.Created(p.path("g2"), piece("g2"))
	must(t, os.RemoveAll(p.path("e")))
	must(t, os.Remove(p.path("ab")))
	s = p.open()
	if got := s.Counts(); !maps.Equal(got, map[string]uint64{"ab": 1, "g": 1, "g2": 1}) {
		t.Errorf("lost %v", got)
	}
	check("missing, managed by its owner", "e", "4=4")
	check("missing", ".")
	if got := s.Losses(); len(got) != 3 || got[0].Path != "g2" || got[2].Path != "ab" || !got[0].Time.Equal(p.now) || got[0].Cause != "the file is missing" || got[0].Aside != "" {
		t.Errorf("losses %+v", got)
	}
	if strings.Contains(p.log.String(), "set_aside_as") || strings.Count(p.log.String(), "local state lost") != 0 {
		t.Errorf("reported again: %s", p.log.String())
	}
	if s := (*Store)(nil); s.Losses() != nil || s.Counts() != nil {
		t.Error("losses without a Store")
	}
}

// TestAsideNames sets files aside whose names are taken, where nothing can be moved to, and that do not exist.
func TestAsideNames(t *testing.T) {
	p := newPlace(t)
	s := p.open()
	cause := errors.New("damaged")
	for i, want := range []string{"c", "c_", "c__"} {
		p.write("c", fmt.Sprint(i))
		got, ok := s.SetAside(p.path("c"), Piece{Name: "c"}, cause)
		if want = p.path("set-aside/20260301T100000.000Z/" + want); !ok || got != want {
			t.Errorf("set aside as %s, want %s", got, want)
		}
	}
	if !strings.Contains(p.log.String(), "set_aside_as="+p.path("set-aside/20260301T100000.000Z/c__")) || s.Counts()["c"] != 3 {
		t.Errorf("reported %v: %s", s.Counts(), p.log.String())
	}
	s = p.open() // another process at the same time
	p.write("d/c", "")
	if got, ok := s.SetAside(p.path("d/c"), Piece{}, cause); !ok || got != p.path("set-aside/20260301T100000.000Z_/d/c") {
		t.Errorf("set aside as %s", got)
	}
	if got, ok := s.SetAside(p.path("none"), Piece{}, cause); ok || got != "" {
		t.Errorf("a file that does not exist: %s", got)
	}
	must(t, os.RemoveAll(p.path(AsideName)))
	p.write(AsideName, "a file")
	for _, want := range []string{"c.set-aside-20260301T100000.000Z", "c.set-aside-20260301T100000.000Z_"} {
		p.write("c", "")
		if got, ok := s.SetAside(p.path("c"), Piece{}, cause); !ok || got != p.path(want) {
			t.Errorf("set aside as %s, want %s", got, want)
		}
	}
	s = p.open()
	if p.read("set-aside-20260301T100000.000Z") != "a file" {
		t.Error("the file in the way was not renamed")
	}
	for i := range maxLosses + 5 {
		s.Report(Loss{Piece: Piece{Name: "x"}, Path: p.path(fmt.Sprint(i))})
	}
	if all := s.Losses(); len(all) != maxLosses || all[0].Path != fmt.Sprint(maxLosses+4) || all[maxLosses-1].Path != "5" || s.Counts()["x"] != maxLosses+5 {
		t.Errorf("%d losses, the newest of %s", len(all), all[0].Path)
	}
	p.now = p.now.Add(lossAge)
	if all := p.open().Losses(); len(all) != maxLosses {
		t.Errorf("%d losses of the last 30 days", len(all))
	}
	p.now = p.now.Add(1)
	if all := p.open().Losses(); len(all) != 0 {
		t.Errorf("%d losses that are older", len(all))
	}
}

// TestManifests opens directories with manifests that cannot be used, and without one.
func TestManifests(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 1, "files": null}`: "", `{"version": 2}`: "version 2: want 1", `{"version": 1, "files": {"../a": {}}}`: "leaves the directory", `{"version": 1, "files": {"/a": {}}}`: "leaves the directory", "{": "unexpected end",
	} {
		p := newPlace(t)
		p.write(ManifestName, text)
		s := p.open()
		all := s.Losses()
		if (len(all) == 0) != (want == "") || want != "" && (!strings.Contains(all[0].Cause, want) || p.read(all[0].Aside) != text) {
			t.Errorf("%s: %+v", text, all)
		}
		s.Created(p.path("a"), File{Piece: manifestPiece})
	}
	for name, want := range map[string]int{"wal": 1, "history": 1, "querylog.seq": 1, "digests.table": 1, "other": 0} {
		p := newPlace(t)
		p.write(name, "")
		if n := len(p.open().Losses()); n != want {
			t.Errorf("only %s: %d losses", name, n)
		}
	}
	p := newPlace(t)
	must(t, os.MkdirAll(p.path(ManifestName+".tmp/full"), 0o700))
	p.open().Created(p.path("a"), File{Piece: manifestPiece})
	if !strings.Contains(p.read(ManifestName), `"a"`) {
		t.Errorf("a directory in the way: %s", p.log.String())
	}
	s := p.open()
	must(t, os.RemoveAll(p.dir))
	if s.Created(p.path("b"), File{Piece: manifestPiece}); !strings.Contains(p.log.String(), "state manifest not written") {
		t.Errorf("without the directory: %s", p.log.String())
	}
}

// TestPaths has directories and files of each kind.
func TestPaths(t *testing.T) {
	p := newPlace(t)
	s := p.open()
	p.write("file", "")
	must(t, os.Mkdir(p.path("dir"), 0o700))
	must(t, os.Symlink(p.path("none"), p.path("dangling")))
	must(t, os.Symlink(p.path("file"), p.path("link")))
	must(t, os.Symlink(p.path("dir"), p.path("dirlink")))
	for name, want := range map[string]bool{"file": true, "link": true, "none": true, "dir": false, "dirlink": false, "dangling": false} {
		if IsFile(p.path(name)) != want {
			t.Errorf("%s can be a file: %t", name, !want)
		}
	}
	for name, lost := range map[string]int{"dir": 0, "dirlink": 0, "new": 0, "file": 1, "dangling": 1} {
		before := len(s.Losses())
		if err := s.Dir(p.path(name), File{Piece: Piece{Name: "d"}}); err != nil || !isDir(p.path(name)) || len(s.Losses())-before != lost {
			t.Errorf("%s: %v, %d losses", name, err, len(s.Losses())-before)
		}
	}
	if len(s.Files(p.dir)) != 5 {
		t.Errorf("recorded: %v", s.Files(p.dir))
	}
	p.write("x", "")
	if err := s.Dir(p.path("x/sub"), File{}); err == nil {
		t.Error("a directory below a file")
	}
	for path, want := range map[string]string{p.path("a/b"): "a/b", p.dir: ".", "/other": "/other", filepath.Dir(p.dir): filepath.Dir(p.dir)} {
		if got := s.name(path); got != want {
			t.Errorf("%s is named %s, want %s", path, got, want)
		}
	}
}

// TestShadowFails has directories of which no links can be made: files are moved as a whole then.
func TestShadowFails(t *testing.T) {
	p := newPlace(t)
	s := p.open()
	if h, err := s.Shadow(p.path("none")); err != nil || len(h.names) != 0 {
		t.Errorf("of no directory: %v", err)
	}
	p.write("wal/1", "1")
	p.write(AsideName, "a file")
	h, err := s.Shadow(p.path("wal"))
	if err == nil || h.to != "" {
		t.Errorf("links below a file: %q, %v", h.to, err)
	}
	h.Keep(Piece{Name: "w"}, "repaired")
	if all := s.Losses(); len(all) != 1 || all[0].Aside != "" || all[0].Cause != "repaired" {
		t.Errorf("losses %+v", all)
	}
	must(t, h.Replace(Piece{Name: "w"}, errors.New("damaged")))
	if all := s.Losses(); len(all) != 2 || p.read(all[0].Aside+"/1") != "1" {
		t.Errorf("losses %+v", all)
	}
	if _, err := os.Lstat(p.path("wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	if err := h.Replace(Piece{Name: "w"}, errors.New("damaged")); err == nil || !strings.Contains(err.Error(), "set aside "+p.path("wal")) {
		t.Errorf("replaced again: %v", err)
	}
}

// TestWithdraw withdraws one of several equal reports, and one of others.
func TestWithdraw(t *testing.T) {
	p := newPlace(t)
	s := p.open()
	equal := Loss{Piece: Piece{Name: "w"}, Path: "wal", Cause: "damaged"}
	for _, l := range []Loss{equal, {Piece: Piece{Name: "other"}, Path: "wal"}, equal, {Piece: Piece{Name: "w"}, Path: "head"}, {Piece: Piece{Name: "w"}, Path: "wal", Aside: "set-aside/x/wal"}} {
		s.Report(l)
	}
	for n, want := range []map[string]uint64{{"w": 3, "other": 1}, {"w": 2, "other": 1}} {
		if s.withdraw(equal); len(s.Losses()) != 4-n || !maps.Equal(s.Counts(), want) {
			t.Errorf("withdrawn %d: %d losses, %v", n+1, len(s.Losses()), s.Counts())
		}
	}
	if all := s.Losses(); all[0].Aside == "" || all[1].Path != "head" || all[2].Name != "other" {
		t.Errorf("left: %+v", all)
	}
}
