package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/bench/smallblocks"
)

// shortest is the least number of blocks: the shortest range query covers a day.
var shortest = len(smallblocks.Clusters()) * smallblocks.SlotsPerDay

// options are the command-line options.
type options struct {
	blocks, series  int
	bucket          string
	only            string // part of the names of the measured configurations
	tare, thanos    string // programs
	memcached       string // program; "": not measured
	rounds, clients int
	load            time.Duration
	limit           time.Duration // of the whole run
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.IntVar(&o.blocks, "blocks", 10_000, "blocks in the bucket")
	f.IntVar(&o.series, "series", 200, "series in each block")
	f.StringVar(&o.bucket, "bucket", "", "directory of the blocks, which is kept; default: a temporary one")
	f.StringVar(&o.only, "only", "", "measure only configurations whose name has this text, beside the first; default: all")
	f.StringVar(&o.tare, "tare", "", "program to measure; default: built from this tree")
	f.StringVar(&o.thanos, "thanos", "../.tools/thanos-v0.41.0/thanos", "Thanos, built by .ci/thanos")
	f.StringVar(&o.memcached, "memcached", "", "memcached program; default: none")
	f.IntVar(&o.rounds, "rounds", 5, "repetitions of each query after the first")
	f.IntVar(&o.clients, "clients", 3, "concurrent clients of the load")
	f.DurationVar(&o.load, "load", 30*time.Second, "time of the load: a third before an instance is killed, a third without it, a third after its start; 0: none")
	f.DurationVar(&o.limit, "limit", 25*time.Minute, "time of the whole run, after which it reports the configurations measured so far and fails")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.blocks < shortest || o.series < 1 || o.rounds < 1 || o.clients < 1 || o.load < 0 || o.limit <= 0 {
		return nil, fmt.Errorf("want no arguments, -blocks from %d, -series, -rounds and -clients from 1, -load from 0, and -limit above 0", shortest)
	}
	return o, nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took longer than -limit %v", o.limit))
	defer cancel()
	tmp, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if o.bucket == "" {
		o.bucket = filepath.Join(tmp, "bucket")
	}
	if o.bucket, err = filepath.Abs(o.bucket); err != nil {
		return err
	}
	if o.tare, err = programs.Tare(ctx, o.tare, tmp); err != nil {
		return err
	}
	if err := smallblocks.Write(ctx, o.bucket, o.blocks, o.series, out); err != nil {
		return err
	}
	configurations := []configuration{{"tare × 1", 1, tareStore}, {"tare × 3", 3, tareStore}, {"thanos × 3", 3, thanosStore}}
	if o.memcached != "" {
		configurations = append(configurations, configuration{"tare × 3, memcached", 3, memcachedStore})
	}
	configurations = append(configurations, configuration{"tare × 1, again", 1, tareStore})
	r := report{queries: queriesOf(o), rounds: o.rounds}
	for i, c := range configurations {
		if i > 0 && !strings.Contains(c.name, o.only) {
			continue
		}
		if err := c.measure(ctx, o, &r); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return errors.Join(fmt.Errorf("%s: %w", c.name, err), r.write(out))
		}
		fmt.Fprintf(out, "measured: %s\n", c.name)
	}
	return r.write(out)
}
