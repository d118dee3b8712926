package main

import (
	"errors"
	"fmt"
	"strings"
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
