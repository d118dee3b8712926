package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A pkg is a package of the module, as go list describes it.
type pkg struct {
	ImportPath, Dir, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func (p *pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// testBytes returns the size of p's tests, which stands for the time that they take.
func (p *pkg) testBytes() (n int64) {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if info, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// listPackages returns the packages that patterns match.
func listPackages(ctx context.Context, patterns ...string) ([]*pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []*pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := dec.Decode(p); err != nil {
			break // its end
		}
		all = append(all, p)
	}
	return all, nil
}

// A runner runs the tests of one package, and of its importers, with its mutants.
type runner struct {
	dir     string // of sources, binaries and the tests' temporary files
	overlay string // flag of the compiler
	mutants int
	grace   time.Duration // of a test with a mutant, besides four times what it takes without
}

// makeDir makes a directory below another one.
func makeDir(parent, pattern string) (dir string, err error) {
	if dir, err = os.MkdirTemp(parent, pattern); err == nil {
		err = os.Chmod(dir, passable)
	}
	return dir, err
}

func (r *runner) control() string { return filepath.Join(r.dir, "selected") }

const (
	// buildLimit bounds one call of the compiler.
	buildLimit = 10 * time.Minute

	// together is the most tests of one process.
	together = 16

	// passable is the mode of directories above those of a server, which runs as another user.
	passable = 0o711

	// memory bounds the data of each process of a test, in KiB, and files the size of a file, in units of 512 bytes.
	memory, files = "4194304", "2097152"
)

// testLimits bound tests without a mutant: one that takes longer runs after those that do not, with the next limit.
var testLimits = []time.Duration{2 * time.Second, 15 * time.Second, 5 * time.Minute}

// build compiles a package and its tests with all mutants. It returns what the compiler prints if it refuses them.
func (r *runner) build(ctx context.Context, p *pkg) (binary string, printed []byte, err error) {
	binary = filepath.Join(r.dir, "test")
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	args := []string{"build", "-o", os.DevNull}
	if p.hasTests() {
		args = []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	}
	cmd := exec.CommandContext(ctx, "go", append(args, r.overlay, p.ImportPath)...)
	printed, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", nil, ctx.Err()
	}
	return binary, printed, err
}

// kill runs the tests of a binary, built of p's, with those of the mutants that they reach, until each is killed or the context is done.
// It removes killed ones from alive, and returns the number of tests that did not run.
func (r *runner) kill(ctx context.Context, binary string, p *pkg, alive map[int]bool) (unrun int, err error) {
	cmd := exec.Command(binary, "-test.list=.")
	cmd.Dir = p.Dir
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("list the tests of %s: %w", p.ImportPath, err)
	}
	var long []string
	tests := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return strings.HasPrefix(name, "Benchmark") })
	for n, limits := together/4, testLimits; len(tests)+len(long) > 0 && len(alive) > 0; {
		if ctx.Err() != nil {
			return len(tests) + len(long), nil
		}
		if len(tests) == 0 {
			tests, long, limits = long, nil, limits[1:]
		}
		if n = min(n, len(tests)); len(limits) < len(testLimits) {
			n = 1
		}
		limit := limits[0]
		some := tests[:n]
		began := time.Now()
		passed, err := r.run(ctx, binary, p, some, 0, limit)
		took := time.Since(began)
		switch {
		case err != nil:
			return 0, err
		case !passed && ctx.Err() != nil:
			continue
		case !passed && n > 1: // one of them fails, or they take too long
			n /= 2
			continue
		case !passed && took >= limit && len(limits) > 1:
			long = append(long, some...)
		case !passed:
			fmt.Fprintf(os.Stderr, "mutants: %s: %s fails without a mutant, and is left out\n", p.ImportPath, some[0])
		default:
			if err := r.killBy(ctx, binary, p, some, took, alive); err != nil {
				return 0, err
			}
			if ctx.Err() != nil { // not with each mutant
				continue
			}
		}
		tests = tests[n:]
		if took < limit/4 {
			n = min(2*n, together)
		}
	}
	return 0, nil
}

// killBy runs tests, which have passed without a mutant in the time took, with each mutant that they have reached.
func (r *runner) killBy(ctx context.Context, binary string, p *pkg, tests []string, took time.Duration, alive map[int]bool) error {
	reached, err := os.ReadFile(r.control())
	if err != nil {
		return err
	}
	for id := range alive {
		if reached[reachedAt(id)] == 0 {
			continue
		}
		passed, err := r.run(ctx, binary, p, tests, id, r.grace+4*took)
		if err != nil {
			return err
		}
		if !passed && ctx.Err() == nil {
			delete(alive, id)
		}
	}
	return nil
}

// run runs short tests with a mutant, or with none if id is 0, and reports whether they pass within limit.
func (r *runner) run(ctx context.Context, binary string, p *pkg, tests []string, id int, limit time.Duration) (passed bool, err error) {
	temporary := filepath.Join(r.dir, "t")
	if err := errors.Join(os.WriteFile(r.control(), selecting(id, r.mutants), 0o600), os.Mkdir(temporary, passable)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -d `+memory+`; ulimit -f `+files+`; exec "$0" "$@"`, binary, "-test.short", "-test.failfast", "-test.run=^("+strings.Join(tests, "|")+")$")
	cmd.Dir, cmd.WaitDelay = p.Dir, time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stop := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the processes that it starts, too
	cmd.Cancel = stop
	switch err := cmd.Start(); {
	case err == nil:
		passed = cmd.Wait() == nil
		_ = stop() // those that it leaves
	case ctx.Err() == nil:
		return false, err
	}
	for try := 0; ; try++ { // a process that is being killed may still create files
		if err = os.RemoveAll(temporary); err == nil || try == 100 {
			return passed, err
		}
		if busy := new(os.PathError); errors.Is(err, syscall.EBUSY) && errors.As(err, &busy) {
			_ = exec.Command("umount", "-l", busy.Path).Run() // a file system of a killed test
		}
		time.Sleep(10 * time.Millisecond) // polls: until the killed processes have exited
	}
}
