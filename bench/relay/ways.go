package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/child"
)

// Ways. Ratios are to byHAProxy, with -history to byBare, with -against to byAgainst.
const (
	byDirect    = "direct"
	byHAProxy   = "haproxy"
	byForwarder = "forwarder"
	byTare      = "tare"

	byBare    = "bare"    // tare without log and digests
	byLog     = "log"     // tare with one log line per statement
	byHistory = "history" // tare with a history in a bucket
	byBoth    = "both"

	byAgainst = "against" // the binary of -against, with the flags of byTare
)

// ways returns the measured ways, in the order of the tables, and the one that ratios refer to.
func (o *Options) ways() (all []string, base string) {
	switch {
	case o.History:
		return []string{byBare, byLog, byHistory, byBoth}, byBare
	case o.Against != "":
		return []string{byAgainst, byTare}, byAgainst
	}
	return []string{byDirect, byHAProxy, byForwarder, byTare}, byHAProxy
}

// A way is a connection to the server.
type way struct {
	by      string
	addr    string
	process *child.Child // nil for byDirect
	log     string       // file that grows with each statement; empty for none
	dir     string       // directory that the process writes to; empty for none
}

// tools are the paths of the executables; empty for those that do not participate.
type tools struct{ sysbench, haproxy, forwarder, tare, against string }

// findTools finds the installed programs, and builds those of this project into dir.
func findTools(ctx context.Context, dir string, o *Options) (tools, error) {
	p := tools{against: o.Against}
	others := !o.History && o.Against == "" // HAProxy and the forwarder
	var errs [2]error
	p.sysbench, errs[0] = programs.Look("sysbench")
	if others {
		p.haproxy, errs[1] = programs.Look("haproxy")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return tools{}, err
	}
	if others {
		p.forwarder = filepath.Join(dir, "forwarder")
		if err := programs.Build(ctx, p.forwarder, ".", "./baseline/forwarder"); err != nil {
			return tools{}, err
		}
	}
	var err error
	p.tare, err = programs.Tare(ctx, o.Tare, dir)
	return p, err
}

// openWays starts the proxies. The caller closes the ways, also after an error.
func (l *lab) openWays(ctx context.Context) (ways []*way, err error) {
	names, _ := l.options.ways()
	for _, by := range names {
		if by == byDirect {
			ways = append(ways, &way{by: byDirect, addr: l.server.Addr})
			continue
		}
		addr, err := programs.FreeAddress()
		if err != nil {
			return ways, err
		}
		w, err := l.start(ctx, by, addr)
		if err != nil {
			return ways, err
		}
		w.addr = addr
		ways = append(ways, w)
	}
	return ways, nil
}

func (l *lab) start(ctx context.Context, by, addr string) (*way, error) {
	switch by {
	case byHAProxy:
		return l.startHAProxy(ctx, addr)
	case byForwarder:
		return l.startForwarder(ctx, addr)
	}
	return l.startTare(ctx, by, addr)
}

func closeWays(ways []*way) error {
	var errs []error
	for _, w := range ways {
		if w.process != nil {
			errs = append(errs, w.process.Stop(programs.StopGrace))
		}
		if w.dir != "" {
			errs = append(errs, os.RemoveAll(w.dir))
		}
	}
	return errors.Join(errs...)
}

// haproxyConfig is HAProxy's default configuration, except for mandatory settings and the number of
// connections. It runs one thread per CPU.
const haproxyConfig = `global
    maxconn 4096
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen mysql
    bind %s
    server db %s
`

func (l *lab) startHAProxy(ctx context.Context, addr string) (*way, error) {
	file := filepath.Join(l.dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, addr, l.server.Addr), 0o600); err != nil {
		return nil, err
	}
	p, err := programs.Serve(ctx, byHAProxy, addr, l.tools.haproxy, "-db", "-q", "-f", file)
	return &way{by: byHAProxy, process: p}, err
}

func (l *lab) startForwarder(ctx context.Context, addr string) (*way, error) {
	p, err := programs.Serve(ctx, byForwarder, addr, l.tools.forwarder, "-listen", addr, "-backend", l.server.Addr)
	return &way{by: byForwarder, process: p}, err
}

// startTare starts the gateway with a log of all statements, unless the name of the way specifies another
// configuration.
func (l *lab) startTare(ctx context.Context, by, addr string) (*way, error) {
	pages := "off"
	if l.options.HTTP {
		var err error
		if pages, err = programs.FreeAddress(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(l.dir, by+"-")
	if err != nil {
		return nil, err
	}
	w := &way{by: by, dir: dir}
	args := []string{
		"serve", "--listen", addr, "--backend", "mysql://" + l.server.Addr,
		"--http", pages, "--cpus", strconv.Itoa(l.options.CPUs),
	}
	if by != byBare {
		args = append(args, "--data-dir", filepath.Join(dir, "data"))
	}
	if by == byTare || by == byAgainst || by == byLog || by == byBoth {
		w.log = filepath.Join(dir, "query.log")
		args = append(args, "--log-file", w.log)
	}
	if by == byHistory || by == byBoth {
		bucket := filepath.Join(dir, "bucket")
		if err := os.Mkdir(bucket, 0o700); err != nil {
			return nil, err
		}
		args = append(args, "--bucket", "file://"+bucket)
	}
	if by == byBare || by == byLog {
		args = append(args, "--history-max-digests", "0")
	}
	program := l.tools.tare
	if by == byAgainst {
		program = l.tools.against
	}
	if w.process, err = programs.Serve(ctx, by, addr, program, args...); err != nil {
		return nil, err
	}
	return w, nil
}
