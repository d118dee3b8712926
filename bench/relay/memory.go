package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/weigh"
)

// A Memory is the server's memory for one way and number of threads. The server was restarted before: allocators
// keep memory of connections that were closed.
type Memory struct {
	Workload string `json:"workload"`
	Threads  int    `json:"threads"`
	By       string `json:"by"`

	Before int64 `json:"before_bytes"` // resident without clients, with the table in memory
	Peak   int64 `json:"peak_bytes"`   // maximum of resident bytes, during the run
}

// measureMemory measures the server's memory for every way in turn.
func (l *lab) measureMemory(ctx context.Context, workload string, threads int) (all []Memory, err error) {
	for _, by := range l.options.Ways {
		m, err := l.memoryOf(ctx, by, workload, threads)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", by, err)
		}
		fmt.Fprintf(l.log, "%s, %d threads: %s: the server takes %d MiB, %d MiB before\n", workload, threads, by, m.Peak>>20, m.Before>>20)
		all = append(all, m)
	}
	return all, nil
}

func (l *lab) memoryOf(ctx context.Context, by, workload string, threads int) (m Memory, err error) {
	m = Memory{Workload: workload, Threads: threads, By: by}
	server := l.serverOf(by)
	if err := server.Restart(); err != nil {
		return m, err
	}
	if err := server.Exec("DO (SELECT SUM(LENGTH(c)) FROM " + testmysql.DefaultSchema + ".sbtest1)"); err != nil {
		return m, err
	}
	// After one login MySQL has the account in its cache; without, all clients authenticate by RSA.
	c, err := l.dial(ctx, server.Addr)
	if err != nil {
		return m, err
	}
	c.Close()
	w, err := l.openWay(ctx, by)
	if w != nil {
		defer func() { err = errors.Join(err, closeWays([]*way{w})) }()
	}
	if err != nil {
		return m, err
	}
	p, err := weigh.Open(server.Pid())
	if err != nil {
		return m, err
	}
	before, err := p.Usage()
	if err != nil {
		return m, err
	}
	// The kernel forgets the maximum until now, as of the start.
	if err := os.WriteFile("/proc/"+strconv.Itoa(server.Pid())+"/clear_refs", []byte("5"), 0); err != nil {
		return m, fmt.Errorf("reset the server's maximum of memory: %w", err)
	}
	if _, err := l.sysbench(workload, threads, w).run(ctx, l.options.Measured, nil, nil); err != nil {
		return m, err
	}
	after, err := p.Usage()
	m.Before, m.Peak = before.RSS, after.PeakRSS
	return m, err
}

// memory returns the cell of the table on a way's server.
func (r *Report) memory(workload string, threads int, by string) string {
	for _, m := range r.Memory {
		if m.Workload == workload && m.Threads == threads && m.By == by {
			return fmt.Sprintf("%.0f", float64(m.Peak)/(1<<20))
		}
	}
	return "–"
}
