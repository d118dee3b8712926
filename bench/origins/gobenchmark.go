package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A goBenchmark is a benchmark of the same name in packages of this module, the old side, and of the main
// module.
type goBenchmark struct {
	name     string
	old, new string // packages below their modules
	time     string // -benchtime of go test
	count    int    // number of runs
}

// run writes the benchmark's lines of both sides. The sides alternate, so that other load on the machine
// affects both.
func (b goBenchmark) run(old, new, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "benchmark-")
	if err != nil {
		return fmt.Errorf("make a place for the tests: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sides := []struct {
		name, module, pkg string
		to                io.Writer
	}{{"old", ".", b.old, old}, {"new", "..", b.new, new}}
	for _, side := range sides {
		fmt.Fprintf(out, "%s: %s, %d runs of %s a case\n", side.name, side.pkg, b.count, b.time)
		build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, side.name), "./"+side.pkg)
		build.Dir, build.Stderr = side.module, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("%s: build the test of %s: %w", side.name, side.pkg, err)
		}
	}
	fmt.Fprintln(out)
	for range b.count {
		for _, side := range sides {
			if err := b.runOnce(filepath.Join(dir, side.name), filepath.Join(side.module, side.pkg), side.to); err != nil {
				return fmt.Errorf("%s: run %s of %s: %w", side.name, b.name, side.pkg, err)
			}
		}
	}
	return nil
}

// runOnce runs a test binary in its package's directory and writes the benchmark's lines.
func (b goBenchmark) runOnce(binary, dir string, to io.Writer) error {
	cmd := exec.Command(binary, "-test.run=^$", "-test.bench=^"+b.name+"$", "-test.benchtime="+b.time, "-test.benchmem", "-test.timeout=0")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		_, _ = os.Stderr.Write(text) // contains the reason
		return err
	}
	lines := 0
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		// Omit the lines of the package: benchstat does not compare different packages.
		if strings.HasPrefix(s.Text(), b.name) {
			if _, err := fmt.Fprintln(to, s.Text()); err != nil {
				return fmt.Errorf("write a line: %w", err)
			}
			lines++
		}
	}
	if lines == 0 {
		return errors.New("there is no such benchmark")
	}
	return nil
}
