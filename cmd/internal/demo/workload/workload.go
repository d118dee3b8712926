package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
)

// A Shop has the ranges of keys: 1 to each number.
type Shop struct{ Customers, Products, Orders int }

// Options configures the clients: their server and number.
type Options struct {
	Address  string // host:port of a MySQL server or gateway
	Database string
	Shop     Shop
	Clients  int

	// Every is the interval between reports.
	Every time.Duration

	// From Deploy until Heal after the start the clients query in a loop; 0: never.
	Deploy, Heal time.Duration
}

// Validate returns an error if o is invalid.
func (o *Options) Validate() error {
	switch {
	case o.Address == "":
		return errors.New("the address is empty")
	case o.Clients < 1:
		return fmt.Errorf("%d clients: want at least 1", o.Clients)
	case o.Every <= 0:
		return fmt.Errorf("a report every %v: want more than 0", o.Every)
	case o.Shop.Customers < 1 || o.Shop.Products < 1 || o.Shop.Orders < 1:
		return fmt.Errorf("shop %+v: want at least 1 of each", o.Shop)
	}
	return nil
}

// A Report is the clients' results so far. It is printed as one JSON line.
type Report struct {
	// Statements with a response, with or without an error.
	Statements uint64 `json:"statements"`

	// Errors are unexpected failures, including failed connects.
	Errors uint64 `json:"errors"`

	// ExpectedErrors are the provoked errors.
	ExpectedErrors uint64 `json:"expected_errors"`

	// LastError is the latest of Errors.
	LastError string `json:"last_error,omitempty"`

	// Shapes is the number of runs of each shape, including 0.
	Shapes map[string]uint64 `json:"shapes"`
}

// Run works until ctx is done, then lets each client finish its statement and disconnect. It calls report,
// from one goroutine, when the clients start, every o.Every and once at the end.
func Run(ctx context.Context, o Options, report func(Report) error) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	cfg := mysqlconn.Config{Addr: o.Address, User: "root", Database: o.Database, TLSMode: mysqlconn.TLSDisabled}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notify := newCounters()
	var turn sync.Mutex
	var release atomic.Bool
	var clients sync.WaitGroup
	for i := range o.Clients {
		c := &client{cfg: cfg, shop: o.Shop, turn: &turn, release: &release, notify: notify, rng: rand.New(rand.NewPCG(uint64(i), 0))}
		clients.Go(func() { c.run(ctx.Done(), newPicker()) })
	}

	ticker := time.NewTicker(o.Every)
	defer ticker.Stop()
	deploy, heal := after(o.Deploy), after(o.Heal)
	err := report(notify.read())
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-deploy:
			release.Store(true)
		case <-heal:
			release.Store(false)
		case <-ticker.C:
			err = report(notify.read())
		}
	}
	stop() // even if the reports are not read any more
	clients.Wait()
	if err == nil {
		err = report(notify.read())
	}
	if err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	return nil
}

// after returns a channel that receives after a time, or never if it is 0.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// counters are a Report in progress, shared by the clients.
type counters struct {
	mu sync.Mutex
	r  Report // under mu
}

func newCounters() *counters {
	c := &counters{r: Report{Shapes: make(map[string]uint64)}}
	for _, s := range shapes() {
		c.r.Shapes[s.name] = 0
	}
	return c
}

func (c *counters) read() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.r
	r.Shapes = maps.Clone(r.Shapes)
	return r
}

func (c *counters) shape(name string) {
	c.mu.Lock()
	c.r.Shapes[name]++
	c.mu.Unlock()
}

func (c *counters) statement() {
	c.mu.Lock()
	c.r.Statements++
	c.mu.Unlock()
}

func (c *counters) provoked() {
	c.mu.Lock()
	c.r.ExpectedErrors++
	c.mu.Unlock()
}

func (c *counters) failed(err error) {
	c.mu.Lock()
	c.r.Errors++
	c.r.LastError = err.Error()
	c.mu.Unlock()
}
