package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"

	"github.com/taredb/tare/cmd/internal/demo"
	"github.com/taredb/tare/cmd/internal/demo/workload"
	"github.com/taredb/tare/cmd/tare-demo/embedded"
	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) {
	// The engine's regular expression library keeps goroutines for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// command runs a command line in this process; the test must read its stdout from the pipe, and receive once
// from ended.
func command(ctx context.Context, t *testing.T, args ...string) (stdout *bufio.Scanner, ended <-chan error) {
	t.Helper()
	r, w := io.Pipe()
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(w)
	done := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		w.Close()
		done <- err
	}()
	return bufio.NewScanner(r), done
}

// TestEngineServesTheWorkload runs both commands against each other: every shape of the workload works on the
// shop, and only the provoked errors occur.
func TestEngineServesTheWorkload(t *testing.T) {
	engineCtx, stopEngine := context.WithCancel(t.Context())
	defer stopEngine()
	out, engineEnded := command(engineCtx, t, "engine")
	if !out.Scan() {
		t.Fatalf("the engine printed nothing: %v", testwait.Receive(t, "the engine to return", engineEnded))
	}
	var ready demo.EngineReady
	if err := json.Unmarshal(out.Bytes(), &ready); err != nil {
		t.Fatal(err)
	}
	if ready.Database != embedded.Database || ready.Rows < 9_000 {
		t.Errorf("the engine says %+v, want database %s and some 10,000 rows", ready, embedded.Database)
	}

	workCtx, stopWork := context.WithCancel(t.Context())
	defer stopWork()
	out, workEnded := command(workCtx, t, "workload", "--address", ready.Address, "--every", "20ms")
	var last workload.Report
	lines := 0
	for out.Scan() {
		last = workload.Report{}
		if err := json.Unmarshal(out.Bytes(), &last); err != nil {
			t.Fatalf("report %q: %v", out.Bytes(), err)
		}
		lines++
		if len(last.Shapes) == 0 || slices.Min(slices.Collect(maps.Values(last.Shapes))) > 0 || last.Errors > 0 {
			stopWork()
		}
	}
	if err := testwait.Receive(t, "the workload to return", workEnded); err != nil {
		t.Errorf("the workload ended with %v", err)
	}
	if last.Errors != 0 {
		t.Errorf("%d errors that no shape asked for, the latest: %s", last.Errors, last.LastError)
	}
	if len(last.Shapes) < 10 || lines < 2 {
		t.Errorf("%d shapes in %d reports; want at least 10 in 2", len(last.Shapes), lines)
	}
	provoked := last.Shapes["taken address, an error"] + last.Shapes["missing table, an error"]
	if last.ExpectedErrors != provoked || provoked < 2 {
		t.Errorf("%d provoked errors of %d provoking shapes; want equal numbers of at least 2", last.ExpectedErrors, provoked)
	}
	stopEngine()
	if err := testwait.Receive(t, "the engine to return", engineEnded); err != nil {
		t.Errorf("the engine ended with %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"engine", "nonsense"},
		{"engine", "--nonsense"},
		{"workload"},
		{"workload", "--address", "127.0.0.1:1", "--clients", "0"},
		{"workload", "--address", "127.0.0.1:1", "--every", "0s"},
	} {
		root := newRootCommand()
		root.SetArgs(args)
		root.SetOut(io.Discard)
		if err := root.ExecuteContext(t.Context()); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want a usage error", args, err)
		}
	}
}

// TestHostileTexts has texts in errors that would change what a terminal shows.
func TestHostileTexts(t *testing.T) {
	const text = "\x1b]0;owned\a\x1b[2J\r\u009b31m\u202e\x7f\n"
	for _, args := range [][]string{{text}, {"engine", text}, {"engine", "--listen", text}, {"engine", "--" + text}, {"workload", "--clients", text}} {
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code == 0 {
			t.Errorf("%q: exit 0", args)
		}
		line, more, _ := strings.Cut(out.String(), "\n")
		if more != "" || strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) || !strings.Contains(line, "owned") {
			t.Errorf("%q prints %q", args, &out)
		}
	}
}

func TestEngineNamesATakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	root := newRootCommand()
	root.SetArgs([]string{"engine", "--listen", l.Addr().String()})
	root.SetOut(io.Discard)
	err = root.ExecuteContext(t.Context())
	if err == nil || errors.Is(err, errUsage) {
		t.Fatalf("got %v, want an error that is not the command line's", err)
	}
}
