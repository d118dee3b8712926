package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const reportFile = "testdata/report.txt"

func TestRunSysbench(t *testing.T) {
	var hooks []string
	r, err := runSysbench(exec.Command("cat", reportFile),
		func(int) error { hooks = append(hooks, "started"); return nil },
		func() error { hooks = append(hooks, "ended"); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"started", "ended"}; !slices.Equal(hooks, want) {
		t.Errorf("called %q, want %q", hooks, want)
	}
	if r.queries != 1600 || r.perSecond != 799 || r.seconds != 2.0025 || r.errors != 3 || r.reconnects != 1 {
		t.Errorf("read %+v from %s", r, reportFile)
	}
	for q, want := range map[float64]float64{0: 1.551, 0.2: 1.551, 0.21: 1.579, 0.94: 1.579, 0.95: 3.245, 0.99: 6.318, 1: 6.318} {
		if got := r.quantile(q); got != want {
			t.Errorf("quantile %v: got %v ms, want %v", q, got, want)
		}
	}
}

func TestRunSysbenchFails(t *testing.T) {
	if _, err := runSysbench(exec.Command("sh", "-c", "echo FATAL: no server >&2; exit 1"), nil, nil); err == nil ||
		!strings.Contains(err.Error(), "FATAL: no server") {
		t.Errorf("got error %v, want what sysbench said", err)
	}
	if _, err := runSysbench(exec.Command("echo", "queries: 5 (1 per sec.)"), nil, nil); err == nil {
		t.Error("accepted a report without time, errors and histogram")
	}
	broken := errors.New("no reading")
	_, err := runSysbench(exec.Command("sh", "-c", "cat "+reportFile+"; exec cat /dev/zero"), func(int) error { return broken }, nil)
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want that of the reading, and sysbench gone", err)
	}
}

func TestParseResultRefuses(t *testing.T) {
	text, err := os.ReadFile(reportFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"    queries: ", "    ignored errors:", "    reconnects:", "    total time:"} {
		if _, err := parseResult(strings.ReplaceAll(string(text), line, "    unknown:")); err == nil {
			t.Errorf("accepted a report without %q", strings.TrimSpace(line))
		}
	}
	if _, err := parseResult(strings.ReplaceAll(string(text), "1600   (", "many   (")); err == nil {
		t.Error("accepted a report with many queries")
	}
}
