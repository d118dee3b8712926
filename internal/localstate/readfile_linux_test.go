package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// specialFiles creates a directory with a file of each kind.
func specialFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := errors.Join(
		os.WriteFile(at("file"), []byte("text"), 0o600), os.WriteFile(at("empty"), nil, 0o600), os.WriteFile(at("large"), nil, 0o600),
		os.Truncate(at("large"), MaxFile+1), syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("to pipe")),
		os.Symlink("/dev/zero", at("device")), os.Symlink("file", at("to file")), os.Mkdir(at("dir"), 0o700), os.Symlink("nothing", at("dangling")),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadFile reads a file of each kind: none blocks, and regular files alone are read.
func TestReadFile(t *testing.T) {
	dir := specialFiles(t)
	for _, c := range []struct{ name, want string }{{"file", "text"}, {"to file", "text"}, {"empty", ""}} {
		for how, read := range map[string]func(string) ([]byte, error){"ReadFile": ReadFile, "ReadInput": ReadInput} {
			if text, err := read(filepath.Join(dir, c.name)); string(text) != c.want || err != nil {
				t.Errorf("%s of %s: %q, %v, want %q", how, c.name, text, err, c.want)
			}
		}
	}
	for _, c := range []struct {
		name string
		want error // nil: any
	}{
		{"pipe", ErrNotFile},
		{"to pipe", ErrNotFile},
		{"device", ErrNotFile},
		{"socket", ErrNotFile},
		{"dir", syscall.EISDIR},
		{"missing", fs.ErrNotExist},
		{"dangling", fs.ErrNotExist},
		{"large", nil},
	} {
		done := make(chan [2]error, 1)
		go func() {
			_, file := ReadFile(filepath.Join(dir, c.name))
			_, input := ReadInput(filepath.Join(dir, c.name))
			done <- [2]error{file, input}
		}()
		errs := testwait.Receive(t, "the reads of "+c.name, done)
		if errs[0] == nil || errs[1] == nil || c.want != nil && !errors.Is(errs[0], c.want) {
			t.Errorf("%s: %v; %v, want %v", c.name, errs[0], errs[1], c.want)
		}
	}
}

// TestReadPipe reads a pipe to its end, as that of a process substitution, and again when it is empty.
func TestReadPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if text, err := ReadFile(path); !errors.Is(err, ErrNotFile) {
		t.Errorf("ReadFile: %q, %v, want an error", text, err)
	}
	if text, err := ReadInput(path); string(text) != "text" || err != nil {
		t.Errorf("ReadInput: %q, %v", text, err)
	}
	if text, err := ReadInput(path); err == nil {
		t.Errorf("ReadInput of an empty pipe: %q, want an error", text)
	}
}

// TestAreFiles checks paths of each kind.
func TestAreFiles(t *testing.T) {
	dir := specialFiles(t)
	if err := AreFiles("", filepath.Join(dir, "file"), filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"pipe", "to pipe", "device", "socket", "dir"} {
		if err := AreFiles("", filepath.Join(dir, name)); !errors.Is(err, ErrNotFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSetAsideUnreadable sets aside files of a directory that are none or too large, at any depth, and reports each.
func TestSetAsideUnreadable(t *testing.T) {
	root := t.TempDir()
	s := Open(root, nil, slog.New(slog.DiscardHandler))
	wal := filepath.Join(root, "wal")
	if err := os.Rename(specialFiles(t), wal); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(wal, "a"), 0o700), syscall.Mkfifo(filepath.Join(wal, "a", "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	most := func(path string) int64 {
		switch filepath.Base(path) {
		case "large":
			return MaxFile
		case "file":
			return int64(len("text"))
		}
		return 0
	}
	for _, dir := range []string{"wal", "missing"} {
		s.SetAsideUnreadable(filepath.Join(root, dir), Piece{Name: "unreadable"}, most)
	}
	for name, stays := range map[string]bool{
		"file": true, "to file": true, "empty": true, "large": false, "dir": true, "dangling": true, "a": true, "to pipe": true,
		"pipe": false, "device": false, "socket": false, "a/pipe": false,
	} {
		if _, err := os.Lstat(filepath.Join(wal, name)); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", name, err, stays)
		}
	}
	if n := s.Counts()["unreadable"]; n != 5 {
		t.Errorf("%d losses, want 5", n)
	}
}
