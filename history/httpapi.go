package history

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/storegateway"
)

// HTTPOptions say how Prometheus' HTTP API answers.
type HTTPOptions struct {
	Restrict promapi.RestrictFunc // hides series from some requests; nil: from none

	Registerer prometheus.Registerer // for the engine's metrics; nil: none
	Log        *slog.Logger          // required
	Panics     *panics.Reporter      // logs and counts requests that panic; nil: they only fail
	Build      promapi.BuildInfo
}

// TextLabel is the label that has a statement's text.
const TextLabel = labelText

// NewHTTPAPI returns Prometheus' HTTP API over the history. Each request that reads it is one query of
// the store gateway and admitted as one of the store: clients in turn, light requests in their lane. The
// engine's samples, the response and the bytes read from the bucket are reserved from its quota. Local
// blocks are read through the page cache, which is not counted.
func (a *Archive) NewHTTPAPI(o HTTPOptions) (*promapi.API, error) {
	return storegateway.NewHTTPAPI(a.options.Gateway, storegateway.HTTPOptions{
		Queryable:  a.Queryable(),
		Now:        a.Now,
		Restrict:   o.Restrict,
		Registerer: o.Registerer,
		Build:      o.Build,
		Log:        o.Log,
		Panics:     o.Panics,
	})
}

// noTenant is the one tenant of a bucket in Thanos' layout.
const noTenant = ""
