package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/taredb/tare/sizegen/internal/gen"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

const usage = `usage: sizegen [-verify | -measure | -explain path.Type] [-root path.Type]… packages

Sizegen writes cached_size.go into the packages: for each type marked //sizegen:root, a walk
that adds up the heap bytes a value holds, counts what is shared once, and detaches strings.

  -verify             write nothing; exit 1 if files are stale, and name them, or do not compile
  -measure            write nothing; test the walks against the heap, on random values
  -explain path.Type  write nothing; print the walk of a type, of any module, as a tree
  -root path.Type     a root besides the marked types; may be repeated

Packages are named as for the go command. Name all packages of the module that the roots
reach, most simply by ./...
`

func main() { os.Exit(run(os.Args[1:], ".", os.Stdout, os.Stderr)) }

// run runs sizegen in dir and returns the exit code.
func run(args []string, dir string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("sizegen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	verify := flags.Bool("verify", false, "")
	measured := flags.Bool("measure", false, "")
	explain := flags.String("explain", "", "")
	var roots []string
	flags.Func("root", "", func(s string) error {
		if i := strings.LastIndexByte(s, '.'); i <= 0 || i == len(s)-1 || strings.HasSuffix(s, "/") {
			return errors.New("want path.Type, such as example.com/module/plan.Plan")
		}
		roots = append(roots, s)
		return nil
	})
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "sizegen: %v\nTry: sizegen -help\n", err)
		return exitUsage
	case *verify && *measured || *verify && *explain != "" || *measured && *explain != "":
		fmt.Fprint(stderr, "sizegen: -verify, -measure and -explain exclude each other\nTry: sizegen -help\n")
		return exitUsage
	case flags.NArg() == 0:
		fmt.Fprint(stderr, "sizegen: no packages named\nTry: sizegen ./...\n")
		return exitUsage
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	}
	cfg := gen.Config{Dir: dir, Patterns: flags.Args(), Roots: roots}
	switch {
	case *measured:
		return measure(cfg, stdout, stderr)
	case *explain != "":
		tree, problems, err := gen.Explain(cfg, *explain)
		if err != nil {
			fmt.Fprintf(stderr, "sizegen: %v\n", err)
			return exitFailed
		}
		fmt.Fprint(stdout, tree)
		report(problems, stderr)
		return exitOK
	}
	files, problems, err := gen.Generate(cfg)
	if err != nil {
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	}
	if report(problems, stderr) > 0 {
		return exitFailed
	}
	if code := write(dir, files, *verify, stdout, stderr); code != exitOK {
		return code
	}
	if *verify {
		return compile(dir, files, stderr)
	}
	return exitOK
}

// report prints the problems, and returns the number of those that prevent writing files.
func report(problems []gen.Problem, stderr io.Writer) (refused int) {
	for _, p := range gen.Grouped(problems) {
		fmt.Fprintln(stderr, p)
		if !p.Warning {
			refused++
		}
	}
	if refused > 0 {
		fmt.Fprintf(stderr, "sizegen: nothing written: %d not sizable\n", refused)
	}
	return refused
}

// write brings the files up to date, or lists stale ones, and returns the exit code.
func write(dir string, files []gen.File, verify bool, stdout, stderr io.Writer) int {
	stale, err := update(files, !verify)
	for _, path := range stale {
		if rel, err := filepath.Rel(dir, path); err == nil {
			path = filepath.ToSlash(rel)
		}
		if verify {
			fmt.Fprintf(stderr, "%s: stale\n", path)
		} else {
			fmt.Fprintln(stdout, path)
		}
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	case verify && len(stale) > 0:
		fmt.Fprintf(stderr, "sizegen: run it again without -verify, and commit what it writes\n")
		return exitFailed
	case len(stale) > 0:
		if why := gen.Missing(dir, heapsizePath); why != "" {
			fmt.Fprintf(stderr, "sizegen: the files do not compile yet: %s\n", why)
		}
	case !slices.ContainsFunc(files, func(f gen.File) bool { return f.Data != nil }):
		fmt.Fprint(stderr, "sizegen: no roots in these packages\nTry: //sizegen:root above a type, or -root path.Type\n")
	}
	return exitOK
}

// heapsizePath is the package that generated files import.
const heapsizePath = "github.com/taredb/tare/sizegen/heapsize"

// compile builds the packages that have generated files, and returns the exit code.
func compile(dir string, files []gen.File, stderr io.Writer) int {
	args := []string{"build", "-o", os.DevNull}
	for _, f := range files {
		if rel, err := filepath.Rel(dir, filepath.Dir(f.Path)); err == nil && f.Data != nil && filepath.Base(f.Path) == gen.OutputFile {
			args = append(args, "./"+filepath.ToSlash(rel))
		}
	}
	if len(args) == 3 {
		return exitOK
	}
	build := exec.Command("go", args...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(stderr, "sizegen: the packages with generated files do not compile: %v\n%s", err, out)
		if why := gen.Missing(dir, heapsizePath); why != "" {
			fmt.Fprintf(stderr, "Try: %s\n", why)
		}
		return exitFailed
	}
	return exitOK
}

// update returns the paths of stale files, and writes or removes them if write is set.
func update(files []gen.File, write bool) ([]string, error) {
	var stale []string
	for _, f := range files {
		have, err := os.ReadFile(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if f.Data == nil {
				continue
			}
		case err != nil:
			return stale, err
		case f.Data != nil && bytes.Equal(have, f.Data):
			continue
		case !gen.IsGenerated(have):
			if f.Data == nil {
				continue // a file of that name that sizegen did not write
			}
			return stale, fmt.Errorf("%s is not of sizegen's making: rename it", f.Path)
		}
		stale = append(stale, f.Path)
		if !write {
			continue
		}
		if f.Data == nil {
			err = os.Remove(f.Path)
		} else {
			err = os.WriteFile(f.Path, f.Data, 0o644)
		}
		if err != nil {
			return stale, err
		}
	}
	return stale, nil
}
