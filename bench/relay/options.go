package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are the command-line options.
type Options struct {
	Workloads []string      `json:"workloads"`
	Threads   []int         `json:"threads"`
	Rounds    int           `json:"rounds"`
	Measured  time.Duration `json:"measured_ns"` // of a run
	WarmUp    time.Duration `json:"warm_up_ns"`  // of a way in a cell, before its first round; 0: none
	Rows      int           `json:"rows"`        // in the table

	Tare    string `json:"-"` // binary; built from the tree if empty
	Against string `json:"-"` // another binary to compare with, instead of other proxies

	CPUs int  `json:"cpus"` // of tare, by --cpus
	HTTP bool `json:"http"` // enable tare's pages and metrics

	// Ways are the measured ways; see ways.
	Ways []string `json:"ways"`

	// History compares tare with itself: bare, with its log, with its history, and with both.
	History bool `json:"history"`

	// TLS encrypts both legs of every way.
	TLS bool `json:"tls"`

	// MySQL measures a MySQL server, in place of MariaDB.
	MySQL bool `json:"mysql"`

	// ServerMemory measures the server's memory for each cell and way, after a restart.
	ServerMemory bool `json:"server_memory"`

	// Slow measures fast statements beside slow ones, in place of sysbench's workloads.
	Slow bool `json:"-"`

	// Collect is the interval of forced garbage collections in tare; 0: none are forced.
	Collect time.Duration `json:"collect_ns"`

	// Idle is a number of idle connections, whose memory is measured instead of time; 0: none.
	Idle int `json:"-"`

	JSON  string `json:"-"` // file for all rounds; none if empty
	Bench string `json:"-"` // file for benchmark lines; none if empty
	Count bool   `json:"-"`
}

func parseOptions(args []string) (*Options, error) {
	o := &Options{}
	fs := flag.NewFlagSet("relay", flag.ContinueOnError)
	var workloads, threads, ways string
	var seconds, warmUp int
	fs.StringVar(&workloads, "workloads", "oltp_point_select,oltp_read_only", "sysbench `workloads`, by comma")
	fs.StringVar(&threads, "threads", "1,8,256", "`numbers` of threads, by comma")
	fs.IntVar(&o.Rounds, "rounds", 5, "rounds of each workload and number of threads")
	fs.IntVar(&seconds, "seconds", 10, "`seconds` of a run")
	fs.IntVar(&warmUp, "warm-up", 1, "`seconds` of an unmeasured run over each way, before the first round")
	fs.IntVar(&o.Rows, "rows", 100_000, "`rows` in the table")
	fs.StringVar(&o.Tare, "tare", "", "tare `binary`; built from the tree when empty")
	fs.StringVar(&o.Against, "against", "", "compare tare with another tare `binary`, not with others")
	fs.IntVar(&o.CPUs, "cpus", 0, "tare serve --cpus")
	fs.BoolVar(&o.HTTP, "http", false, "tare serve with --http on a free port, not off")
	fs.BoolVar(&o.History, "history", false, "compare tare serve without log and history, with either and with both, not with others")
	fs.StringVar(&ways, "ways", "", "`ways` to measure, by comma: direct, threads, haproxy, router, sharing, forwarder, tare, bare, log, history, both, pool, piped")
	fs.BoolVar(&o.ServerMemory, "server-memory", false, "measure also the server's memory, after a restart for each cell and way")
	fs.BoolVar(&o.Slow, "slow", false, "measure fast statements while 1 % are slow, not sysbench's workloads")
	fs.BoolVar(&o.MySQL, "mysql", false, "measure the mysqld of MySQL in PATH, not MariaDB")
	fs.BoolVar(&o.TLS, "tls", false, "encrypt both legs of every way")
	fs.DurationVar(&o.Collect, "collect", 0, "force a garbage collection in tare at this `interval`; implies -http")
	fs.IntVar(&o.Idle, "idle", 0, "measure the memory of this `number` of idle connections through tare instead of time")
	fs.StringVar(&o.JSON, "json", "", "write all rounds to `file`")
	fs.StringVar(&o.Bench, "bench", "", "write benchmark lines for benchstat to `file`")
	fs.BoolVar(&o.Count, "count", false, "count system calls, context switches and instructions instead of measuring time")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.MySQL && o.Idle > 0 {
		return nil, errors.New("-idle needs MariaDB, which has no thread per connection then: leave out -mysql")
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.Workloads = strings.Split(workloads, ",")
	for word := range strings.SplitSeq(threads, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("-threads: %w", err)
		}
		o.Threads = append(o.Threads, n)
	}
	var err error
	if o.Ways, err = o.parseWays(ways); err != nil {
		return nil, err
	}
	if o.Collect > 0 || o.Idle > 0 {
		o.HTTP = true
	}
	o.Measured = time.Duration(seconds) * time.Second
	o.WarmUp = time.Duration(warmUp) * time.Second
	switch {
	case slices.Contains(o.Workloads, ""):
		return nil, fmt.Errorf("-workloads: %q has an empty name", workloads)
	case slices.Min(o.Threads) < 1 || slices.Max(o.Threads) > maxThreads:
		return nil, fmt.Errorf("-threads: want 1 to %d each", maxThreads)
	case o.Slow && o.Rows < slowEvery:
		return nil, fmt.Errorf("-slow: want at least %d -rows", slowEvery)
	case o.Rounds < 1 || seconds < 1 || o.Rows < 1:
		return nil, fmt.Errorf("-rounds, -seconds and -rows: want 1 at least")
	case warmUp < 0 || o.CPUs < 0:
		return nil, fmt.Errorf("-warm-up and -cpus: want 0 at least")
	case o.Slow && (o.Count || o.Idle > 0 || o.JSON != "" || o.Bench != "" || o.ServerMemory || o.Collect > 0):
		return nil, fmt.Errorf("-slow takes neither -count, -idle, -json, -bench, -server-memory nor -collect")
	case o.ServerMemory && (o.Count || o.Idle > 0):
		return nil, fmt.Errorf("-server-memory takes neither -count nor -idle")
	case o.Count && o.History:
		return nil, fmt.Errorf("-count and -history: want one of them")
	case o.Against != "" && (o.Count || o.History):
		return nil, fmt.Errorf("-against takes neither -count nor -history")
	case o.Collect < 0 || o.Collect > 0 && o.Count:
		return nil, fmt.Errorf("-collect: want an interval, without -count")
	case o.Idle < 0 || o.Idle > 0 && (o.Count || o.JSON != "" || o.Bench != "" || o.History || len(o.Ways) != 1):
		return nil, fmt.Errorf("-idle: want a number, one of tare's ways, and neither -count, -json nor -bench")
	case o.Count && (o.JSON != "" || o.Bench != ""):
		return nil, fmt.Errorf("-count writes no -json and no -bench")
	}
	return o, nil
}
