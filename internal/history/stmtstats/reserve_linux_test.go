package stmtstats

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReserveByWriting writes the zeroes of a new table on a file system that cannot allocate them, or returns the error.
func TestReserveByWriting(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a ramfs requires root")
	}
	dir := t.TempDir()
	if err := unix.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("no ramfs: mount %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "table")
	const most = 3<<20 + 4096
	for _, bytes := range []int64{4096, 1 << 20, most} { // parts of 1 MiB
		raw, err := mapNew(path, bytes)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != bytes {
			t.Errorf("the file has %d bytes (%v), want %d", info.Size(), err, bytes)
		}
		if err := unix.Munmap(raw); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || len(bytes.Trim(text, "\x00")) > 0 {
		t.Errorf("the file is not zero (%v)", err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 2 << 20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	if raw, err := mapNew(path, most); !errors.Is(err, unix.EFBIG) {
		t.Errorf("mapping more than can be written: %d bytes, %v, want %v", len(raw), err, unix.EFBIG)
	}
}
