package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/testmysql"
)

// Ways. Ratios are to the first of byHAProxy, byAgainst and byBare that is measured, or else to the first way.
const (
	byDirect    = "direct"
	byHAProxy   = "haproxy"
	byForwarder = "forwarder"
	byThreads   = "threads" // direct, to a MariaDB with a thread pool
	byRouter    = "router"  // MySQL Router, one route
	bySharing   = "sharing" // the same, with connection sharing
	byTare      = "tare"    // tare with one log line per statement

	byBare    = "bare"    // tare without log and digests
	byLog     = "log"     // the same as byTare, without digests
	byHistory = "history" // tare with a history in a bucket
	byBoth    = "both"    // tare with log and history
	byPool    = "pool"    // the same, with eight shared connections
	byPiped   = "piped"   // the same, with eight statements in flight on each

	byAgainst = "against" // the binary of -against, with the flags of byTare
)

// parseWays returns the ways of -ways or, if it is empty, those that the other options imply.
func (o *Options) parseWays(list string) ([]string, error) {
	switch {
	case list != "" && (o.History || o.Against != ""):
		return nil, fmt.Errorf("-ways takes neither -history nor -against")
	case list != "":
		ways := strings.Split(list, ",")
		known := []string{byDirect, byThreads, byHAProxy, byRouter, bySharing, byForwarder, byTare, byBare, byLog, byHistory, byBoth, byPool, byPiped}
		for i, by := range ways {
			if !slices.Contains(known, by) || slices.Contains(ways[:i], by) {
				return nil, fmt.Errorf("-ways: %q is unknown or repeated; want some of %s", by, strings.Join(known, ", "))
			}
		}
		for _, by := range [...]string{byForwarder, byRouter, bySharing} {
			if o.TLS && slices.Contains(ways, by) {
				return nil, fmt.Errorf("-ways: %s does not decrypt; leave it out with -tls", by)
			}
		}
		if o.TLS && slices.Contains(ways, byThreads) {
			return nil, errors.New("-ways: the server of threads has another certificate; leave it out with -tls")
		}
		if !o.MySQL && slices.Contains(ways, bySharing) {
			return nil, errors.New("-ways: MySQL Router shares no connections of MariaDB, which has no session_track_gtids; sharing requires -mysql")
		}
		if o.MySQL && slices.Contains(ways, byThreads) {
			return nil, errors.New("-ways: MySQL has no thread pool; leave out threads with -mysql")
		}
		if o.Idle > 0 && !isTare(ways[0]) {
			return nil, fmt.Errorf("-ways: %s has no connections of tare for -idle", ways[0])
		}
		return ways, nil
	case o.Idle > 0:
		return []string{byTare}, nil
	case o.History:
		return []string{byBare, byLog, byHistory, byBoth}, nil
	case o.Against != "":
		return []string{byAgainst, byTare}, nil
	case o.TLS:
		return []string{byDirect, byHAProxy, byTare}, nil
	}
	return []string{byDirect, byHAProxy, byForwarder, byTare}, nil
}

// measures reports whether all of the ways are measured.
func (o *Options) measures(ways ...string) bool {
	for _, by := range ways {
		if !slices.Contains(o.Ways, by) {
			return false
		}
	}
	return true
}

// base returns the way that ratios refer to.
func (o *Options) base() string {
	for _, by := range [...]string{byHAProxy, byAgainst, byBare} {
		if o.measures(by) {
			return by
		}
	}
	return o.Ways[0]
}

// isTare reports whether a way is a configuration of tare.
func isTare(by string) bool {
	switch by {
	case byDirect, byThreads, byHAProxy, byRouter, bySharing, byForwarder, byAgainst:
		return false
	}
	return true
}

// shares reports whether a way is a configuration with shared connections.
func shares(by string) bool { return by == byPool || by == byPiped }

// isDirect reports whether a way has no proxy.
func isDirect(by string) bool { return by == byDirect || by == byThreads }

// A way is a connection to a server.
type way struct {
	by      string
	server  *testmysql.Server
	addr    string
	process *child.Child // nil without a proxy
	legs    *child.Child // encrypts for a proxy that cannot speak MySQL's TLS; mostly nil
	http    string       // address of tare's pages; empty: off
	log     string       // file that grows with each statement; empty for none
	dir     string       // directory that the process writes to; empty for none
}

// tools are the paths of the executables; empty for those that do not participate.
type tools struct{ sysbench, haproxy, router, forwarder, tare, against string }

// findTools finds the installed programs, and builds those of this project into dir.
func findTools(ctx context.Context, dir string, o *Options) (tools, error) {
	p := tools{against: o.Against}
	var errs [3]error
	p.sysbench, errs[0] = programs.Look("sysbench")
	if o.measures(byHAProxy) {
		p.haproxy, errs[1] = programs.Look("haproxy")
	}
	if o.measures(byRouter) || o.measures(bySharing) {
		p.router, errs[2] = programs.Look("mysqlrouter")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return tools{}, err
	}
	if o.measures(byForwarder) {
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
	for _, by := range l.options.Ways {
		w, err := l.openWay(ctx, by)
		if w != nil {
			ways = append(ways, w)
		}
		if err != nil {
			return ways, err
		}
	}
	return ways, nil
}

// openWay starts the proxy of one way. A way is returned also after an error, if there is something to close.
func (l *lab) openWay(ctx context.Context, by string) (*way, error) {
	server := l.serverOf(by)
	if isDirect(by) {
		return &way{by: by, server: server, addr: server.Addr}, nil
	}
	addr, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	w, err := l.start(ctx, by, addr)
	if w != nil {
		if w.server = server; w.addr == "" {
			w.addr = addr
		}
	}
	return w, err
}

// serverOf returns the server that a way leads to.
func (l *lab) serverOf(by string) *testmysql.Server {
	if by == byThreads {
		return l.threads
	}
	return l.server
}

func (l *lab) start(ctx context.Context, by, addr string) (*way, error) {
	switch by {
	case byHAProxy:
		return l.startHAProxy(ctx, addr)
	case byRouter, bySharing:
		return l.startRouter(ctx, by, addr)
	case byForwarder:
		return l.startForwarder(ctx, addr)
	}
	return l.startTare(ctx, by, addr)
}

func closeWays(ways []*way) error {
	var errs []error
	for _, w := range ways {
		for _, p := range [...]*child.Child{w.legs, w.process} {
			if p != nil {
				errs = append(errs, p.Stop(programs.StopGrace))
			}
		}
		if w.dir != "" {
			errs = append(errs, os.RemoveAll(w.dir))
		}
	}
	return errors.Join(errs...)
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
	if pages != "off" {
		w.http = pages
	}
	args := []string{
		"serve", "--listen", addr, "--backend", "mysql://" + l.server.Addr,
		"--http", pages, "--cpus", strconv.Itoa(l.options.CPUs),
	}
	if n := l.options.Idle; n > 0 {
		args = append(args, "--max-connections", strconv.Itoa(n+idleDials), "--return-idle-memory", idleReturn.String())
	}
	if l.options.TLS {
		args = append(args, "--tls-cert", l.certificate, "--tls-key", l.key, "--client-tls", "required", "--backend-tls", "required")
	}
	if by != byBare {
		args = append(args, "--data-dir", filepath.Join(dir, "data"))
	}
	if by == byTare || by == byAgainst || by == byLog || by == byBoth || shares(by) {
		w.log = filepath.Join(dir, "query.log")
		args = append(args, "--log-file", w.log)
	}
	if by == byHistory || by == byBoth || shares(by) {
		bucket := filepath.Join(dir, "bucket")
		if err := os.Mkdir(bucket, 0o700); err != nil {
			return nil, err
		}
		args = append(args, "--bucket", "file://"+bucket)
	}
	if shares(by) {
		accounts := filepath.Join(dir, "accounts.yaml")
		if err := os.WriteFile(accounts, []byte(testmysql.AppUser+": "+testmysql.Password+"\n"), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--pool", "transaction", "--pool-accounts", accounts, "--pool-max", "8")
		if !l.options.TLS {
			args = append(args, "--backend-get-public-key")
		}
	}
	if by == byPiped {
		args = append(args, "--pool-depth", "8")
	}
	if by == byBare || by == byLog {
		args = append(args, "--history-max-digests", "0")
	}
	program := l.tools.tare
	if by == byAgainst {
		program = l.tools.against
	}
	w.process, err = programs.Serve(ctx, by, addr, program, args...)
	return w, err
}
