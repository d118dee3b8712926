package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// benchstat is the module version of benchstat.
const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20250305200902-02a15fd477ba"

// An origin is a change to repeat.
type origin struct {
	name   string // directory below -out
	source string // URL of the publication

	// measure writes benchmark lines of the baseline to old and of the product to new, and other results to
	// out. Charts are written to the directory docs.
	measure func(old, new, out io.Writer, docs string) error
}

func origins() []origin {
	return []origin{
		{"plancache", "vitessio/vitess#8804, cache: track memory usage more closely", measurePlanCache},
		{"blockseries", "grafana/mimir#3215, Store-Gateway: Reduce generated garbage when loading chunks from bucket block", measureBlockSeries},
		{"activeseries", "grafana/mimir#7665, frontend: use zero-allocation response decoder in shard active series middleware", measureActiveSeries},
		{"querylog", "vitessio/vitess#15539, logstats: do not allocate memory while logging", measureQueryLog},
		{"rows", "vitessio/vitess#7951, perf: vreplication client CPU usage", measureRows},
	}
}

func main() {
	only := flag.String("only", "", "name of the one to repeat; all when empty")
	dir := flag.String("out", "../bin/origins", "directory for the benchmark lines")
	docs := flag.String("docs", "../docs", "directory for the charts")
	kind := flag.String("part", "", "for the program's own use: the kind of process to be")
	spec := flag.String("case", "", "for the program's own use: its case")
	flag.Parse()
	var err error
	if *kind != "" {
		err = runPart(*kind, *spec)
	} else {
		err = run(*only, *dir, *docs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "origins:", err)
		os.Exit(1)
	}
}

func run(only, dir, docs string) error {
	found := false
	for _, o := range origins() {
		if only != "" && only != o.name {
			continue
		}
		found = true
		if err := repeat(o, filepath.Join(dir, o.name), docs); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	if !found {
		return fmt.Errorf("there is no origin %q", only)
	}
	return nil
}

func repeat(o origin, dir, docs string) error {
	fmt.Printf("== %s: %s\n\n", o.name, o.source)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a place for the lines: %w", err)
	}
	names := []string{filepath.Join(dir, "old.txt"), filepath.Join(dir, "new.txt")}
	if err := measureInto(o, names, docs); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"run", benchstat}, names...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run benchstat: %w", err)
	}
	fmt.Println()
	return compare(o.name, names)
}

// compare prints all rows beside the published ones, and upstream's current code.
func compare(origin string, names []string) error {
	t, err := publishedTable(origin)
	if err != nil {
		return err
	}
	for side, name := range names {
		if err := t.addSide(side, name); err != nil {
			return err
		}
	}
	if err := t.write(os.Stdout); err != nil {
		return err
	}
	for _, u := range upstreams(origin) {
		if err := u.measure(os.Stdout); err != nil {
			return fmt.Errorf("%s: %w", u.what, err)
		}
	}
	fmt.Println()
	return nil
}

// measureInto writes the lines to the files.
func measureInto(o origin, names []string, docs string) (err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, name := range names {
		f, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("write lines: %w", err)
		}
		files = append(files, f)
	}
	return o.measure(files[0], files[1], os.Stdout, docs)
}
