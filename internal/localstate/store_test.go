package localstate

import (
	"errors"
	"fmt"
	"log/slog"
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
