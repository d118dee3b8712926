package storegateway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
)

// Options configure a Gateway.
type Options struct {
	blocksync.Options

	Gate    *slab.Gate // admits queries; required
	Limits  Limits     // of one query
	Limiter *Limiter   // limits of tenants and clients, which the gate must have as its Limits; nil: none

	QueueTimeout time.Duration // how long a query waits for its bytes

	// Partial selects the result of requests whose time range has blocks that are not served. Default:
	// PartialWarn.
	Partial Partial
}

// validate sets defaults and returns an error if the options are wrong.
func (o *Options) validate() error {
	o.Partial = cmp.Or(o.Partial, PartialWarn)
	o.QueueTimeout = cmp.Or(o.QueueTimeout, time.Minute)
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

// A Gateway serves the series of the blocks of a bucket. It is safe for concurrent use.
type Gateway struct {
	*blocksync.Syncer // keeps the served blocks

	options Options
	budgets *budgetMetrics
	opened  time.Time

	requestsOnce sync.Once
	requests     *Requests // counts of the APIs; nil before the first call of Serve
}

// New returns a gateway. It serves nothing before the first sync of Run.
func New(o Options) (*Gateway, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("store gateway: %w", err)
	}
	blocks, err := blocksync.New(o.Options)
	if err != nil {
		return nil, fmt.Errorf("store gateway: %w", err)
	}
	g := &Gateway{Syncer: blocks, options: o, opened: time.Now()}
	g.budgets = newBudgetMetrics(g)
	if o.Registerer != nil {
		if err := o.Registerer.Register(g.budgets); err != nil {
			return nil, fmt.Errorf("store gateway: register metrics: %w", err)
		}
		if o.Disk != nil {
			if err := o.Registerer.Register(newDiskMetrics(o.Disk)); err != nil {
				return nil, fmt.Errorf("store gateway: register metrics: %w", err)
			}
		}
		if o.Shared != nil {
			if err := o.Registerer.Register(newSharedMetrics(o.Shared)); err != nil {
				return nil, fmt.Errorf("store gateway: register metrics: %w", err)
			}
		}
	}
	return g, nil
}

// Gate returns the gate that admits queries.
func (g *Gateway) Gate() *slab.Gate { return g.options.Gate }

// Partial selects the result of a request whose time range has blocks that are not served.
type Partial string

// Values of --partial.
const (
	PartialWarn Partial = "warn" // the result has a warning
	PartialDeny Partial = "deny" // the request fails
)

// settleTime is the time for which requests of a Queryable with samples of its own wait for the first sync: a bucket
// that does not respond takes longer to fail.
const settleTime = 5 * time.Second

// checkSettled returns an error while the first sync may still finish. After that, results without the
// blocks of the bucket have a warning.
func (g *Gateway) checkSettled() error {
	if g.Status().Failing != nil || time.Since(g.opened) > settleTime {
		return nil
	}
	return g.CheckReady()
}

// An incompleteError is the error of a request whose result would lack blocks, with PartialDeny.
type incompleteError struct{ Missing blocksync.Missing }

// Error names the blocks.
func (e *incompleteError) Error() string { return strings.Join(e.Missing.Warnings(), "\n") }

// check returns an error if blocks are missing and the gateway serves complete results only.
func (g *Gateway) check(m blocksync.Missing) error {
	if g.options.Partial == PartialDeny && m.Denies() {
		return &incompleteError{m}
	}
	return nil
}

// errPartial is the error of an invalid Partial.
var errPartial = errors.New("partial results: want warn or deny")

func (p Partial) valid() bool { return p == PartialWarn || p == PartialDeny }
