package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/statements"
)

// The PromQL beside a chart is statements.ChartQuery's. Rates exclude counts of evicted digests from before
// their eviction.

// selector returns the matchers in braces.
func (s *Server) selector(matchers ...string) string {
	if s.opts.SeriesMatchers != nil {
		matchers = append(matchers, s.opts.SeriesMatchers()...)
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// ofDigest returns the queries of one digest's series.
func (s *Server) ofDigest(hex string, step time.Duration) statements.ChartQuery {
	return statements.ChartQuery{Selector: s.selector("digest=" + strconv.Quote(hex)), Step: step}
}

// ofAll returns the queries of all statements' series.
func (s *Server) ofAll(step time.Duration) statements.ChartQuery {
	return statements.ChartQuery{Selector: s.selector(`digest!="evicted"`), Step: step}
}
