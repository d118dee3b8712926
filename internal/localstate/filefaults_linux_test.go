//go:build amd64

package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testseed"
)

// faultyEnv makes the test binary the process whose system calls fail; its value is the name of an operation and a directory.
const faultyEnv = "TARE_TEST_FAULTY"

var faultyTime = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// A faultyRun is the state of an operation: a Store, whose directory has wal/1, wal/2 and wal/sub/3, each with its name as text.
type faultyRun struct {
	dir string
	s   *Store
	h   *Shadow // links of wal
}

func (r *faultyRun) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// repair does what a repair of wal does: it removes wal/2 and wal/sub, and creates files.
func (r *faultyRun) repair() error {
	err := errors.Join(os.Remove(r.path("wal/2")), os.RemoveAll(r.path("wal/sub")), os.WriteFile(r.path("wal/2"), []byte("repaired"), 0o600), os.WriteFile(r.path("wal/4"), []byte("new"), 0o600))
	if err != nil {
		fmt.Println(repairFailed)
	}
	return err
}

const repairFailed = "no repair: "

var faultyPiece = Piece{Name: "wal"}

// faultyOperations are the operations, and whether they end with wal as it was.
var faultyOperations = []struct {
	name   string
	do     func(r *faultyRun) error
	undone bool
}{
	{"nothing", func(*faultyRun) error { return nil }, true}, // the others begin with the same calls
	{"write", func(r *faultyRun) error { return WriteFile(r.path("wal/1"), []byte("1 again")) }, false},
	{"set aside", func(r *faultyRun) error {
		aside, ok := r.s.SetAside(r.path("wal/1"), faultyPiece, errors.New("damaged"))
		fmt.Println("aside:", ok, aside)
		return nil
	}, false},
	{"discard", func(r *faultyRun) error { r.h.Discard(); return nil }, true},
	{"keep", func(r *faultyRun) error {
		err := r.repair()
		r.h.Keep(faultyPiece, "damaged")
		return err
	}, false},
	{"replace", func(r *faultyRun) error { return r.h.Replace(faultyPiece, errors.New("damaged")) }, false},
	{"undo a repair", func(r *faultyRun) error { return errors.Join(r.repair(), r.h.Undo()) }, true},
	{"undo and keep", func(r *faultyRun) error {
		err := r.repair()
		r.h.Keep(faultyPiece, "damaged")
		return errors.Join(err, r.h.Undo())
	}, true},
	{"undo and replace", func(r *faultyRun) error {
		if err := r.h.Replace(faultyPiece, errors.New("damaged")); err != nil {
			return err
		}
		return errors.Join(r.s.Dir(r.path("wal"), File{Piece: faultyPiece}), os.WriteFile(r.path("wal/9"), nil, 0o600), r.h.Undo())
	}, true},
}

// runFaulty opens a Store, executes an operation, and prints the log and the outcome.
func runFaulty(t *testing.T, text string) {
	name, dir, _ := strings.Cut(text, " in ")
	if err := testdir.Traceable(); err != nil {
		t.Fatal(err)
	}
	r := &faultyRun{dir: dir, s: Open(dir, func() time.Time { return faultyTime }, slog.New(slog.NewTextHandler(os.Stdout, nil)))}
	var err error
	if r.h, err = r.s.Shadow(r.path("wal")); err != nil {
		fmt.Println("links:", err)
	}
	for _, o := range faultyOperations {
		if o.name == name {
			err = o.do(r)
		}
	}
	fmt.Println("losses:", len(r.s.Losses()))
	fmt.Println("error:", err)
}

// textsBelow returns the texts of all files below a directory, by their names. Others have no access to any of them.
func textsBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is readable by others: %v, %v", path, info, err)
		}
		if e.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		texts[name] = string(text)
		return err
	}))
	return texts
}

// TestFileFaults has each system call on a file of each operation fail before it runs, and some after they ran. A file that was there before is in its place or set aside, unless
// its loss was logged; an operation that returns no error is complete; and a failed call that matters is in the error or in the log.
func TestFileFaults(t *testing.T) {
	if run := os.Getenv(faultyEnv); run != "" {
		runFaulty(t, run)
		return
	}
	before := map[string]string{"wal/1": "1", "wal/2": "2", "wal/sub/3": "3"}
	state := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "state")
		for name, text := range before {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		for i := range maxAside { // the oldest one is removed
			must(t, os.MkdirAll(filepath.Join(dir, AsideName, fmt.Sprintf("202601%02dT000000.000Z", i+1)), 0o700))
		}
		must(t, os.WriteFile(filepath.Join(dir, ManifestName), []byte(`{"version": 1}`), 0o600))
		return dir
	}
	_, opened := traceFaulty(t, "nothing", state(t), testdir.FileCall{}, "")
	common, seed := len(opened), testseed.New(t)
	for _, o := range faultyOperations {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			run := func(at testdir.FileCall, fault testdir.FileFault) []testdir.FileCall {
				dir := state(t)
				printed, calls := traceFaulty(t, o.name, dir, at, fault)
				succeeded := strings.Contains(printed, "error: <nil>\n")
				noLinks := strings.Contains(printed, "links: ")
				texts := textsBelow(t, dir)
				all := slices.Collect(maps.Values(texts))
				if strings.Contains(printed, repairFailed) {
					return calls
				}
				notKept := strings.Contains(printed, "damaged files not kept")
				problem := func(format string, a ...any) {
					t.Helper()
					t.Errorf("%v %s: %s; the process printed\n%s\nand left %v", at, fault, fmt.Sprintf(format, a...), printed, texts)
				}
				for name, text := range before {
					repaired := noLinks && name != "wal/1" && strings.Contains(o.name, "keep") || noLinks && name != "wal/1" && o.name == "undo a repair"
					if !slices.Contains(all, text) && !repaired && !notKept && !(o.name == "write" && name == "wal/1") {
						problem("%s is lost", name)
					}
				}
				if o.undone && succeeded && !noLinks && !notKept {
					for name, text := range texts {
						inWal := strings.HasPrefix(name, "wal/")
						if inWal && before[name] != text {
							problem("%s is left", name)
						}
						if strings.HasPrefix(name, AsideName) && o.name != "nothing" && !strings.Contains(printed, "not removed") {
							problem("%s is left", name)
						}
					}
					for name, text := range before {
						if texts[name] != text {
							problem("%s is not in its place", name)
						}
					}
					if !strings.Contains(printed, "losses: 0\n") && !strings.Contains(printed, "state.json") {
						problem("a loss is reported")
					}
				}
				switch o.name {
				case "write":
					_, left := texts["wal/1.tmp"]
					if text := texts["wal/1"]; succeeded && text != "1 again" || text != "1" && text != "1 again" || left && at.Op != "remove" && at.Op != "create" && fault != testdir.FailsAlways {
						problem("not written, or left")
					}
				case "keep", "replace":
					if aside := textsBelow(t, filepath.Join(dir, AsideName)); succeeded && !noLinks && !notKept {
						want := map[string]string{"20260301T100000.000Z/wal/2": "2", "20260301T100000.000Z/wal/sub/3": "3"}
						if o.name == "replace" {
							want["20260301T100000.000Z/wal/1"] = "1"
						}
						if !maps.Equal(aside, want) {
							problem("set aside are %v", aside)
						}
					}
				case "set aside":
					beside := at.Path == AsideName && (at.Op == "list" || at.Op == "open" && at.N > 1) || at.Path == AsideName+"/#T#.000Z" && at.Op == "mkdir"
					if fault == testdir.FailsBefore && beside && !strings.Contains(printed, "aside: true "+filepath.Join(dir, "wal/1.set-aside-20260301T100000.000Z")) {
						problem("the directory for it cannot be used")
					}
				}
				optional := at.Op == "remove" || at.Op == "open" && at.N > 0 || // a removal tries another way, and reports what is left
					strings.HasPrefix(at.Path, ManifestName) || o.name == "set aside"
				if fault == testdir.FailsBefore && !optional && !strings.Contains(printed, "input/output error") {
					problem("unnoticed")
				}
				return calls
			}
			calls := run(testdir.FileCall{}, "")
			first := 0
			if o.name != "nothing" {
				first = common
			}
			for i, call := range calls[first:] {
				run(call, testdir.FailsBefore)
				if !testing.Short() && (i+int(seed%4))%4 == 0 {
					run(call, testdir.FailsAfter)
				}
			}
			t.Logf("%d calls", len(calls)-first)
		})
	}
}

// traceFaulty executes an operation in a process, and returns what it printed.
func traceFaulty(t *testing.T, operation, dir string, at testdir.FileCall, fault testdir.FileFault) (printed string, calls []testdir.FileCall) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileFaults$")
	cmd.Env = append(os.Environ(), faultyEnv+"="+operation+" in "+dir)
	cmd.Stdout, cmd.Stderr = out, out
	calls, failed := testdir.TraceFiles(t, cmd, dir, at, fault)
	text, err := os.ReadFile(out.Name())
	must(t, err)
	if failed != nil || !strings.Contains(string(text), "error: ") {
		t.Fatalf("%v %s: %v\n%s", at, fault, failed, text)
	}
	return string(text), calls
}
