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
	"time"
)

// A pkg is a package of the module, as go list describes it.
type pkg struct {
	ImportPath, Dir                    string
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
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...)
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

// An outcome is what became of a mutant.
type outcome string

const (
	invalid    outcome = "does not compile"
	killedOwn  outcome = "killed by its package"
	killedBy   outcome = "killed by importers"
	equivalent outcome = "equivalent"
	survived   outcome = "survived"
	// survivedOwn is the outcome of a mutant whose package's tests pass, before the tests of importers have run.
	survivedOwn outcome = "survived its package"
)

// A runner runs tests with mutants.
type runner struct {
	dir     string // of overlays and binaries
	reaches string // directory of recorded reaches; empty: none
	limit   time.Duration
}

const (
	buildLimit = 10 * time.Minute

	// firstTests is the time without a mutant of the tests that run before the others that reach it.
	firstTests = 2 * time.Second
)

// A result is that of tests with a mutant.
type result int

const (
	passed result = iota
	failed
	notBuilt
)

// try runs tests of p with a mutant of it or of another package: short ones first, then the others, until one fails.
func (r *runner) try(ctx context.Context, m *mutant, p *pkg, tests []reachingTest) (result, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return passed, err
	}
	binary := filepath.Join(r.dir, "mutant.test")
	if _, ok, err := r.command(ctx, buildLimit, "", "go", "test", "-c", "-vet=off", overlay, "-o", binary, p.ImportPath); err != nil || !ok {
		return notBuilt, err
	}
	for len(tests) > 0 {
		n, took := 0, time.Duration(0)
		for n < len(tests) && (took == 0 || took+tests[n].Took < firstTests || tests[0].Took >= firstTests) {
			took += tests[n].Took
			n++
		}
		names := make([]string, n)
		for i, t := range tests[:n] {
			names[i] = t.Name
		}
		tests = tests[n:]
		limit := r.limit + 3*took
		_, ok, err := r.command(ctx, limit+time.Minute, p.Dir, binary, "-test.short", "-test.failfast", "-test.timeout="+limit.String(), "-test.run=^("+strings.Join(names, "|")+")$")
		if err != nil {
			return passed, err
		}
		if !ok {
			return failed, nil
		}
	}
	return passed, nil
}

// compiles reports whether a package with a mutant compiles.
func (r *runner) compiles(ctx context.Context, m *mutant, p *pkg) (bool, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return false, err
	}
	_, ok, err := r.command(ctx, buildLimit, "", "go", "build", "-o", os.DevNull, overlay, p.ImportPath)
	return ok, err
}

// overlay writes the changed file and returns the flag that has the compiler read it.
func (r *runner) overlay(m *mutant) (flag string, err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(r.dir, "mutant.go"), filepath.Join(r.dir, "overlay.json")
	if err := os.WriteFile(changed, m.apply(text), 0o600); err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	return "-overlay=" + list, os.WriteFile(list, content, 0o600)
}

// children returns the directory in which processes that a test starts record what they execute.
func (r *runner) children() string { return filepath.Join(r.dir, "children") }

// command returns the output of a program in a directory, and whether it succeeds within limit.
func (r *runner) command(ctx context.Context, limit time.Duration, dir, name string, args ...string) (out []byte, succeeds bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+r.children())
	out, err = cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err == nil:
		return out, true, nil
	case errors.As(err, &exit) || limited.Err() != nil || errors.Is(err, exec.ErrWaitDelay):
		return out, false, nil
	}
	return nil, false, fmt.Errorf("%s: %w", name, err)
}
