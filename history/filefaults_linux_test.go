//go:build amd64

package history_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testseed"
)

var faultSlice = flag.Uint64("file-fault-slice", 293, "TestFileFaults has one of n cells")

// A faultyDay is an archive over copied files: rounds of a minute without faults, then those of a process with a fault, then
// again without.
type faultyDay struct {
	*hourglass
	state *localstate.Store
	n     int // rounds
}

// The rounds of each part.
const (
	soundRounds  = 5*60 + 10 // until local blocks and rollups are written
	faultyRounds = 12
	finalRounds  = 4
)

// A faultyResult is the report of a process with a fault.
type faultyResult struct {
	Written []written
	Errors  []string
	Losses  map[string]uint64
}

// A written round is a moment as JSON.
type written struct {
	At                  time.Time
	Calls, Errors, Rows uint64
}

// openFaulty opens the archive over the files of a directory after a number of rounds of other processes.
func openFaulty(t *testing.T, dir string, after int) (*faultyDay, error) {
	t.Helper()
	d := newDay(t)
	d.rig = newRig(t, filepath.Join(dir, "bucket"), filepath.Join(dir, "series"))
	f := &faultyDay{hourglass: &hourglass{day: d, now: time.UnixMilli(1_700_000_000_000)}}
	for range after {
		f.calls()
	}
	f.must(f.model.Collect(func(*stmtstats.Sample) error { return nil }))
	f.model.restart()
	o := d.rig.options(d.model)
	o.Now = func() time.Time { return f.now }
	o.Elapsed = func() time.Duration { return f.elapsed }
	f.state = localstate.Open(d.rig.dir, o.Now, o.Log)
	o.LocalAge, o.ReserveBytes, o.State = 3*time.Hour, 1<<20, f.state
	var err error
	d.archive, err = history.OpenArchive(o)
	return f, err
}

// calls calls the Keys of the next round.
func (f *faultyDay) calls() {
	f.n++
	f.now, f.elapsed = f.now.Add(time.Minute), f.elapsed+time.Minute
	for k := range 3 {
		if f.n%(k+1) == 0 {
			f.model.call(k, f.now.Add(-time.Second), time.Duration(k+1)*time.Millisecond, k == 2)
		}
	}
	if f.n%5 == 0 {
		f.model.call(100+f.n, f.now.Add(-time.Second), time.Millisecond, false)
	}
}

// run writes rounds, and does the background work in the middle and at the end.
func (f *faultyDay) run(rounds int) (r faultyResult) {
	for n := range rounds {
		f.calls()
		if err := f.archive.Round(f.t.Context()); err != nil {
			r.Errors = append(r.Errors, err.Error())
		} else {
			r.Written = append(r.Written, written{time.UnixMilli(f.newest()), f.model.calls, f.model.errors, f.model.rows})
		}
		if n == rounds/2 || n == rounds-1 {
			a, ctx := f.archive, f.t.Context()
			if err := a.Waiting(); err != nil {
				r.Errors = append(r.Errors, err.Error())
				continue
			}
			for _, err := range []error{a.Maintain(ctx), a.Ship(ctx), a.RollUp(ctx), f.rig.gateway.Sync(ctx), a.Retain(ctx)} {
				if err != nil {
					r.Errors = append(r.Errors, err.Error())
				}
			}
		}
	}
	r.Losses = f.state.Counts()
	return r
}

// TestFileFaults has each system call on a file of an archive or of its bucket fail in each way: after a restart each round
// that was written is complete, or the loss was reported.
func TestFileFaults(t *testing.T) {
	if dir := os.Getenv(faultyEnv); dir != "" {
		printFaulty(t, dir)
		return
	}
	base := t.TempDir()
	for _, name := range []string{"bucket", "series"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openFaulty(t, base, 0)
	f.must(err)
	sound := f.run(soundRounds)
	f.must(f.archive.Close())
	if len(sound.Errors) > 0 || len(sound.Losses) > 0 {
		t.Fatalf("without faults: %q, %v", sound.Errors, sound.Losses)
	}
	run := func(t *testing.T, at testdir.FileCall, fault testdir.FileFault) []testdir.FileCall {
		dir := filepath.Join(t.TempDir(), "day")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		r, calls := traceFaulty(t, dir, at, fault)
		checkFaulty(t, dir, fmt.Sprintf("%v %s", at, fault), append(sound.Written[len(sound.Written)-100:], r.Written...), r)
		return calls
	}
	cells := testseed.New(t) % *faultSlice
	first, last := cells, make(map[testdir.FileCall]int)
	calls := run(t, testdir.FileCall{}, "")
	for _, c := range calls {
		last[testdir.FileCall{Op: c.Op, Path: c.Path}] = c.N
	}
	for _, c := range calls {
		if c.N > 0 && c.N < last[testdir.FileCall{Op: c.Op, Path: c.Path}] {
			continue // as the first or the last
		}
		for _, fault := range testdir.FileFaults {
			if cells++; cells%*faultSlice == 0 {
				t.Run(fmt.Sprint(cells), func(t *testing.T) { run(t, c, fault) })
			}
		}
	}
	if n := cells - first; n < 400 {
		t.Errorf("%d cells, want more", n)
	} else {
		t.Logf("%d cells, of which one of %d ran", n, *faultSlice)
	}
}

const resultPrefix = "result: "

// printFaulty is the process with a fault: it prints its result.
func printFaulty(t *testing.T, dir string) {
	if err := testdir.Traceable(); err != nil {
		t.Fatal(err)
	}
	var r faultyResult
	f, err := openFaulty(t, dir, soundRounds)
	if err == nil {
		r = f.run(faultyRounds)
		err = f.archive.Close()
	}
	if err != nil {
		r.Errors, r.Losses = append(r.Errors, err.Error()), f.state.Counts()
	}
	text, err := json.Marshal(r)
	f.must(err)
	fmt.Println(resultPrefix + string(text))
}

// traceFaulty runs the process with a fault.
func traceFaulty(t *testing.T, dir string, at testdir.FileCall, fault testdir.FileFault) (r faultyResult, calls []testdir.FileCall) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileFaults$")
	cmd.Env = append(os.Environ(), faultyEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	calls, failed := testdir.TraceFiles(t, cmd, dir, at, fault)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, result, ok := strings.Cut(string(text), resultPrefix)
	if ok {
		result, _, _ = strings.Cut(result, "\n")
		err = json.Unmarshal([]byte(result), &r)
	}
	if failed != nil || !ok || err != nil {
		t.Fatalf("%v %s: %v\n%s", at, fault, errors.Join(failed, err), text)
	}
	return r, calls
}

// checkFaulty opens the archive again, writes more rounds and checks all that were written.
func checkFaulty(t *testing.T, dir, what string, rounds []written, r faultyResult) {
	t.Helper()
	f, err := openFaulty(t, dir, soundRounds+faultyRounds)
	if err != nil {
		t.Fatalf("%s: a restart fails: %v", what, err)
	}
	final := f.run(finalRounds)
	if len(final.Errors) > 0 {
		t.Errorf("%s: after a restart: %q", what, final.Errors)
	}
	var moments []moment
	for _, w := range append(rounds, final.Written...) {
		moments = append(moments, moment{w.At, w.Calls, w.Errors, w.Rows})
	}
	lost := maps.Clone(final.Losses)
	maps.Copy(lost, r.Losses)
	if lost["write-ahead log"] > 0 {
		if len(r.Written) > 0 { // the archive has opened without it
			t.Logf("%s: errors %q, losses %v", what, r.Errors, lost)
			f.must(f.archive.Close())
			return
		}
		t.Errorf("%s: the archive did not open, and has set its log aside: %v", what, lost)
	}
	f.checkEvery(moments, time.Minute)
	f.checkSelf()
	if silent := len(lost) == 0 && len(r.Errors) == 0; silent && len(r.Written) < faultyRounds {
		t.Errorf("%d rounds were written, want %d", len(r.Written), faultyRounds)
	}
	calls := f.model.calls
	f.now = f.now.Truncate(time.Hour).Add(2 * time.Hour)
	f.must(f.archive.Round(t.Context()))
	f.must(f.archive.RollUp(t.Context()))
	if got := sumOfRollups(t, f.current().Rollups); got != calls && lost["rollup"] == 0 {
		t.Errorf("the rollups have %d calls, want %d", got, calls)
	}
	if t.Failed() {
		t.Errorf("%s: errors %q, losses %v", what, r.Errors, lost)
	}
	f.must(f.archive.Close())
}
