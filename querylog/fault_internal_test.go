package querylog

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// TestTornFile truncates a batch in a file, as a full disk does, and checks that no partial line remains.
func TestTornFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.log")
	o, err := openFile(path, defaultFileMode, Rotation{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = o.close() }()
	if _, err := o.write([]byte("one\ntwo\n")); err != nil {
		t.Fatal(err)
	}
	// The effect of a write that stops after "three\nfo":
	if _, err := o.f.WriteString("three\nfo"); err != nil {
		t.Fatal(err)
	}
	n, err := o.truncateTorn([]byte("three\nfour\n"), 8, io.ErrShortWrite)
	if n != len("three\n") || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %d, %v", n, err)
	}
	if b, _ := os.ReadFile(path); string(b) != "one\ntwo\nthree\n" {
		t.Errorf("the file holds %q", b)
	}
}
