package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLog runs every case briefly.
func TestLog(t *testing.T) {
	o := DefaultLogOptions()
	o.Duration, o.Dir = 5*time.Millisecond, t.TempDir()
	results, err := Log(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 12 {
		t.Errorf("%d cases, want 2 sinks × 2 formats × 3 numbers of readers", len(results))
	}
	for _, r := range results {
		run := &r.Runs[0]
		for _, unit := range []string{"ns/op", "cpu-ns/op", "written-MB/s"} {
			if v, ok := run.value(unit); !ok || v <= 0 {
				t.Errorf("%s: %s is %v, want more than 0", r.Name, unit, v)
			}
		}
		if run.Operations < 64 {
			t.Errorf("%s: %d records, want at least a batch", r.Name, run.Operations)
		}
	}
	if left, err := filepath.Glob(filepath.Join(o.Dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("files %v are left, %v", left, err)
	}
}

// TestLogAtARate checks that an open loop keeps its rate, and reports no time per record.
func TestLogAtARate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := DefaultLogOptions()
	o.Sinks, o.Formats, o.Readers = []string{"file"}, []string{"json"}, []int{0}
	o.Duration, o.Rate, o.Count = 100*time.Millisecond, 20_000, 2
	results, err := Log(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || len(results[0].Runs) != 2 {
		t.Fatalf("got %d cases, want 1 with 2 runs", len(results))
	}
	for _, run := range results[0].Runs {
		if run.Operations < 64 || run.Operations > 2_000+64 {
			t.Errorf("%d records in 100ms at 20,000 a second, want no more than 2,000 and a batch", run.Operations)
		}
		if v, ok := run.value("ns/op"); ok {
			t.Errorf("ns/op is %v at a fixed rate", v)
		}
		if v, ok := run.value("dropped-%"); !ok || v != 0 {
			t.Errorf("%v %% were dropped, want none", v)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("%v is left in the temporary directory, %v", left, err)
	}
}

func TestLogOptionsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*LogOptions){
		"at least one of each": func(o *LogOptions) { o.Sinks = nil },
		"unknown sink":         func(o *LogOptions) { o.Sinks = []string{"tape"} },
		"unknown log format":   func(o *LogOptions) { o.Formats = []string{"xml"} },
		"--readers":            func(o *LogOptions) { o.Readers = []int{-1} },
		"--rate":               func(o *LogOptions) { o.Rate = -1 },
		"--duration":           func(o *LogOptions) { o.Duration = 0 },
	} {
		o := DefaultLogOptions()
		change(&o)
		if _, err := Log(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	o := DefaultLogOptions()
	o.Dir = filepath.Join(t.TempDir(), "none")
	if _, err := Log(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Log/file/json/readers=0") {
		t.Errorf("got %v, want an error that names the case", err)
	}
	if _, err := Log(cancelled(t), DefaultLogOptions()); err == nil {
		t.Error("an interrupted benchmark ended without an error")
	}
}
