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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/bench/smallblocks"
)

const (
	seriesPerBlock = 200
	manyBlocks     = 1000 // from which on each store starts once
)

// options are the command-line options.
type options struct {
	blocks         []int
	only           string // part of the places measured
	bucket         string
	tare, thanos   string // programs
	starts, rounds int
	latency, limit time.Duration
	atOnce         bool
	writeOnly      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manyblocks:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("manyblocks", flag.ContinueOnError)
	counts := f.String("blocks", "1,100,10000", "blocks of each bucket")
	f.StringVar(&o.only, "only", "", "measure only this place: directory or S3; default: both")
	f.StringVar(&o.bucket, "bucket", "", "directory of the buckets, which is kept; default: a temporary one")
	f.StringVar(&o.tare, "tare", "", "program to measure; default: built from this tree")
	f.StringVar(&o.thanos, "thanos", "../.tools/thanos-v0.41.0/thanos", "Thanos, built by .ci/thanos")
	f.IntVar(&o.starts, "starts", 5, fmt.Sprintf("starts of each store over less than %d blocks", manyBlocks))
	f.IntVar(&o.rounds, "rounds", 9, "queries after the first")
	f.DurationVar(&o.latency, "latency", 20*time.Millisecond, "time before each response of the S3 server")
	f.DurationVar(&o.limit, "limit", 25*time.Minute, "time of the whole run, after which it reports the stores measured so far and fails")
	f.BoolVar(&o.atOnce, "at-once", true, "measure Tare also with a query as soon as it is ready")
	f.BoolVar(&o.writeOnly, "write-only", false, "only write the buckets of -bucket")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for text := range strings.SplitSeq(*counts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-blocks %s: want numbers from 1", *counts)
		}
		o.blocks = append(o.blocks, n)
	}
	if f.NArg() > 0 || o.starts < 1 || o.rounds < 1 || o.latency < 0 || o.limit <= 0 {
		return nil, errors.New("want no arguments, -starts and -rounds from 1, -latency from 0, and -limit above 0")
	}
	return o, nil
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took longer than -limit %v", o.limit))
	defer cancel()
	tmp, err := os.MkdirTemp("", "manyblocks-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if o.bucket == "" {
		o.bucket = tmp
	}
	if o.bucket, err = filepath.Abs(o.bucket); err != nil {
		return err
	}
	for _, n := range o.blocks {
		if err := smallblocks.Write(ctx, o.dir(n), n, seriesPerBlock, out); err != nil {
			return err
		}
	}
	if o.writeOnly {
		return nil
	}
	if o.tare, err = programs.Tare(ctx, o.tare, tmp); err != nil {
		return err
	}
	r := report{}
	err = r.measure(ctx, o, tmp, out)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return errors.Join(err, r.write(out))
}

// dir returns the directory of the bucket with that many blocks.
func (o *options) dir(blocks int) string { return filepath.Join(o.bucket, strconv.Itoa(blocks)) }
