package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStore runs several processes on a directory: a created file that is missing is reported once, a
// directory instead of its files, and files removed on purpose are not.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	open := func() *Store {
		return Open(dir, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	}
	path := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	write := func(s *Store, name string) {
		must(t, os.WriteFile(path(name), []byte(name), 0o600))
		s.Created(path(name), File{Piece: Piece{Name: name}})
	}
	s := open()
	must(t, s.Dir(path("d"), File{Piece: Piece{Name: "d"}}))
	for _, name := range []string{"a", "b", "c", "d/1", "d/2"} {
		write(s, name)
	}
	if s = open(); len(s.Losses()) != 0 {
		t.Fatalf("nothing is lost: %+v", s.Losses())
	}
	s.Forget(path("a"))
	must(t, os.Remove(path("a")))
	must(t, os.Remove(path("b")))
	must(t, os.RemoveAll(path("d")))
	s = open()
	if c := s.Counts(); len(c) != 2 || c["b"] != 1 || c["d"] != 1 {
		t.Errorf("lost: %v, want b and d", c)
	}
	aside, ok := s.SetAside(path("c"), Piece{Name: "c"}, errors.New("it is damaged"))
	if text, err := os.ReadFile(aside); !ok || err != nil || string(text) != "c" || aside != path("set-aside/20260301T100000.000Z/c") {
		t.Errorf("set aside as %s (%t): %q, %v", aside, ok, text, err)
	}
	now = now.Add(time.Hour)
	if s = open(); len(s.Counts()) != 0 || len(s.Losses()) != 3 || s.Losses()[0].Name != "c" {
		t.Errorf("the next process lost %v and lists %+v", s.Counts(), s.Losses())
	}
	for i := range maxAside + 3 {
		now = now.Add(time.Minute)
		s = open()
		write(s, "c")
		if _, ok := s.SetAside(path("c"), Piece{Name: "c"}, fmt.Errorf("start %d", i)); !ok {
			t.Fatal("not set aside")
		}
	}
	if kept, err := os.ReadDir(path(AsideName)); err != nil || len(kept) != maxAside {
		t.Errorf("%d directories are kept (%v), want %d", len(kept), err, maxAside)
	}
	now = now.Add(lossAge + time.Hour)
	if s = open(); len(s.Losses()) != 0 {
		t.Errorf("%d losses are listed for ever", len(s.Losses()))
	}
	write(s, "c")
	must(t, os.WriteFile(path(ManifestName), []byte("{"), 0o600))
	if s = open(); s.Counts()[manifestPiece.Name] != 1 {
		t.Errorf("a damaged manifest: %v", s.Counts())
	}
}

// TestShadow keeps exactly the files that a repair has removed.
func TestShadow(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, nil, slog.New(slog.DiscardHandler))
	wal := filepath.Join(dir, "wal")
	must(t, os.Mkdir(wal, 0o700))
	for _, name := range []string{"1", "2"} {
		must(t, os.WriteFile(filepath.Join(wal, name), []byte(name), 0o600))
	}
	for _, damaged := range []bool{false, true} {
		h, err := s.Shadow(wal)
		must(t, err)
		if !damaged {
			h.Discard()
			continue
		}
		must(t, os.Remove(filepath.Join(wal, "2")))
		h.Keep(Piece{Name: "wal"}, "damaged")
	}
	kept, err := filepath.Glob(filepath.Join(dir, AsideName, "*", "wal", "*"))
	if err != nil || len(kept) != 1 || filepath.Base(kept[0]) != "2" {
		t.Errorf("kept: %v (%v), want 2", kept, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, AsideName, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestUndo puts files back that a repair has removed, that were set aside as a whole, or both, with and without links, and
// withdraws the reports.
func TestUndo(t *testing.T) {
	files := map[string]string{"wal/1": "1", "wal/2": "2", "wal/checkpoint/1": "3"}
	write := func(t *testing.T, dir, name, text string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	replaceFile := func(t *testing.T, dir, name, text string) {
		must(t, os.Remove(filepath.Join(dir, name)))
		write(t, dir, name, text)
	}
	piece := Piece{Name: "wal"}
	for _, test := range []struct {
		name   string
		change func(t *testing.T, dir string, h *Shadow)
		both   bool // with and without links
		losses int  // reported before Undo
	}{
		{"nothing", func(*testing.T, string, *Shadow) {}, true, 0},
		{"removed by a repair", func(t *testing.T, dir string, _ *Shadow) {
			must(t, os.RemoveAll(filepath.Join(dir, "wal/checkpoint")))
			replaceFile(t, dir, "wal/2", "repaired")
			write(t, dir, "wal/3", "new")
			write(t, dir, "wal/new/1", "new")
		}, false, 0},
		{"all removed", func(t *testing.T, dir string, _ *Shadow) { must(t, os.RemoveAll(filepath.Join(dir, "wal"))) }, false, 0},
		{"kept", func(t *testing.T, dir string, h *Shadow) {
			replaceFile(t, dir, "wal/2", "repaired")
			write(t, dir, "wal/3", "new")
			h.Keep(piece, "damaged")
		}, false, 1},
		{"replaced", func(t *testing.T, dir string, h *Shadow) {
			must(t, h.Replace(piece, errors.New("damaged")))
			write(t, dir, "wal/0", "new")
		}, true, 1},
		{"replaced and not created again", func(t *testing.T, dir string, h *Shadow) { must(t, h.Replace(piece, errors.New("damaged"))) }, true, 1},
		{"kept, then replaced twice", func(t *testing.T, dir string, h *Shadow) {
			replaceFile(t, dir, "wal/1", "repaired")
			h.Keep(piece, "damaged")
			for range 2 {
				must(t, h.Replace(piece, errors.New("damaged")))
				write(t, dir, "wal/0", "new")
			}
		}, false, 3},
	} {
		for _, links := range []bool{true, false} {
			if !links && !test.both {
				continue
			}
			t.Run(fmt.Sprintf("%s, links %t", test.name, links), func(t *testing.T) {
				dir := t.TempDir()
				s := Open(dir, nil, slog.New(slog.DiscardHandler))
				for name, text := range files {
					write(t, dir, name, text)
				}
				s.Report(Loss{Piece: piece, Path: "wal", Cause: "of an earlier start"})
				if !links {
					write(t, dir, AsideName, "not a directory")
				}
				h, err := s.Shadow(filepath.Join(dir, "wal"))
				if (err == nil) != links {
					t.Fatalf("links: %v", err)
				}
				test.change(t, dir, h)
				if n := len(s.Losses()) - 1; n != test.losses {
					t.Errorf("%d losses are reported, want %d", n, test.losses)
				}
				must(t, h.Undo())
				if l := s.Losses(); len(l) != 1 || l[0].Cause != "of an earlier start" || s.Counts()["wal"] != 1 {
					t.Errorf("still reported: %+v, %v", l, s.Counts())
				}
				got := make(map[string]string)
				must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
					if err != nil || e.IsDir() {
						return err
					}
					text, err := os.ReadFile(path)
					name, _ := filepath.Rel(dir, path)
					got[name] = string(text)
					return err
				}))
				delete(got, ManifestName)
				delete(got, AsideName)
				if !maps.Equal(got, files) {
					t.Errorf("files: %v, want %v", got, files)
				}
				if left, err := os.ReadDir(filepath.Join(dir, AsideName)); links && (err != nil || len(left) > 0) {
					t.Errorf("left in set-aside: %v, %v", left, err)
				}
			})
		}
	}
}

// TestUndoEmpty undoes the replacement of an empty directory.
func TestUndoEmpty(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, nil, slog.New(slog.DiscardHandler))
	must(t, s.Dir(filepath.Join(dir, "wal"), File{}))
	h, err := s.Shadow(filepath.Join(dir, "wal"))
	must(t, err)
	must(t, h.Replace(Piece{Name: "wal"}, errors.New("damaged")))
	must(t, h.Undo())
	if len(s.Losses()) > 0 || len(s.Counts()) > 0 {
		t.Errorf("still reported: %+v, %v", s.Losses(), s.Counts())
	}
}

// TestUndoImpossible returns an error if set-aside files cannot be put back, and leaves their report.
func TestUndoImpossible(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, nil, slog.New(slog.DiscardHandler))
	wal := filepath.Join(dir, "wal")
	must(t, os.Mkdir(wal, 0o700))
	must(t, os.WriteFile(filepath.Join(wal, "1"), nil, 0o600))
	h, err := s.Shadow(wal)
	must(t, err)
	must(t, h.Replace(Piece{Name: "wal"}, errors.New("damaged")))
	must(t, os.RemoveAll(filepath.Join(dir, AsideName)))
	if err := h.Undo(); err == nil || len(s.Losses()) != 1 {
		t.Errorf("%v, reported: %+v", err, s.Losses())
	}
}

// TestAsideOfLinks keeps the links of Shadows when the oldest directories in set-aside are removed.
func TestAsideOfLinks(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, nil, slog.New(slog.DiscardHandler))
	for i := range maxAside + 2 {
		must(t, os.MkdirAll(filepath.Join(dir, AsideName, fmt.Sprintf("2026010%02dT000000.000Z", i)), 0o700))
	}
	for _, name := range []string{"head", "wal"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, "1"), nil, 0o600))
	}
	wal, err := s.Shadow(filepath.Join(dir, "wal"))
	must(t, err)
	head, err := s.Shadow(filepath.Join(dir, "head"))
	must(t, err)
	must(t, head.Replace(Piece{Name: "head"}, errors.New("damaged")))
	must(t, wal.Replace(Piece{Name: "wal"}, errors.New("damaged")))
	for _, l := range s.Losses() {
		if _, err := os.Stat(filepath.Join(dir, l.Aside, "1")); err != nil {
			t.Errorf("%s is not kept: %v", l.Name, err)
		}
	}
	if kept, err := os.ReadDir(filepath.Join(dir, AsideName)); err != nil || len(kept) != maxAside {
		t.Errorf("%d directories are kept (%v), want %d", len(kept), err, maxAside)
	}
}
