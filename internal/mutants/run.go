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
	"time"
)

// A pkg is a package of the module, as go list describes it.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func (p *pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

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
)

// A runner runs tests with mutants.
type runner struct {
	dir   string // of overlays
	limit time.Duration
}

// run returns the outcome of a mutant of p. own is the time of p's tests without a mutant.
func (r *runner) run(ctx context.Context, m *mutant, p *pkg, own time.Duration, importers []string) (outcome, error) {
	overlay, err := r.overlay(m)
	if err != nil {
		return "", err
	}
	passes, err := r.goTool(ctx, time.Minute+r.limit, "build", "-o", os.DevNull, overlay, p.ImportPath)
	if err != nil || !passes {
		return invalid, err
	}
	if p.hasTests() {
		passes, err := r.test(ctx, r.limit+3*own, overlay, p.ImportPath)
		if err != nil || !passes {
			return killedOwn, err
		}
	}
	if len(importers) == 0 {
		return survived, nil
	}
	passes, err = r.test(ctx, r.limit*time.Duration(len(importers)), overlay, importers...)
	if err != nil || !passes {
		return killedBy, err
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

// test reports whether the short tests of packages pass within limit.
func (r *runner) test(ctx context.Context, limit time.Duration, overlay string, packages ...string) (passes bool, err error) {
	args := append([]string{"test", overlay, "-short", "-failfast", "-count=1", "-vet=off", "-timeout", limit.String()}, packages...)
	return r.goTool(ctx, limit+time.Minute, args...)
}

// goTool reports whether a command of the go tool succeeds within limit.
func (r *runner) goTool(ctx context.Context, limit time.Duration, args ...string) (succeeds bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", args...)
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return true, nil
	case errors.As(err, &exit) || limited.Err() != nil:
		return false, nil
	}
	return false, fmt.Errorf("go %s: %w", args[0], err)
}
