package web

import (
	"context"

	"github.com/taredb/tare/move/wire"
)

// partPages returns the pages of the server's components.
func (s *Server) partPages() []page {
	o := &s.opts
	var all []page
	if o.Sessions != nil {
		all = append(all, s.sessionsPage())
	}
	if o.QueryLog != nil && o.LogColumns != nil {
		all = append(all, s.livePage())
	}
	if o.Plans != nil {
		all = append(all, s.plansPage())
	}
	if o.Series != nil {
		all = append(all, s.seriesPage())
	}
	if s.rangeQueries() != nil {
		all = append(all, s.promqlPage())
	}
	if o.Copies != nil {
		all = append(all, s.copiesPage())
	}
	if o.Store != nil && !s.storeFirst() {
		all = append(all, s.storePage("/store"))
	}
	if o.Weight != nil {
		all = append(all, s.weightPage())
	}
	return all
}

// firstPage returns the page at /. A server without statements has the page of its main component there.
func (s *Server) firstPage() page {
	switch o := &s.opts; {
	case s.storeFirst():
		return s.storePage("/")
	case o.Frontend != nil:
		return s.frontendPage("/")
	case o.Progress != nil:
		return s.progressPage("/")
	case o.Rows != nil:
		return s.rowsPage("/")
	}
	return s.overviewPage()
}

// queryPath returns the path of a statement's page, before its digest, or "" if there are none.
func (s *Server) queryPath() string {
	for _, p := range s.nav {
		if p.path == "/queries" {
			return "/query/"
		}
	}
	return ""
}

// storeFirst reports whether blocks are the server's main component.
func (s *Server) storeFirst() bool { return s.opts.Store != nil && s.opts.Plans == nil }

// rowsPage returns the front page of a server of rows.
func (s *Server) rowsPage(path string) page {
	return page{path: path, title: "Row streams", template: "rows", key: "r", fixed: true, follow: true, load: s.rows}
}

// rowsData is the data of the page.
type rowsData struct {
	wire.ServiceStats
	Packed        float64 // bytes on the wire per byte of rows; -1: none were sent
	PackedChanges float64 // the same for changes

	Endpoints []endpoint
}

func (s *Server) rows(_ context.Context, v *view) (any, error) {
	stats := s.opts.Rows()
	return rowsData{
		ServiceStats: stats, Packed: part(stats.Sent, stats.Bytes), PackedChanges: part(stats.ChangeSent, stats.ChangeBytes), Endpoints: s.endpoints(v.account),
	}, nil
}

// part returns the number of bytes sent per byte, or -1 if there were none.
func part(sent, bytes int64) float64 {
	if bytes == 0 {
		return -1
	}
	return float64(sent) / float64(bytes)
}
