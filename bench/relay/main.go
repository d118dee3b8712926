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
	"syscall"

	"github.com/taredb/tare/internal/testmysql"
)

// maxThreads leaves some of the server's connections for other clients.
const maxThreads = 1024

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted") // replaces the errors caused by the interruption
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "relay:", err)
		stop()
		os.Exit(1)
	}
}

// run measures or counts everything, and writes progress to log.
func run(ctx context.Context, o *Options, out, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "tare-relay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := findTools(ctx, dir, o)
	if err != nil {
		return err
	}
	connections := max(maxThreads, o.Idle)
	// Twice as many: the server still closes those of the way before.
	settings := []testmysql.Option{testmysql.WithArgs("--innodb-buffer-pool-size=512M",
		fmt.Sprintf("--max-connections=%d", 2*connections+50))}
	if o.Idle > 0 {
		if err := raiseFileLimit(connections); err != nil {
			return err
		}
		settings = append(settings, testmysql.WithArgs("--thread-handling=pool-of-threads")) // no thread per connection
	}
	if o.TLS {
		settings = append(settings, testmysql.WithTLS())
	}
	if o.MySQL {
		settings = append(settings, testmysql.WithMySQL())
	}
	server, err := testmysql.New(settings...)
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	l := &lab{options: o, tools: t, server: server, dir: dir, log: log}
	if o.measures(byThreads) {
		if l.threads, err = testmysql.New(append(settings, testmysql.WithArgs("--thread-handling=pool-of-threads"))...); err != nil {
			return fmt.Errorf("start a server with a thread pool: %w", err)
		}
		defer func() { err = errors.Join(err, l.threads.Close()) }()
	}
	if o.TLS {
		if err := l.prepareTLS(); err != nil {
			return err
		}
	}
	for _, s := range [...]*testmysql.Server{l.server, l.threads} {
		if s == nil {
			continue
		}
		fmt.Fprintf(log, "filling a table of %d rows\n", o.Rows)
		if err := l.sysbench(o.Workloads[0], 1, &way{by: byDirect, addr: s.Addr}).prepare(ctx); err != nil {
			return err
		}
	}
	if o.Idle > 0 {
		return l.measureIdle(ctx, out)
	}
	if o.Slow {
		return l.measureSlow(ctx, out)
	}
	if o.Count {
		counts, err := l.countAll(ctx)
		if err != nil {
			return err
		}
		return writeCounts(out, counts)
	}
	report, err := l.measureAll(ctx)
	if err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer, *Report) error{o.JSON: writeJSON, o.Bench: writeBench} {
		if name == "" {
			continue
		}
		if err := writeFile(name, report, write); err != nil {
			return err
		}
	}
	return writeTable(out, report)
}

func writeFile(name string, r *Report, write func(io.Writer, *Report) error) error {
	f, err := os.Create(filepath.Clean(name))
	if err != nil {
		return err
	}
	return errors.Join(write(f, r), f.Close())
}
