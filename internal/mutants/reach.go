package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// A reach is the tests of a package, each with the lines of the module that it executes.
type reach struct {
	Tests []reachingTest // the shortest first
}

// A reachingTest is one test that passes without a mutant.
type reachingTest struct {
	Name  string
	Took  time.Duration
	Lines map[string][]uint64 // bits, by file relative to the module
}

// of returns the tests that execute a line.
func (r *reach) of(file string, line int) (tests []reachingTest) {
	for _, t := range r.Tests {
		if bits := t.Lines[file]; line/64 < len(bits) && bits[line/64]>>(line%64)&1 != 0 {
			tests = append(tests, t)
		}
	}
	return tests
}

// reachLimit bounds one test without a mutant.
const reachLimit = 5 * time.Minute

// reachOf returns what the tests of a package execute: as it was recorded for the same binary, or by running them.
func (r *runner) reachOf(ctx context.Context, p *pkg, module string) (*reach, error) {
	binary := filepath.Join(r.dir, "reach.test")
	defer func() { _ = os.Remove(binary) }()
	if _, ok, err := r.command(ctx, buildLimit, "", "go", "test", "-c", "-vet=off", "-trimpath", "-coverpkg=./...", "-o", binary, p.ImportPath); err != nil || !ok {
		return nil, fmt.Errorf("the tests of %s do not compile: %w", p.ImportPath, err)
	}
	if r.reaches == "" {
		return r.runAll(ctx, binary, p, module)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	record := filepath.Join(r.reaches, fmt.Sprintf("%s-%x", path.Base(p.ImportPath), sha256.Sum256(text)))
	if f, err := os.Open(record); err == nil {
		defer f.Close()
		all := new(reach)
		return all, gob.NewDecoder(f).Decode(all)
	}
	all, err := r.runAll(ctx, binary, p, module)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := errors.Join(os.MkdirAll(r.reaches, 0o700), gob.NewEncoder(&b).Encode(all)); err != nil {
		return nil, err
	}
	return all, localstate.WriteFile(record, b.Bytes())
}

// runAll runs each short test of a package alone, and returns what it executes. A test that fails is left out, and named.
func (r *runner) runAll(ctx context.Context, binary string, p *pkg, module string) (*reach, error) {
	out, ok, err := r.command(ctx, reachLimit, p.Dir, binary, "-test.list", ".")
	if err != nil || !ok {
		return nil, fmt.Errorf("list the tests of %s: %w", p.ImportPath, err)
	}
	var all reach
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		profile := filepath.Join(r.dir, "profile")
		if err := errors.Join(os.RemoveAll(r.children()), os.Mkdir(r.children(), 0o700)); err != nil {
			return nil, err
		}
		began := time.Now()
		_, ok, err := r.command(ctx, reachLimit, p.Dir, binary, "-test.short", "-test.run=^"+name+"$", "-test.coverprofile="+profile)
		if err != nil {
			return nil, err
		}
		if !ok {
			fmt.Printf("%s: %s fails without a mutant, and is left out\n", p.ImportPath, name)
			continue
		}
		t := reachingTest{Name: name, Took: time.Since(began), Lines: make(map[string][]uint64)}
		if err := t.read(profile, module); err != nil {
			return nil, err
		}
		if recorded, err := os.ReadDir(r.children()); err != nil {
			return nil, err
		} else if len(recorded) > 0 {
			if _, ok, err := r.command(ctx, reachLimit, "", "go", "tool", "covdata", "textfmt", "-i="+r.children(), "-o="+profile); err != nil || !ok {
				return nil, fmt.Errorf("read what the processes of %s execute: %w", name, err)
			}
			if err := t.read(profile, module); err != nil {
				return nil, err
			}
		}
		all.Tests = append(all.Tests, t)
	}
	slices.SortStableFunc(all.Tests, func(a, b reachingTest) int { return cmp.Compare(a.Took, b.Took) })
	return &all, nil
}

// read adds the lines that a coverage profile counts more than 0 times.
func (t *reachingTest) read(name, module string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		file, block, ok := strings.Cut(strings.TrimPrefix(in.Text(), module+"/"), ":")
		fields := strings.FieldsFunc(block, func(r rune) bool { return strings.ContainsRune(" ,.", r) })
		if !ok || len(fields) != 6 || fields[5] == "0" {
			continue
		}
		from, err := strconv.Atoi(fields[0])
		if err != nil {
			return fmt.Errorf("%s: %q: %w", name, in.Text(), err)
		}
		to, err := strconv.Atoi(fields[2])
		if err != nil {
			return fmt.Errorf("%s: %q: %w", name, in.Text(), err)
		}
		bits := t.Lines[path.Clean(file)]
		for len(bits) <= to/64 {
			bits = append(bits, 0)
		}
		for n := from; n <= to; n++ {
			bits[n/64] |= 1 << (n % 64)
		}
		t.Lines[path.Clean(file)] = bits
	}
	return nil
}
