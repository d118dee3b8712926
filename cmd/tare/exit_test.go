package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFlagsOfOptions prints errors of packages, which name options: those that the command has are flags.
func TestFlagsOfOptions(t *testing.T) {
	cause := errors.New("use option restart and option truncate db.t, or another option so")
	err := &flaggedError{fmt.Errorf("option max-connections: %w", cause), newCopyCommand()}
	var text strings.Builder
	if code := report(t.Context(), &text, "tare copy", err); code != exitFailed || !errors.Is(err, cause) {
		t.Errorf("exit code %d, of the cause: %t", code, errors.Is(err, cause))
	}
	if want := "tare copy: option max-connections: use --restart and --truncate db.t, or another option so\n"; text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputFails runs commands whose output cannot be written: each fails and reports it once.
func TestOutputFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tare.yaml")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, line := range []string{"--help", "serve --help", "help copy", "--version", "version", "version --json", "config print", "config print --json", "config check " + file, "completion bash"} {
		var diag bytes.Buffer
		if code := run(context.Background(), strings.Fields(line), failingWriter{}, &diag); code != exitFailed || strings.Count(diag.String(), syscall.ENOSPC.Error()) != 1 {
			t.Errorf("tare %s: exit code %d, want %d and the error:\n%s", line, code, exitFailed, diag.String())
		}
	}
}
