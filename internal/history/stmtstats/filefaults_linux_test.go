//go:build amd64

package stmtstats

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststmt"
)

var faultSlice = flag.Uint64("file-fault-slice", 61, "TestFileFaults has one of n cells, beside those of a new table's file")

// faultyEnv makes the test binary the process whose system calls fail; its value is a faultyRun.
const faultyEnv = "TARE_TEST_FAULTY"

type faultyRun struct {
	Dir        string
	MaxDigests int
}

func (r faultyRun) options() Options {
	return Options{Dir: r.Dir, MaxDigests: r.MaxDigests, Bytes: leastBytes(64), Slog: slog.New(slog.DiscardHandler)}
}

// faultyCalls is the number of statements that a faultyRun counts.
const faultyCalls = 7

// runFaulty opens a table, counts statements and closes it, and prints its log and the outcome.
func runFaulty(t *testing.T, text string) {
	var r faultyRun
	if err := errors.Join(json.Unmarshal([]byte(text), &r), testdir.Traceable()); err != nil {
		t.Fatal(err)
	}
	o := r.options()
	o.Slog = slog.New(slog.NewTextHandler(os.Stdout, nil))
	table, err := OpenTable(o)
	if err == nil {
		for range faultyCalls {
			table.Observe(teststmt.Record(1, time.Millisecond))
		}
		fmt.Println("counted")
		err = table.Close()
	}
	fmt.Println("error:", err)
}

// TestFileFaults has each system call on a file of a table fail in each way: the counts are complete after a restart, or their
// loss was logged. The error of a call that has not run is in that of the table or in the log.
func TestFileFaults(t *testing.T) {
	if run := os.Getenv(faultyEnv); run != "" {
		runFaulty(t, run)
		return
	}
	const kept = 5
	cells := testseed.New(t) % *faultSlice
	first := cells
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, r faultyRun)
		before  uint64
	}{
		{"no directory", func(t *testing.T, r faultyRun) { remove(t, r.Dir) }, 0},
		{"no table", func(*testing.T, faultyRun) {}, 0},
		{"the same size", func(t *testing.T, r faultyRun) { countCalls(t, r.options(), kept) }, kept},
		{"another size", func(t *testing.T, r faultyRun) { countCalls(t, faultyRun{r.Dir, 20}.options(), kept) }, kept},
		{"a killed change of the size", func(t *testing.T, r faultyRun) {
			countCalls(t, faultyRun{r.Dir, 20}.options(), kept)
			write(t, filepath.Join(r.Dir, tableName+newSuffix), "half a table")
		}, kept},
		{"a damaged table", func(t *testing.T, r faultyRun) {
			write(t, filepath.Join(r.Dir, tableName), strings.Repeat("no table", 1000))
		}, 0},
		{"a directory as table", func(t *testing.T, r faultyRun) { mkdir(t, filepath.Join(r.Dir, tableName)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(at testdir.FileCall, fault testdir.FileFault) []testdir.FileCall {
				r := faultyRun{filepath.Join(t.TempDir(), "table"), 30}
				mkdir(t, r.Dir)
				c.prepare(t, r)
				printed, calls := traceFaulty(t, r, at, fault)
				table, err := OpenTable(r.options())
				if err != nil {
					t.Fatalf("%v %s: a restart fails: %v", at, fault, err)
				}
				got := calledOf(t, table)
				if err := table.Close(); err != nil {
					t.Error(err)
				}
				want := c.before
				if strings.Contains(printed, "counted\n") {
					want += faultyCalls
				}
				_, failed, _ := strings.Cut(printed, "error: ")
				if fault == testdir.FailsBefore && !strings.HasPrefix(failed, "<nil>") && !strings.Contains(printed, "input/output error") && !strings.Contains(printed, "read-only file system") {
					t.Errorf("%v %s: the error is %s", at, fault, failed)
				}
				lost := strings.Contains(printed, "local state lost") && strings.Contains(printed, tablePiece.Name)
				if got != want && !(lost && got == want-c.before) {
					t.Errorf("%v %s: %d statements, want %d; the process printed\n%s", at, fault, got, want, printed)
				}
				return calls
			}
			for _, call := range run(testdir.FileCall{}, "") {
				for _, fault := range testdir.FileFaults {
					always := c.name == "another size" && strings.HasSuffix(call.Path, newSuffix) && fault == testdir.FailsBefore
					if cells++; cells%*faultSlice == 0 || always {
						run(call, fault)
					}
				}
			}
		})
	}
	if n := cells - first; n < 400 {
		t.Errorf("%d cells, want more", n)
	} else {
		t.Logf("%d cells, of which one of %d ran", n, *faultSlice)
	}
}

// traceFaulty runs a faultyRun in a process, and returns what it printed.
func traceFaulty(t *testing.T, r faultyRun, at testdir.FileCall, fault testdir.FileFault) (printed string, calls []testdir.FileCall) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileFaults$")
	cmd.Env = append(os.Environ(), faultyEnv+"="+string(text))
	cmd.Stdout, cmd.Stderr = out, out
	calls, failed := testdir.TraceFiles(t, cmd, filepath.Dir(r.Dir), at, fault)
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if failed != nil || !bytes.Contains(b, []byte("error: ")) {
		t.Fatalf("%v %s: %v\n%s", at, fault, failed, b)
	}
	return string(b), calls
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
