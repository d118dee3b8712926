package throttle

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// DefaultPatience is how long a limit's metric may be unavailable. Until then the copy is paused: an unknown
// value counts as over the limit.
const DefaultPatience = 5 * time.Minute

// Options are the limits that slow a copy down. The zero value has none.
type Options struct {
	MaxLag   time.Duration      // maximum lag of the replicas; 0: no limit
	Replicas []mysqlconn.Config // of the source or of the target

	// Server is queried for Threads_running and Query.
	Server            mysqlconn.Config
	MaxThreadsRunning int     // 0: no limit
	Query             string  // a statement that returns one number; empty: no limit
	Above             float64 // the maximum of that number

	MaxP99  time.Duration         // of the clients' statements; 0: no limit
	Gateway gatewayclient.Gateway // the tare serve that measures it

	Patience time.Duration // 0: DefaultPatience
}

// Validate sets defaults and returns the first error in o.
func (o *Options) Validate() error {
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	switch {
	case o.MaxLag < 0 || o.MaxThreadsRunning < 0 || o.MaxP99 < 0 || o.Above < 0 || o.Patience < 0:
		return errors.New("a limit is negative")
	case o.MaxLag > 0 && len(o.Replicas) == 0:
		return errors.New("the lag is limited and no replica is named")
	case o.MaxLag == 0 && len(o.Replicas) > 0:
		return errors.New("a replica is named and its lag not limited")
	case o.MaxP99 > 0 && o.Gateway.URL == "":
		return errors.New("the p99 is limited and no gateway is named that knows it")
	case o.MaxP99 == 0 && o.Gateway.URL != "":
		return errors.New("a gateway is named and the p99 not limited")
	case (o.MaxThreadsRunning > 0 || o.Query != "") && o.Server.Addr == "":
		return errors.New("a limit on Threads_running or a query is set and no server is named that is asked for it")
	}
	for i := range o.Replicas {
		if err := o.Replicas[i].Validate(); err != nil {
			return fmt.Errorf("replica %s: %w", o.Replicas[i].Addr, err)
		}
	}
	return o.Gateway.Validate()
}

// Limited reports whether there is a limit.
func (o *Options) Limited() bool {
	return o.MaxLag > 0 || o.MaxThreadsRunning > 0 || o.Query != "" || o.MaxP99 > 0
}

// A LimitKind is the metric that is limited.
type LimitKind string

// The kinds of limits.
const (
	LimitLag     LimitKind = "lag"
	LimitThreads LimitKind = "threads_running"
	LimitQuery   LimitKind = "query"
	LimitP99     LimitKind = "p99"
)

// limits returns the limits and the sources of their metrics.
func (o *Options) limits() (limits []Limit, sources []source) {
	if o.MaxLag > 0 {
		for _, cfg := range o.Replicas {
			limits = append(limits, Limit{Kind: LimitLag, Name: "lag of replica " + cfg.Addr, Unit: "s", Bound: o.MaxLag.Seconds(), Memory: 2 * time.Second})
			sources = append(sources, &sqlSource{cfg: cfg, read: readLag})
		}
	}
	if o.MaxThreadsRunning > 0 {
		limits = append(limits, Limit{Kind: LimitThreads, Name: "Threads_running of " + o.Server.Addr, Bound: float64(o.MaxThreadsRunning), Memory: time.Second})
		sources = append(sources, &sqlSource{cfg: o.Server, read: readNumber("SHOW GLOBAL STATUS LIKE 'Threads_running'", 1)})
	}
	if o.Query != "" {
		limits = append(limits, Limit{Kind: LimitQuery, Name: "answer to the throttle query", Bound: o.Above, Memory: time.Second})
		sources = append(sources, &sqlSource{cfg: o.Server, read: readNumber(o.Query, 0)})
	}
	if o.MaxP99 > 0 {
		limits = append(limits, Limit{Kind: LimitP99, Name: "p99 of live traffic", Unit: "ms", Bound: milliseconds(o.MaxP99), Memory: 2 * time.Second})
		sources = append(sources, gatewaySource{gatewayclient.New(&o.Gateway)})
	}
	return limits, sources
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// parseNumber parses a number as returned by servers.
func parseNumber(text []byte) (float64, error) {
	if text == nil {
		return 0, errors.New("the result is NULL")
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || v != v {
		return 0, fmt.Errorf("the result %.40q is not a number", text)
	}
	return v, nil
}
