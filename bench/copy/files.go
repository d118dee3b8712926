package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
)

// A filer is a tool that dumps the table to a directory and loads it from there.
type filer struct {
	name       string
	dump, load []string
	times      [2][]usage // of dumping and loading, one per round
	bytes      int64      // of the directory
}

// A usage is the wall time and the CPU time of a command.
type usage struct{ wall, cpu, rss float64 } // seconds, seconds, MiB of the largest process

// filers returns the tools under comparison.
func (l *lab) filers(ctx context.Context, o *options, dir string) ([]*filer, error) {
	if err := l.build(ctx, o); err != nil {
		return nil, err
	}
	long := func(s *testmysql.Server) string {
		return fmt.Sprintf("--host=127.0.0.1 --port=%d --user=%s --password=%s --database=%s --threads=2", s.Port(), testmysql.RootUser, testmysql.Password, schema)
	}
	var all []*filer
	for _, n := range o.workers {
		workers := fmt.Sprint(n)
		all = append(all, &filer{
			name: "tare copy --workers " + workers,
			dump: []string{o.tare, "copy", "--from", url(testmysql.RootUser, l.source), "--to", "file://" + dir, "--tables", schema + "." + table, "--workers", workers},
			load: []string{o.tare, "copy", "--from", "file://" + dir, "--to", url(testmysql.RootUser, l.target), "--tables", schema + "." + table, "--workers", workers},
		})
	}
	for _, compress := range []string{"", " --compress"} {
		all = append(all, &filer{
			name: "mydumper" + compress + " + myloader, 2 threads",
			dump: strings.Fields("mydumper " + long(l.source) + " --rows=100000 --outputdir=" + dir + compress),
			load: strings.Fields("myloader " + long(l.target) + " --overwrite-tables --directory=" + dir),
		})
	}
	return all, nil
}

// files compares dumping the table to files, and loading them.
func (l *lab) files(ctx context.Context, o *options, out, log io.Writer) error {
	dir := filepath.Join(l.dir, "dump")
	all, err := l.filers(ctx, o, dir)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		for i := range all {
			f := all[(i+round)%len(all)]
			if err := l.measureFiles(ctx, f, dir, log); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	t := tabwriter.NewWriter(out, 0, 4, 1, ' ', 0)
	fmt.Fprintln(t, "| by\t| dump wall s\t| CPU s\t| RSS MiB\t| load wall s\t| CPU s\t| RSS MiB\t| MB of files\t|")
	fmt.Fprintln(t, "|---\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|")
	for _, f := range all {
		fmt.Fprintf(t, "| %s\t", f.name)
		for _, times := range f.times {
			for _, of := range []func(usage) float64{func(u usage) float64 { return u.wall }, func(u usage) float64 { return u.cpu }, func(u usage) float64 { return u.rss }} {
				var values []float64
				for _, u := range times {
					values = append(values, of(u))
				}
				fmt.Fprintf(t, "| %.2f\t", programs.Median(values))
			}
		}
		fmt.Fprintf(t, "| %.0f\t|\n", float64(f.bytes)/1e6)
	}
	return t.Flush()
}

// measureFiles dumps and loads once, and checks the copy.
func (l *lab) measureFiles(ctx context.Context, f *filer, dir string, log io.Writer) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := l.target.Exec("DROP DATABASE IF EXISTS _tare", "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema); err != nil {
		return err
	}
	for i, command := range [][]string{f.dump, f.load} {
		u, err := used(ctx, command)
		if err != nil {
			return err
		}
		f.times[i] = append(f.times[i], u)
		fmt.Fprintf(log, "%-40s %s %6.1f s, CPU %5.2f s, RSS %5.1f MiB\n", f.name, []string{"dump", "load"}[i], u.wall, u.cpu, u.rss)
	}
	f.bytes = 0
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			f.bytes += info.Size()
		}
		return err
	}); err != nil {
		return err
	}
	return l.compare(ctx)
}

// used runs a command and returns what it has used.
func used(ctx context.Context, command []string) (usage, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	began := time.Now()
	text, err := cmd.CombinedOutput()
	wall := time.Since(began)
	if err != nil {
		return usage{}, fmt.Errorf("%w\n%s", err, text)
	}
	r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, errors.New("the system reports no resource usage")
	}
	return usage{wall.Seconds(), time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds(), float64(r.Maxrss) / 1024}, nil
}
