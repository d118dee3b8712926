package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"sync"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	plain "github.com/taredb/tare/bench/baseline/querylog"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// gatewayPart is the measured process: the product's gateway with one of the logs.
func gatewayPart(spec []byte, in io.Reader, out io.Writer) (err error) {
	var c gatewayCase
	if err := json.Unmarshal(spec, &c); err != nil {
		return fmt.Errorf("read the case: %w", err)
	}
	o := querylog.Options{RingBytes: -1}
	if c.Log == "new" {
		o = querylog.Options{
			RingRedaction: querylog.RedactNone,
			Sinks:         []querylog.SinkOptions{{Path: c.File, Redaction: querylog.RedactNone}},
		}
	}
	log, err := querylog.New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close(context.Background())) }()
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: planCapacity})
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	g := gateway.Options{Backend: gateway.Backend{Addr: c.Backend}, Planner: planner, Log: log, Diag: quiet}
	if c.Log == "old" {
		twin, err := newTwinLog(c.File, c.Readers)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, twin.close()) }()
		g.Observers = []gateway.Observer{twin}
	}
	server, err := gateway.New(g)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(cpu/classes|gc)/`)})))
	pages := web.New(web.Options{Title: c.name(), Gatherer: registry, QueryLog: log, Log: quiet})
	return serveUntil(in, out, server, pages)
}

// serveUntil writes its addresses, and serves until the end of in.
func serveUntil(in io.Reader, out io.Writer, server *gateway.Server, pages *web.Server) error {
	mysql, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	http, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), mysql.Close())
	}
	var parts sync.WaitGroup
	errs := make([]error, 2)
	parts.Go(func() { errs[0] = server.Serve(mysql) })
	parts.Go(func() { errs[1] = pages.Serve(http) })
	err = json.NewEncoder(out).Encode(gatewayAddrs{Listen: mysql.Addr().String(), HTTP: "http://" + http.Addr().String()})
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	server.Shutdown(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // streams finish immediately
	err = errors.Join(err, pages.Shutdown(ctx))
	parts.Wait()
	return errors.Join(append(errs, err)...)
}

// A twinLog logs in the state before the change: a record on the heap per statement, its bind variables in a
// map, the line formatted by fmt, once for the file and once per reader. It is not charged for data that the
// record of the original had anyway: texts are views, and the map of the statement's bind variables is
// reused.
type twinLog struct {
	readers int
	clients sync.Map // connection id -> address as a string
	binds   sync.Pool

	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer // guarded by mu
}

func newTwinLog(path string, readers int) (*twinLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the plain log: %w", err)
	}
	return &twinLog{
		readers: readers, file: f, w: bufio.NewWriterSize(f, 64<<10),
		binds: sync.Pool{New: func() any { return make(map[string]plain.Bind) }},
	}, nil
}

// Observe implements gateway.Observer.
func (t *twinLog) Observe(r *querylog.Record) {
	client, ok := t.clients.Load(r.ConnectionID)
	if !ok {
		client, _ = t.clients.LoadOrStore(r.ConnectionID, r.Client.String())
	}
	binds := t.binds.Get().(map[string]plain.Bind)
	clear(binds)
	for i := range r.Binds {
		v, _ := r.Binds[i].Int64()
		binds[bindNames[min(i, len(bindNames)-1)]] = plain.Bind{Type: "INT64", Value: v}
	}
	p := plain.NewRecord(r.Start, binds)
	t.binds.Put(binds)
	p.Method, p.Client, p.User, p.Caller = r.Command.String(), client.(string), r.User, r.Schema
	p.End = r.Start.Add(r.Total)
	p.PlanType, p.SQL = r.StatementType, view(r.Normalized)
	p.Queries, p.Rewritten, p.Sources = 1, p.SQL, r.Backend
	p.MySQL, p.Wait = r.Upstream, r.Plan
	p.Rows, p.Transaction, p.Size = r.RowsReturned, int64(r.TransactionID), int(r.BytesOut)
	t.mu.Lock()
	_ = p.LogJSON(t.w) // errors were ignored in the original
	t.mu.Unlock()
	for range t.readers {
		_ = p.LogJSON(io.Discard)
	}
}

var bindNames = [...]string{"v1", "v2", "v3", "v4"}

// view returns b as a string, valid until b is written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (t *twinLog) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.w.Flush(), t.file.Close())
}
