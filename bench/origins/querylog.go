package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/testmysql"
)

const (
	logRate    = 2000 // statements per second: well below the capacity of both
	logRuns    = 10   // for benchstat
	logRunTime = 2 * time.Second
)

// A gatewayCase is a gateway in a separate process: with its log off, with the baseline's log, or with the
// product's; and the number of concurrent readers of the log.
type gatewayCase struct {
	Log     string `json:"log"` // off, old, new
	Readers int    `json:"readers"`
	Backend string `json:"backend"`
	File    string `json:"file"`
}

func (c *gatewayCase) name() string {
	switch {
	case c.Log == "off":
		return "OLTP/log=off"
	case c.Readers > 0:
		return fmt.Sprintf("OLTP/log=on,readers=%d", c.Readers)
	}
	return "OLTP/log=on"
}

// publishedMetrics returns the metrics of the publication, and the cost per statement derived from them.
func publishedMetrics() []string {
	return []string{"UserCPU/s", "IdleCPU/s", "GCCPU/s", "KB/s", "allocs/s", "CPU-ns/query"}
}

// measureQueryLog repeats vitessio/vitess#15539.
func measureQueryLog(old, new, out io.Writer, _ string) (err error) {
	server, err := testmysql.New()
	if err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp("", "tare-origins-")
	if err != nil {
		return fmt.Errorf("make a place for the logs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tare, err := programs.Tare(context.Background(), "", dir)
	if err != nil {
		return err
	}
	for _, c := range []gatewayCase{{Log: "off"}, {Log: "old"}, {Log: "new"}, {Log: "old", Readers: 3}, {Log: "new", Readers: 3}} {
		c.Backend, c.File = server.Addr, filepath.Join(dir, "query.log")
		fmt.Fprintf(out, "%s, log %s: %d runs of %v at %d statements a second\n", c.name(), c.Log, logRuns, logRunTime, logRate)
		result, err := weighGateway(tare, server, c)
		if err != nil {
			return fmt.Errorf("%s, log %s: %w", c.name(), c.Log, err)
		}
		for _, to := range map[string][]io.Writer{"off": {old, new}, "old": {old}, "new": {new}}[c.Log] {
			if _, err := to.Write(result.lines(c.name())); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
		}
		if err := os.Remove(c.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the log: %w", err)
		}
	}
	fmt.Fprintln(out)
	return nil
}

// weighGateway runs a gateway under the load of the given tare.
func weighGateway(tare string, server *testmysql.Server, c gatewayCase) (result oltpResult, err error) {
	var g gatewayAddrs
	p, err := startPart("gateway", c, &g)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	if c.Log == "new" {
		for range c.Readers {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.HTTP+"/debug/querylog?history=0", nil)
			if err != nil {
				return result, fmt.Errorf("read the log: %w", err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return result, fmt.Errorf("read the log: %w", err)
			}
			reading.Go(func() {
				_, _ = io.Copy(io.Discard, resp.Body) // until stop
				resp.Body.Close()
			})
		}
	}
	cfg := server.Config(testmysql.AppUser)
	cfg.Addr, cfg.DBName = g.Listen, testmysql.DefaultSchema
	load := exec.CommandContext(ctx, tare, "bench", "oltp", "--json", "--dsn", cfg.FormatDSN(), "--prepared", "--rows", "10000",
		"--rate", strconv.Itoa(logRate), "--count", strconv.Itoa(logRuns), "--duration", logRunTime.String(),
		"--pid", strconv.Itoa(p.cmd.Process.Pid), "--metrics", g.HTTP+"/metrics")
	var stderr bytes.Buffer
	load.Stderr = &stderr
	out, err := load.Output()
	if err != nil {
		return result, fmt.Errorf("tare bench oltp: %w\n%s", err, stderr.Bytes())
	}
	var results struct{ Benchmarks []oltpResult }
	if err := json.Unmarshal(out, &results); err != nil || len(results.Benchmarks) != 1 {
		return result, fmt.Errorf("tare bench oltp printed no result: %w\n%s", err, out)
	}
	return results.Benchmarks[0], nil
}

// An oltpResult is one benchmark as tare bench oltp prints it.
type oltpResult struct {
	Threads int
	Runs    []struct {
		Operations uint64
		Metrics    map[string]json.Number
	}
}

// lines returns the published metrics as Go benchmark lines, one per run.
func (r *oltpResult) lines(name string) []byte {
	b := fmt.Appendf(nil, "goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
	for _, run := range r.Runs {
		b = fmt.Appendf(b, "Benchmark%s-%d\t%8d", name, r.Threads, run.Operations)
		for _, unit := range publishedMetrics() {
			if value, ok := run.Metrics[unit]; ok {
				b = fmt.Appendf(b, "\t%12s %s", value, unit)
			}
		}
		b = append(b, '\n')
	}
	return b
}

// gatewayAddrs are the addresses of a gateway.
type gatewayAddrs struct {
	Listen string `json:"listen"`
	HTTP   string `json:"http"`
}
