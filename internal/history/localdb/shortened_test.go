package localdb

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/localstate"
)

// TestShortened compares segments and checkpoints of the log with those that an earlier process has recorded.
func TestShortened(t *testing.T) {
	write := func(t *testing.T, dir, name string, bytes int) {
		path := filepath.Join(dir, WALName, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, dir, name string) {
		if err := os.RemoveAll(filepath.Join(dir, WALName, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{"unchanged", func(*testing.T, string) {}, ""},
		{"longer", func(t *testing.T, dir string) { write(t, dir, "00000004", 11) }, ""},
		{"shorter", func(t *testing.T, dir string) { write(t, dir, "00000004", 9) }, "00000004 has 9 bytes of 10"},
		{"missing", func(t *testing.T, dir string) { remove(t, dir, "00000003") }, "00000003 has 0 bytes of 10"},
		{"two", func(t *testing.T, dir string) { remove(t, dir, "00000003"); remove(t, dir, "00000004") }, "00000003 has 0 bytes of 10, 00000004 has 0 bytes of 10"},
		{"the checkpoint shorter", func(t *testing.T, dir string) { write(t, dir, "checkpoint.00000002/00000000", 9) }, "checkpoint.00000002 has 9 bytes of 10"},
		{"a later checkpoint", func(t *testing.T, dir string) {
			write(t, dir, "checkpoint.00000003/00000000", 1)
			remove(t, dir, "checkpoint.00000002")
			remove(t, dir, "00000003")
		}, ""},
		{"a later checkpoint, and the segment after it missing", func(t *testing.T, dir string) {
			write(t, dir, "checkpoint.00000003/00000000", 1)
			remove(t, dir, "00000004")
		}, "00000004 has 0 bytes of 10"},
		{"other files", func(t *testing.T, dir string) { write(t, dir, "00000003.repair", 0) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			log := slog.New(slog.DiscardHandler)
			l := &Directory{Path: dir, State: localstate.Open(dir, nil, log), Log: log, Others: map[string]localstate.Piece{"there": {Name: "x"}, "none": {Name: "y"}}}
			for _, name := range []string{"00000003", "00000004", "checkpoint.00000002/00000000", "00000003.repair", "../there"} {
				write(t, dir, name, 10)
			}
			l.Record(nil)
			files := l.State.Files(dir)
			if _, ok := files[filepath.Join(dir, "there")]; !ok || len(files) != 1 {
				t.Errorf("recorded: %v", files)
			}
			c.change(t, dir)
			if got := strings.Join(l.shortened(), ", "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
