package storegateway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
)

// Options of a Gateway.
type Options struct {
	blocksync.Options

	Gate    *slab.Gate // admits queries; required
	Limits  Limits     // of one query
	Limiter *Limiter   // of tenants and clients, whose Limits the gate has; nil: none

	QueueTimeout time.Duration // how long a query waits for its bytes

	// Partial selects the result of requests that lack blocks of their time range. Default: PartialWarn.
	Partial Partial
}

// DefaultQueueTimeout is the default of Options.QueueTimeout.
const DefaultQueueTimeout = time.Minute

// Validate sets defaults and returns an error if the options are wrong.
func (o *Options) Validate() error {
	o.Partial = cmp.Or(o.Partial, PartialWarn)
	o.QueueTimeout = cmp.Or(o.QueueTimeout, DefaultQueueTimeout)
	errs := []error{o.Options.Validate()}
	if o.Gate == nil {
		errs = append(errs, errors.New("a gate is required"))
	}
	if !o.Partial.valid() {
		errs = append(errs, errPartial)
	}
	if o.QueueTimeout < 0 {
		errs = append(errs, errors.New("the queue timeout is negative"))
	}
	return errors.Join(errs...)
}

// A Gateway serves the series of a bucket's blocks. It is safe for concurrent use.
type Gateway struct {
	*blocksync.Syncer // the blocks

	options Options
	budgets *budgetMetrics

	requestsOnce sync.Once
	requests     *Requests // of the APIs; nil before the first
}

// New returns a gateway. It serves nothing before Run has synced for the first time.
func New(o Options) (*Gateway, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("store gateway: %w", err)
	}
	blocks, err := blocksync.New(o.Options)
	if err != nil {
		return nil, fmt.Errorf("store gateway: %w", err)
	}
	g := &Gateway{Syncer: blocks, options: o}
	g.budgets = newBudgetMetrics(g)
	if o.Registerer != nil {
		if err := o.Registerer.Register(g.budgets); err != nil {
			return nil, fmt.Errorf("store gateway: register metrics: %w", err)
		}
	}
	return g, nil
}

// Gate returns the gate that admits queries.
func (g *Gateway) Gate() *slab.Gate { return g.options.Gate }

// Partial selects the result of a request whose time range has blocks that are not served.
type Partial string

// The values of --partial.
const (
	PartialWarn Partial = "warn" // the result has a warning
	PartialDeny Partial = "deny" // the request fails
)

// An IncompleteError is the error of a request whose result would lack blocks, where --partial is deny.
type IncompleteError struct{ Missing blocksync.Missing }

// Error names the blocks.
func (e *IncompleteError) Error() string { return strings.Join(e.Missing.Warnings(), "\n") }

// check returns an error if the gateway serves complete results only and there is a gap.
func (g *Gateway) check(m blocksync.Missing) error {
	if g.options.Partial == PartialDeny && m.Denies() {
		return &IncompleteError{m}
	}
	return nil
}

// errPartial is the error of another value.
var errPartial = errors.New("partial results: want warn or deny")

func (p Partial) valid() bool { return p == PartialWarn || p == PartialDeny }
