package tsblock

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// TestLocalPipe opens a pipe in place of a local file: it is stale, and its open does not wait for a writer.
func TestLocalPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := openLocal(path, headerFile, identity{})
		done <- err
	}()
	if err := testwait.Receive(t, "the pipe to be opened", done); !errors.As(err, new(errStale)) {
		t.Errorf("%v, want a stale file", err)
	}
}
