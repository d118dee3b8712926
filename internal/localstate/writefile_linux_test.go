package localstate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/taredb/tare/internal/testdir"
)

// TestWriteFile replaces files: others cannot read them, and a failure leaves the old one and no temporary one.
func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"first", "2nd"} {
		if err := WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	small := filepath.Join(testdir.Small(t, 64<<10), "f")
	if err := WriteFile(small, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(small, bytes.Repeat([]byte("x"), 128<<10)); err == nil {
		t.Error("a file that is larger than its disk was written")
	}
	if got, err := os.ReadFile(small); err != nil || string(got) != "old" {
		t.Errorf("after a failure: %.20q, %v", got, err)
	}
	if _, err := os.Lstat(small + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("the temporary file after a failure: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Symlink(outside, name+".tmp"); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, []byte("3rd")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Errorf("the text was written through a link: %v", err)
	}
	if err := os.Mkdir(name+"d", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(name+"d", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name+"d", nil); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Lstat(name + "d.tmp"); !os.IsNotExist(err) {
		t.Errorf("the temporary file after a failed rename: %v", err)
	}
	if err := WriteFile(filepath.Join(name, "x"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}
