package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/visible"
)

// Exit codes that scripts rely on. A subcommand that completes part of its work exits with 3; 2 is left to
// Go's panics.
const (
	exitOK          = 0
	exitFailed      = 1
	exitPartial     = 3
	exitUsage       = 64
	exitInterrupted = 130
)

// errInterrupted is the cancellation cause of an interrupted run.
var errInterrupted = errors.New("interrupted")

// A partialError reports that a command completed part of its work.
type partialError struct{ error }

func (e *partialError) Unwrap() error { return e.error }

// A usageError is a mistake of the caller: nothing was started.
type usageError struct {
	err error
	try string // a command that helps
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// An output is an output of a command. Names and errors of servers have no effect on a terminal, and it keeps the first error of a
// write, which a command may ignore.
type output struct {
	*visible.Writer
	failed atomic.Pointer[error]
}

func newOutput(w io.Writer) *output { return &output{Writer: visible.NewWriter(w)} }

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil {
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err //nolint:wrapcheck // as the writer
}

// err returns the first error of a write.
func (o *output) err() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// terminal returns the terminal behind an output of a command, to draw on; nil if it is none. Drawings are not
// escaped.
func terminal(w io.Writer) *os.File {
	if out, ok := w.(*output); ok {
		w = out.Unwrap()
	}
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return f
	}
	return nil
}

// passwordsOfURLs match user:password@ with and without a scheme, from the start of a word or a quoted text.
var passwordsOfURLs = regexp.MustCompile(`((?:://|^|[\s"'=,(])[^\s:@"'=,(]*:)([^\s/]\S*)@`)

// masked returns a message without the passwords of URLs in it: the value of another option, or the name of a file, may be one.
func masked(message string) string {
	return passwordsOfURLs.ReplaceAllStringFunc(message, func(match string) string {
		if parts := passwordsOfURLs.FindStringSubmatch(match); parts != nil && parts[2] != "password" { // which stands for one
			return parts[1] + "xxxxx@"
		}
		return match
	})
}

// namedOption matches an option that an error of a package names.
var namedOption = regexp.MustCompile(`\boption ([a-z][a-z0-9-]*[a-z0-9])`)

// A flaggedError has the flags of a command, or of those above it, in place of the options that an error names.
type flaggedError struct {
	error
	command *cobra.Command
}

func (e *flaggedError) Error() string {
	return namedOption.ReplaceAllStringFunc(e.error.Error(), func(match string) string {
		name := strings.TrimPrefix(match, "option ")
		for c := e.command; c != nil; c = c.Parent() {
			if c.Flags().Lookup(name) != nil {
				return "--" + name
			}
		}
		return match
	})
}

func (e *flaggedError) Unwrap() error { return e.error }

// report prints an error as "command: message", line by line, and returns the exit code.
func report(ctx context.Context, w io.Writer, command string, err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errInterrupted) {
		fmt.Fprintf(w, "%s: %v\n", command, errInterrupted)
		return exitInterrupted
	}
	for line := range strings.Lines(strings.TrimSpace(masked(err.Error()))) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(w, "%s: %s\n", command, line)
		}
	}
	var partial *partialError
	var drain *server.DrainError
	if errors.As(err, &partial) || errors.As(err, &drain) {
		return exitPartial
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(w, "Try: %s\n", usage.try)
		return exitUsage
	}
	return exitFailed
}
