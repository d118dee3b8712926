package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/weigh"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// Goals for idle connections.
const (
	maxIdleRSS       = 160 << 20 // with goalIdle connections, to which other numbers are extrapolated
	maxIdlePerClient = 12 << 10
	goalIdle         = 10_000
)

const (
	idleDials   = 16               // concurrent logins
	idleSettles = 3                // collections, since each halves an unused stack at most once
	idleWait    = 20 * time.Second // of one login and statement
)

// A footprint is the memory of tare and of the kernel's sockets at one point in time, in bytes.
type footprint struct {
	rss, peak    int64
	heap, stacks float64
	kernel       int64 // buffers of all TCP sockets of the machine
	slab         int64 // kernel objects of the machine, such as sockets
}

// measureIdle opens idle connections through tare, each of which has executed one statement, and writes the memory
// that they take.
func (l *lab) measureIdle(ctx context.Context, out io.Writer) (err error) {
	ways, err := l.openWays(ctx)
	defer func() { err = errors.Join(err, closeWays(ways)) }()
	if err != nil {
		return err
	}
	w := ways[0]
	var clients []*mysqlconn.Client
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.Conn.Close()
			}
		}
	}()
	open := func(n int) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(idleDials)
		at := len(clients)
		clients = append(clients, make([]*mysqlconn.Client, n)...)
		for i := range n {
			group.Go(func() (err error) {
				clients[at+i], err = l.openIdle(ctx, w.addr)
				return err
			})
		}
		return group.Wait()
	}
	if err := open(idleDials); err != nil { // what the first connections alone allocate
		return err
	}
	before, err := readFootprint(ctx, w)
	if err != nil {
		return err
	}
	fmt.Fprintf(l.log, "opening %d connections\n", l.options.Idle)
	if err := open(l.options.Idle); err != nil {
		return fmt.Errorf("of %d connections: %w", l.options.Idle, err)
	}
	opened, err := weigh.Open(w.process.PID())
	if err != nil {
		return err
	}
	fresh, err := opened.Usage()
	if err != nil {
		return err
	}
	after, err := readFootprint(ctx, w)
	if err != nil {
		return err
	}
	return writeIdle(out, l.options.Idle, before, after, fresh.RSS)
}

// openIdle connects, and executes one statement, so that the session has the buffers and the stack of a used one.
func (l *lab) openIdle(ctx context.Context, addr string) (*mysqlconn.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	config := mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	if l.options.TLS {
		config.TLSMode = mysqlconn.TLSRequired
	}
	c, err := mysqlconn.Dial(ctx, config)
	if err != nil {
		return nil, err
	}
	_, err = c.Query(ctx, "SELECT c FROM "+testmysql.DefaultSchema+".sbtest1 WHERE id = 1", func(mysqlwire.TextRow) error { return nil })
	return c, err
}

// readFootprint reads the memory after some collections, the last of which returns what is free to the system.
func readFootprint(ctx context.Context, w *way) (f footprint, err error) {
	for range idleSettles {
		if err := forceCollection(ctx, w.http); err != nil {
			return f, err
		}
	}
	scrape, err := weigh.ScrapeMetrics(ctx, http.DefaultClient, "http://"+w.http+"/metrics")
	if err != nil {
		return f, err
	}
	for name, to := range map[string]*float64{"go_memory_classes_heap_objects_bytes": &f.heap, "go_memory_classes_heap_stacks_bytes": &f.stacks} {
		var ok bool
		if *to, ok = scrape.Sum(name); !ok {
			return f, fmt.Errorf("%s is missing in /metrics", name)
		}
	}
	p, err := weigh.Open(w.process.PID())
	if err != nil {
		return f, err
	}
	usage, err := p.Usage()
	if err != nil {
		return f, err
	}
	f.rss, f.peak = usage.RSS, usage.PeakRSS
	sockets, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return f, err
	}
	if f.kernel, err = parseSockstat(sockets); err != nil {
		return f, err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return f, err
	}
	f.slab, err = parseSlab(memory)
	return f, err
}

// parseSockstat returns the memory of TCP buffers: "TCP: inuse 5 orphan 0 tw 0 alloc 5 mem 1", in pages.
func parseSockstat(text []byte) (int64, error) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			if string(fields[i]) == "mem" {
				n, err := strconv.ParseInt(string(fields[i+1]), 10, 64)
				return n * int64(os.Getpagesize()), err
			}
		}
	}
	return 0, errors.New("/proc/net/sockstat has no memory of TCP sockets")
}

// parseSlab returns the kernel's memory for objects: "Slab: 12345 kB".
func parseSlab(text []byte) (int64, error) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == "Slab:" {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no line on slabs")
}

// writeIdle writes the footprints as Markdown; fresh are the resident bytes when the connections were open, before
// the collections.
func writeIdle(out io.Writer, n int, before, after footprint, fresh int64) error {
	t := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| memory\t| without\t| with %d idle connections\t| KiB per connection\t|\n| ---\t| ---:\t| ---:\t| ---:\t|\n", n)
	row := func(name string, before, after float64) {
		fmt.Fprintf(t, "| %s\t| %.1f MiB\t| %.1f MiB\t| %.2f\t|\n", name, before/(1<<20), after/(1<<20), (after-before)/float64(n)/1024)
	}
	row("heap objects", before.heap, after.heap)
	row("stacks", before.stacks, after.stacks)
	row("heap and stacks", before.heap+before.stacks, after.heap+after.stacks)
	row("resident", float64(before.rss), float64(after.rss))
	row("resident before the collections", float64(before.rss), float64(fresh))
	row("resident, maximum", float64(before.peak), float64(after.peak))
	row("kernel: TCP buffers, whole machine", float64(before.kernel), float64(after.kernel))
	row("kernel: slabs, whole machine", float64(before.slab), float64(after.slab))
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "missed"
	}
	each := (after.heap + after.stacks - before.heap - before.stacks) / float64(n)
	fmt.Fprintf(out, "\nAt most %d KiB per connection: %s.", maxIdlePerClient>>10, verdict(each <= maxIdlePerClient))
	at := func(rss int64) int64 { return before.rss + (rss-before.rss)*goalIdle/int64(n) }
	_, err := fmt.Fprintf(out, " At most %d MiB resident at %d connections: %.0f MiB, %s; before the collections %.0f MiB, %s.\n", maxIdleRSS>>20, goalIdle,
		float64(at(after.rss))/(1<<20), verdict(at(after.rss) <= maxIdleRSS), float64(at(fresh))/(1<<20), verdict(at(fresh) <= maxIdleRSS))
	return err
}

// raiseFileLimit allows this process and its children as many descriptors as idle connections require: one here and
// at the server, two in tare.
func raiseFileLimit(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	want := uint64(2*connections + 100)
	if limit.Max >= want && limit.Cur >= want {
		return nil
	}
	limit.Cur, limit.Max = want, max(limit.Max, want)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d (run as root, or after ulimit -n): %w", want, err)
	}
	return nil
}
