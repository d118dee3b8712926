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
	dir   string // of overlays
	slow  string // tests that run after the others; empty: all run at once
	limit time.Duration
}

// parts returns the flags that select the parts of a package's tests.
func (r *runner) parts(p *pkg) []string {
	switch {
	case !p.hasTests():
		return []string{""}
	case r.slow == "":
		return []string{"-run=."}
	}
	return []string{"-skip=" + r.slow, "-run=" + r.slow}
}

// own returns the result of a part of p's own tests with a mutant of p. time is the time that they take without one.
func (r *runner) own(ctx context.Context, m *mutant, p *pkg, part string, time time.Duration) (result, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return passed, err
	}
	if part == "" {
		return r.build(ctx, overlay, p.ImportPath)
	}
	return r.test(ctx, r.limit+2*time, overlay, p.ImportPath, part)
}

// importers returns the outcome of the tests of importers with a mutant. They run one package after the other, until one fails.
func (r *runner) importers(ctx context.Context, m *mutant, importers []string) (outcome, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return "", err
	}
	for _, path := range importers {
		result, err := r.test(ctx, 2*r.limit, overlay, path, "-run=.")
		if err != nil {
			return "", err
		}
		if result != passed {
			return killedBy, nil
		}
	}
	return survived, nil
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

// A result is that of a command of the go tool.
type result int

const (
	passed result = iota
	failed
	notBuilt
)

// test returns the result of a part of a package's short tests within limit.
func (r *runner) test(ctx context.Context, limit time.Duration, overlay, path, part string) (result, error) {
	out, succeeds, err := r.goTool(ctx, limit+time.Minute, "test", overlay, "-short", "-failfast", "-count=1", "-vet=off", "-timeout", limit.String(), part, path)
	switch {
	case err != nil || succeeds:
		return passed, err
	case bytes.Contains(out, []byte("[build failed]")):
		return notBuilt, nil
	}
	return failed, nil
}

// build reports whether a package compiles.
func (r *runner) build(ctx context.Context, overlay, path string) (result, error) {
	_, succeeds, err := r.goTool(ctx, unchangedLimit, "build", "-o", os.DevNull, overlay, path)
	if err != nil || succeeds {
		return passed, err
	}
	return notBuilt, nil
}

// goTool returns the output of a command of the go tool, and whether it succeeds within limit.
func (r *runner) goTool(ctx context.Context, limit time.Duration, args ...string) (out []byte, succeeds bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", args...)
	cmd.WaitDelay = time.Second
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
	return nil, false, fmt.Errorf("go %s: %w", args[0], err)
}
