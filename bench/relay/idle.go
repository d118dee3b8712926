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

	"github.com/taredb/tare/internal/weigh"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
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
	idleReturn  = 5 * time.Second  // of --return-idle-memory
	idlePoll    = 200 * time.Millisecond
)

// A system is memory by the kernel's accounts at one point in time, in bytes.
type system struct {
	rss, peak int64 // of tare
	kernel    int64 // buffers of all TCP sockets of the machine
	slab      int64 // kernel objects of the machine, such as sockets
}

// A heap is tare's memory by the Go runtime's account after collections, in bytes.
type heap struct{ objects, stacks float64 }

type footprints struct {
	base, opened, returned system // before, just after and some time after the connections were opened
	with, without          heap
}

// measureIdle opens idle connections through tare, each of which has executed one statement, and writes the memory
// that they take.
func (l *lab) measureIdle(ctx context.Context, out io.Writer) error {
	// Forced collections write a profile, which makes parts of the program resident, and a process that had many
	// connections keeps some memory of them: the heap without connections is that of another process.
	var f footprints
	if err := l.idle(ctx, 0, &f); err != nil {
		return err
	}
	f.without = f.with
	fmt.Fprintf(l.log, "opening %d connections\n", l.options.Idle)
	if err := l.idle(ctx, l.options.Idle, &f); err != nil {
		return fmt.Errorf("of %d connections: %w", l.options.Idle, err)
	}
	return writeIdle(out, l.options.Idle, &f)
}

// idle starts tare, opens idle connections, and records its memory.
func (l *lab) idle(ctx context.Context, connections int, f *footprints) (err error) {
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
	if err := open(idleDials); err != nil { // allocations of the first connections alone
		return err
	}
	if f.base, err = readSystem(w); err != nil {
		return err
	}
	if err := open(connections); err != nil {
		return err
	}
	if f.opened, err = readSystem(w); err != nil {
		return err
	}
	if err := awaitReturn(ctx, w); err != nil {
		return err
	}
	if f.returned, err = readSystem(w); err != nil {
		return err
	}
	f.with, err = readHeap(ctx, w)
	return err
}

// openIdle connects, and executes one statement, so that the session has the buffers and the stack of a used one.
func (l *lab) openIdle(ctx context.Context, addr string) (*mysqlconn.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	c, err := l.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	_, err = c.Query(ctx, "SELECT c FROM sbtest1 WHERE id = 1", func(mysqlwire.TextRow) error { return nil })
	return c, err
}

// readHeap reads the heap after some collections.
func readHeap(ctx context.Context, w *way) (h heap, err error) {
	for range idleSettles {
		if err := forceCollection(ctx, w.http); err != nil {
			return h, err
		}
	}
	if h.objects, err = metric(ctx, w, "go_memory_classes_heap_objects_bytes"); err != nil {
		return h, err
	}
	h.stacks, err = metric(ctx, w, "go_memory_classes_heap_stacks_bytes")
	return h, err
}

func metric(ctx context.Context, w *way, name string) (float64, error) {
	scrape, err := weigh.ScrapeMetrics(ctx, http.DefaultClient, "http://"+w.http+"/metrics")
	if err != nil {
		return 0, err
	}
	n, ok := scrape.Sum(name)
	if !ok {
		return 0, fmt.Errorf("%s is missing in /metrics", name)
	}
	return n, nil
}

// awaitReturn waits until tare has returned idle memory since the connections were opened: it does so once per idle
// period, and the next one starts with them.
func awaitReturn(ctx context.Context, w *way) error {
	const name = "tare_idle_memory_returns_total"
	ctx, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	before, err := metric(ctx, w, name)
	if err != nil {
		return err
	}
	for {
		n, err := metric(ctx, w, name)
		if err != nil || n > before {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still %v: %w", name, n, ctx.Err())
		case <-time.After(idlePoll):
		}
	}
}

func readSystem(w *way) (s system, err error) {
	p, err := weigh.Open(w.process.PID())
	if err != nil {
		return s, err
	}
	usage, err := p.Usage()
	if err != nil {
		return s, err
	}
	s.rss, s.peak = usage.RSS, usage.PeakRSS
	sockets, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return s, err
	}
	if s.kernel, err = parseSockstat(sockets); err != nil {
		return s, err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return s, err
	}
	s.slab, err = parseSlab(memory)
	return s, err
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

// writeIdle writes the footprints as Markdown.
func writeIdle(out io.Writer, n int, f *footprints) error {
	t := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| memory\t| without\t| with %d idle connections\t| KiB per connection\t|\n| ---\t| ---:\t| ---:\t| ---:\t|\n", n)
	row := func(name string, before, after float64) {
		fmt.Fprintf(t, "| %s\t| %.1f MiB\t| %.1f MiB\t| %.2f\t|\n", name, before/(1<<20), after/(1<<20), (after-before)/float64(n)/1024)
	}
	row("heap objects", f.without.objects, f.with.objects)
	row("stacks", f.without.stacks, f.with.stacks)
	without, with := f.without.objects+f.without.stacks, f.with.objects+f.with.stacks
	row("heap and stacks", without, with)
	row("resident, as opened", float64(f.base.rss), float64(f.opened.rss))
	row("resident, maximum", float64(f.base.peak), float64(f.opened.peak))
	row("resident, after --return-idle-memory", float64(f.base.rss), float64(f.returned.rss))
	row("kernel: TCP buffers, whole machine", float64(f.base.kernel), float64(f.opened.kernel))
	row("kernel: slabs, whole machine", float64(f.base.slab), float64(f.opened.slab))
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "missed"
	}
	each := (with - without) / float64(n)
	fmt.Fprintf(out, "\nAt most %d KiB per connection: %s.", maxIdlePerClient>>10, verdict(each <= maxIdlePerClient))
	at := func(rss int64) int64 { return f.base.rss + (rss-f.base.rss)*goalIdle/int64(n) }
	opened, returned := at(f.opened.rss), at(f.returned.rss)
	_, err := fmt.Fprintf(out, " At most %d MiB resident at %d connections: %.0f MiB as opened, %s; %.0f MiB after --return-idle-memory, %s.\n", maxIdleRSS>>20, goalIdle,
		float64(opened)/(1<<20), verdict(opened <= maxIdleRSS), float64(returned)/(1<<20), verdict(returned <= maxIdleRSS))
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
