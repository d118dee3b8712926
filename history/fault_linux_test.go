package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/store/tsblock"
)

// fill writes a file until the disk is full; free removes it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := 1 << 20; chunk > 0; {
		if _, err := f.Write(make([]byte, chunk)); err == nil {
			continue
		} else if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		chunk /= 2
	}
	return func() {
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			t.Error(err)
		}
	}
}

// A diskRig is an archive on a small disk, with a ledger of the completely written rounds.
type diskRig struct {
	*hourglass
	source *faultySource
	root   string // the disk
	ledger []moment
	rounds map[int]int // written with a call of this Key
}

func newDiskRig(t *testing.T, megabytes int) *diskRig {
	d := &diskRig{root: testdir.Small(t, megabytes<<20), rounds: make(map[int]int)}
	d.hourglass = newHourglass(t, func(o *history.ArchiveOptions) {
		d.source = &faultySource{model: o.Source.(*model), visits: 5}
		o.Source, o.Dir, o.ReserveBytes = d.source, filepath.Join(d.root, "series"), 1<<20
	})
	return d
}

// turn calls Keys, writes a round and records it if it succeeds.
func (d *diskRig) turn(keys ...int) error {
	d.now, d.elapsed = d.now.Add(10*time.Second), d.elapsed+10*time.Second
	for _, k := range keys {
		d.model.call(k, d.now.Add(-time.Second), time.Millisecond, false)
	}
	if err := d.archive.Round(d.t.Context()); err != nil {
		return err
	}
	d.ledger = append(d.ledger, moment{at: time.UnixMilli(d.newest()), calls: d.model.calls, errors: d.model.errors, rows: d.model.rows})
	for _, k := range keys {
		d.rounds[k]++
	}
	return nil
}

// kill continues with a copy of the files, in a directory with space.
func (d *diskRig) kill(from string) {
	d.t.Helper()
	to := filepath.Join(d.t.TempDir(), "killed")
	d.must(os.CopyFS(to, os.DirFS(from)))
	d.must(d.archive.Close())
	d.reopenIn(to)
}

// checkLedger compares every round of the ledger with PromQL.
func (d *diskRig) checkLedger() {
	d.t.Helper()
	d.checkSelf()
	d.checkEvery(d.ledger, 10*time.Second)
	for key, rounds := range d.rounds {
		query := fmt.Sprintf(`count_over_time(tare_queries_total{digest=~"%04x.*"}[1d])`, key)
		if got := d.value(query, d.now); got < float64(rounds) {
			d.t.Errorf("%s is %v, %d rounds had calls of it", query, got, rounds)
		}
		increase := fmt.Sprintf(`max_over_time(tare_queries_total{digest=~"%04x.*"}[1d]) - min_over_time(tare_queries_total{digest=~"%04x.*"}[1d])`, key, key)
		if got, want := d.value(increase, d.now), float64(d.model.live[keyOf(key)].Counts[stmtstats.Calls]); got != want {
			d.t.Errorf("%s is %v, want %v: the series has no zero sample", increase, got, want)
		}
	}
}

// fault fills the disk within a round, so that its commit fails, and lets further rounds fail.
func (d *diskRig) fault(keys ...int) (free func()) {
	d.t.Helper()
	d.source.during = func() { free = fill(d.t, d.root) }
	many := append([]int(nil), keys...)
	for i := range 1500 { // of several commits, more than fit in the last page of a file
		many = append(many, 1000+i)
	}
	if err := d.turn(many...); err == nil {
		d.t.Fatal("a round on a full disk succeeds")
	}
	for range 3 {
		if err := d.turn(keys...); !errors.Is(err, history.ErrStopped) {
			d.t.Fatalf("a round during the fault: %v, want %v", err, history.ErrStopped)
		}
	}
	return free
}

// TestFullDisk fills the disk within a round and kills the process at each step: no sample written before or
// after the fault is lost, including digests that appear during it.
func TestFullDisk(t *testing.T) {
	for _, killed := range []string{"during the fault", "after the first round", "later", "not"} {
		t.Run(strings.ReplaceAll(killed, " ", "-"), func(t *testing.T) {
			d := newDiskRig(t, 48)
			for i := range 20 {
				d.must(d.turn(0, i%3+1))
			}
			free := d.fault(0, 100, 101)
			from := filepath.Join(d.root, "series")
			if killed == "during the fault" {
				to := filepath.Join(t.TempDir(), "killed")
				d.must(os.CopyFS(to, os.DirFS(from)))
				free()
				d.must(d.archive.Close())
				d.reopenIn(to)
			} else {
				free()
			}
			d.must(d.turn(0, 100, 102))
			if killed == "after the first round" {
				d.kill(from)
			}
			for i := range 10 {
				d.must(d.turn(0, 100+i%3, i%3+1))
			}
			if killed == "later" {
				d.kill(from)
			}
			d.must(d.turn(0, 1, 100))
			d.checkLedger()
			faults := d.faults()
			if len(faults) != 1 || faults[0].To.Unix()-faults[0].From.Unix() != 50 {
				t.Errorf("the faults are %+v, want one of 50 s", faults)
			}
			const lost = "tare_history_lost_seconds_total"
			want := "# HELP " + lost + " Length of the ranges without samples after failed writes.\n# TYPE " + lost + " counter\n" + lost + " 50\n"
			if err := testutil.CollectAndCompare(history.NewArchiveCollector(d.archive), strings.NewReader(want), lost); err != nil {
				t.Error(err)
			}
			if n := d.archive.Options().State.Counts()["history samples"]; killed == "not" && n != 1 {
				t.Errorf("%d ranges are reported, want 1", n)
			}
		})
	}
}

// TestLowSpace stops before the disk is full, and resumes without reopening the database.
func TestLowSpace(t *testing.T) {
	d := newDiskRig(t, 48)
	for range 5 {
		d.must(d.turn(0))
	}
	db := d.db()
	free := fill(t, d.root)
	if err := d.turn(0, 1); !errors.Is(err, history.ErrStopped) {
		t.Fatalf("a round on a full disk: %v, want %v", err, history.ErrStopped)
	}
	d.must(d.archive.Maintain(t.Context()))
	free()
	d.must(d.turn(0, 1))
	if d.db() != db || d.metric("stopped") != 0 {
		t.Error("the database was reopened, or history is still stopped")
	}
	d.checkLedger()
}

// TestFullAtStart opens an archive on a full disk, and on one that is read-only: it waits, serves what it can, and
// writes everything that was counted meanwhile once that is possible.
func TestFullAtStart(t *testing.T) {
	for name, prevent := range map[string]func(d *diskRig, dir string) (restore func()){
		"full": func(d *diskRig, dir string) func() {
			d.must(os.RemoveAll(filepath.Join(dir, "reserve"))) // its space would be used
			return fill(t, d.root)
		},
		"read-only": func(_ *diskRig, dir string) func() { return readOnly(t, dir) },
	} {
		for _, earlier := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/earlier=%t", name, earlier), func(t *testing.T) {
				d := newDiskRig(t, 48)
				dir := filepath.Join(d.root, "series")
				for range 5 {
					d.must(d.turn(0, 1))
				}
				d.must(d.archive.Close())
				if !earlier {
					d.ledger, d.rounds = nil, make(map[int]int)
					d.must(os.RemoveAll(dir))
					d.must(os.Mkdir(dir, 0o700))
				}
				restore := prevent(d, dir)
				d.reopen()
				for range 3 {
					if err := d.turn(0, 100); !errors.Is(err, history.ErrStopped) {
						t.Fatalf("a round: %v, want %v", err, history.ErrStopped)
					}
				}
				a := d.archive
				if a.Waiting() == nil || d.metric("stopped") != 1 || len(a.Instances()) != 0 || a.Ahead() != 0 || len(a.ClockSteps()) != 0 ||
					a.Keys() != 0 || !a.Whole().IsZero() || a.Sums(d.now.Add(-time.Hour), d.now) != nil || a.HeapBytes() != 0 ||
					a.Labels()[history.InstanceLabel] == "" || len(a.SeriesMatchers()) == 0 {
					t.Error("the archive does not wait")
				}
				q, err := d.engine.NewInstantQuery(t.Context(), a.Queryable(), nil, "tare_queries_total", d.now)
				d.must(err)
				if r := q.Exec(t.Context()); r.Err != nil || !strings.Contains(fmt.Sprint(r.Warnings), "local samples are not read") {
					t.Errorf("a query meanwhile: %v, warnings %v", r.Err, r.Warnings)
				}
				restore()
				d.must(d.turn(0, 100, 102))
				if a.Waiting() != nil || d.metric("stopped") != 0 {
					t.Error("the archive still waits")
				}
				for range 5 {
					d.must(d.turn(0, 1, 100))
				}
				d.checkLedger()
				if faults := d.faults(); len(faults) != 1 || faults[0].To.Unix()-faults[0].From.Unix() != 40 {
					t.Errorf("the faults are %+v, want one of 40 s", faults)
				}
				d.kill(dir)
				d.must(d.turn(0, 1, 100))
				d.checkLedger()
			})
		}
	}
}

// TestNeverOpened closes an archive that waits.
func TestNeverOpened(t *testing.T) {
	d := newDiskRig(t, 48)
	d.must(d.archive.Close())
	d.must(os.RemoveAll(filepath.Join(d.root, "series", "reserve")))
	defer fill(t, d.root)()
	d.reopen()
	if d.archive.Waiting() == nil {
		t.Fatal("the archive does not wait")
	}
	d.must(d.archive.Close())
}

// TestFullDiskCompaction kills the process within a compaction, after a fault whose samples are still in the
// head.
func TestFullDiskCompaction(t *testing.T) {
	d := newDiskRig(t, 256)
	for range 8 * 360 { // hours
		d.must(d.turn(0, 1))
	}
	free := d.fault(0, 100)
	free()
	d.must(d.turn(0, 100))
	from, copied := filepath.Join(d.root, "series"), filepath.Join(t.TempDir(), "killed")
	d.archive.DuringCompaction(func() {
		if _, err := os.Stat(copied); err != nil {
			d.must(os.CopyFS(copied, os.DirFS(from)))
		}
	})
	d.must(d.archive.Maintain(t.Context()))
	if blocks, err := filepath.Glob(filepath.Join(copied, "*", tsblock.MetaFile)); err != nil || len(blocks) == 0 {
		t.Fatalf("no compaction: %v", err)
	}
	d.must(d.archive.Close())
	d.reopenIn(copied)
	d.must(d.turn(0, 1, 2))
	d.checkLedger()
}

// readOnly makes a directory read-only for all later opens of its files.
func readOnly(t *testing.T, dir string) (restore func()) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
	}
	return func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}

// TestReadOnly makes the directory read-only before chunks and rollups are written. The process keeps running
// without writing, and resumes once the directory is writable. The range is recorded as a fault.
func TestReadOnly(t *testing.T) {
	if inChild(t) {
		return
	}
	d := newDiskRig(t, 48)
	d.now = d.now.Truncate(2 * time.Hour).Add(115 * time.Minute)
	for range 40 {
		keys := make([]int, 100)
		for i := range keys {
			keys[i] = i
		}
		d.must(d.turn(keys...))
	}
	for range 400 { // several chunks per series
		d.must(d.turn(0, 1))
	}
	from := filepath.Join(d.root, "series")
	written := d.newest()
	restore := readOnly(t, from)
	if err := d.archive.Maintain(t.Context()); err == nil {
		t.Error("chunks are written to a directory that is read-only")
	}
	if err := d.archive.RollUp(t.Context()); !errors.Is(err, unix.EROFS) {
		t.Errorf("a rollup in a directory that is read-only: %v, want %v", err, unix.EROFS)
	}
	for range 5 {
		if err := d.turn(0, 200); !errors.Is(err, history.ErrStopped) {
			t.Fatalf("a round in a directory that is read-only: %v, want %v", err, history.ErrStopped)
		}
		d.must(d.archive.Maintain(t.Context()))
	}
	if d.newest() != written {
		t.Errorf("samples up to %d were written, want %d", d.newest(), written)
	}
	restore()
	d.must(d.turn(0, 200))
	d.must(d.archive.Maintain(t.Context()))
	d.must(d.archive.RollUp(t.Context()))
	d.must(d.turn(0, 200))
	if faults := d.faults(); len(faults) != 1 || faults[0].To.Unix()-faults[0].From.Unix() != 60 {
		t.Errorf("the faults are %+v, want one of a minute", faults)
	}
	d.kill(from)
	d.must(d.turn(0, 200))
	d.checkLedger()
}

// inChild runs the test in another process and returns true, because a TSDB that has panicked leaves files
// open; in that process it returns false.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv(panickedEnv) != "" {
		return false
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	test.Env = append(os.Environ(), panickedEnv+"=1")
	switch out, err := test.CombinedOutput(); {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	return true
}

// TestChunkWriteFails fills the disk between the check of the free space and the write of chunks: the TSDB
// panics, and the next round reopens it.
func TestChunkWriteFails(t *testing.T) {
	if inChild(t) {
		return
	}
	d := newDiskRig(t, 48)
	for range 400 { // several chunks per series
		keys := make([]int, 100)
		for i := range keys {
			keys[i] = i
		}
		d.must(d.turn(keys...))
	}
	free := fill(t, d.root)
	if err := d.archive.MaintainUnchecked(t.Context()); err == nil || !strings.Contains(err.Error(), unix.ENOSPC.Error()) {
		t.Errorf("chunks on a full disk: %v, want %v", err, unix.ENOSPC)
	}
	if err := d.turn(0, 200); !errors.Is(err, history.ErrStopped) {
		t.Fatalf("a round after a panic: %v, want %v", err, history.ErrStopped)
	}
	free()
	d.must(d.turn(0, 200))
	d.must(d.archive.Maintain(t.Context()))
	d.must(d.turn(0, 200))
	d.kill(filepath.Join(d.root, "series"))
	d.checkLedger()
}

// TestFaultsVersion opens a file without a version, which is read, and one of a later version, which is set aside.
func TestFaultsVersion(t *testing.T) {
	for version, want := range map[string]float64{"": 5, `"version":1,`: 5, `"version":2,`: 0} {
		r := newRig(t, t.TempDir(), t.TempDir())
		text := fmt.Appendf(nil, "%-*s", 16<<10, "{"+version+`"lostSeconds":5,"ranges":[]}`) // it has a fixed size
		if err := os.WriteFile(filepath.Join(r.dir, "faults.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		archive, err := history.OpenArchive(r.options(newModel()))
		if err != nil {
			t.Fatal(err)
		}
		if got := archiveMetric(t, archive, "lost_seconds_total"); got != want {
			t.Errorf("{%s…: %v seconds, want %v", version, got, want)
		}
		state := archive.Options().State
		if lost := len(state.Losses()) > 0; lost != (want == 0) {
			t.Errorf("{%s…: losses %v", version, state.Losses())
		}
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}
}

// faults returns the recorded ranges, oldest first.
func (d *diskRig) faults() []history.FaultRange {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.archive.Options().Dir, "faults.json"))
	d.must(err)
	var file struct{ Ranges []history.FaultRange }
	d.must(json.Unmarshal(bytes.TrimSpace(text), &file))
	return file.Ranges
}

// TestFinishHeadOnFullDisk returns the error of the disk.
func TestFinishHeadOnFullDisk(t *testing.T) {
	d := newDiskRig(t, 48)
	for range 3 {
		d.must(d.turn(0, 1))
	}
	free := fill(t, d.root)
	if err := history.FinishHead(d.db()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v, want %v", err, unix.ENOSPC)
	}
	free()
	d.checkLedger()
}
