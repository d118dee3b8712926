package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// TestJSONIsTheDocumentedResult runs the whole demo against simulated processes and compares every field that
// does not depend on the machine.
func TestJSONIsTheDocumentedResult(t *testing.T) {
	var out, progress bytes.Buffer
	o := Options{For: time.Millisecond, JSON: true, HTTP: freeHTTP(t), Tare: cast(t, ""), Stdout: &out, Stderr: &progress}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if left := ownChildren(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}

	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatalf("stdout is no JSON object: %v\n%s", err, out.Bytes())
	}
	weight, _ := fields["weight"].(map[string]any)
	for _, name := range []string{"cpu_us_per_query", "heap_bytes_per_query", "allocs_per_query", "rss_bytes", "scrape_cpu_us", "scrape_heap_bytes", "scrape_allocs"} {
		if v, ok := weight[name].(float64); !ok || v < 0 {
			t.Errorf("weight.%s is %v, want a number of at least 0", name, weight[name])
		}
		delete(weight, name)
	}
	for _, name := range []string{"seconds", "queries_per_second"} {
		if v, ok := fields[name].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v, want a number above 0", name, fields[name])
		}
		delete(fields, name)
	}
	digests, _ := fields["digests"].([]any)
	for _, d := range digests {
		d := d.(map[string]any)
		if v, ok := d["calls_per_second"].(float64); !ok || v <= 0 {
			t.Errorf("calls_per_second is %v, want a number above 0", d["calls_per_second"])
		}
		delete(d, "calls_per_second")
	}
	want := map[string]any{
		"queries": 42.0, "errors": 0.0, "expected_errors": 20.0, "log_dropped": 2.0, "p50_us": 1_008.813, "p99_us": 2_979.683,
		"note": ceilingNote,
		"digests": []any{
			map[string]any{
				"digest": "bbbbbbbbbbbbbbbb", "text": "select id from wishlists", "calls": 20.0,
				"p50_us": 2_979.683, "p99_us": 2_979.683, "rows": 0.0, "errors": 20.0, "share_of_time": 0.75,
			},
			map[string]any{
				"digest": "aaaaaaaaaaaaaaaa", "text": "select name from customers where id = ?", "calls": 20.0,
				"p50_us": 1_008.813, "p99_us": 1_008.813, "rows": 20.0, "errors": 0.0, "share_of_time": 0.25,
			},
		},
		"weight": map[string]any{"scrapes": 1.0},
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	if !strings.Contains(progress.String(), "mysql -h 127.0.0.1 -P ") {
		t.Errorf("stderr does not say how to connect:\n%s", progress.Bytes())
	}
}

// TestManyAtOnce starts demos that all find the usual addresses free, or the same others: each gets its own.
func TestManyAtOnce(t *testing.T) {
	tare := cast(t, "")
	var demos errgroup.Group
	for range 8 {
		demos.Go(func() error {
			var out bytes.Buffer
			err := Run(t.Context(), Options{For: time.Millisecond, JSON: true, Tare: tare, Stdout: &out, Stderr: io.Discard})
			if err == nil && !bytes.Contains(out.Bytes(), []byte(`"queries": 42`)) {
				err = fmt.Errorf("the result is of another demo:\n%s", out.Bytes())
			}
			return err
		})
	}
	if err := demos.Wait(); err != nil {
		t.Error(err)
	}
}

// TestSummaryWithoutTerminal checks that the text contains no terminal escape sequences.
func TestSummaryWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), Options{For: time.Millisecond, HTTP: freeHTTP(t), Tare: cast(t, ""), Stdout: &out, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mysql -h 127.0.0.1 -P ", "tare serve --backend", "42 queries in ", "0 errors (and 20 provoked); 2 log records dropped",
		"select name from customers where id = ?", "Tare's own weight", "is the embedded engine's, not Tare's",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.Bytes())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("the output holds a terminal's commands: %q", out.String())
	}
}

// TestInterrupted checks that without --for an interruption is the normal end, and with --for the context's
// error; both print a summary.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
		want error
	}{{"without --for", 0, nil}, {"with --for", time.Hour, context.Canceled}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The hints are the first output after all processes have started.
			out := &onWrite{do: cancel}
			err := Run(ctx, Options{For: c.wait, HTTP: freeHTTP(t), Tare: cast(t, ""), Stdout: out, Stderr: io.Discard})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if !strings.Contains(out.String(), "42 queries in ") {
				t.Errorf("there is no summary:\n%s", out.Bytes())
			}
			if left := ownChildren(t); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
	t.Run("before the start is over", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Run(ctx, Options{Tare: cast(t, ""), Stdout: io.Discard, Stderr: io.Discard})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		if left := ownChildren(t); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
	})
}

type onWrite struct {
	bytes.Buffer
	do func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.do()
	return w.Buffer.Write(p)
}

// TestPartsThatFail checks that the error names the part and has its last output, and that no process
// remains.
func TestPartsThatFail(t *testing.T) {
	for misbehave, want := range map[string][]string{
		"engine dies":           {"the embedded engine ended early", "exit status 1", "out of memory"},
		"engine babbles":        {"the embedded engine said", "hello"},
		"gateway dies":          {"the gateway (tare serve) ended early", "lost its mind"},
		"gateway without count": {"weigh the gateway", metricStatements},
		"workload dies":         {"the workload ended early", "cannot connect"},
		"stream breaks off":     {"read the query log stream", "unexpected EOF"},
	} {
		t.Run(misbehave, func(t *testing.T) {
			err := Run(t.Context(), Options{For: time.Hour, HTTP: freeHTTP(t), Tare: cast(t, misbehave), Stdout: io.Discard, Stderr: io.Discard})
			if err == nil {
				t.Fatal("the demo ended without an error")
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error lacks %q: %v", w, err)
				}
			}
			if left := ownChildren(t); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestMissingEngineSaysHowToBuildIt(t *testing.T) {
	tare := filepath.Join(t.TempDir(), "tare")
	t.Setenv("PATH", t.TempDir())
	err := Run(t.Context(), Options{Tare: tare, Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "go build -o "+filepath.Dir(tare)) {
		t.Fatalf("got %v, want a way to build the engine", err)
	}
	t.Run("found in PATH", func(t *testing.T) {
		dir := t.TempDir()
		want := filepath.Join(dir, engineBinary)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		if got, err := locateEngine(tare); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	})
}
