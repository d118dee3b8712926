package web

import (
	"context"

	"github.com/taredb/tare/rowstream"
)

// rowsPage is the front page of a server of rows.
func (s *Server) rowsPage(path string) page {
	return page{path: path, title: "Row streams", template: "rows", key: "r", fixed: true, follow: true, answer: s.rows}
}

// rowsData is what the page shows.
type rowsData struct {
	rowstream.ServiceStats
	Packed float64 // bytes on the wire for each byte of rows; -1: none went

	Endpoints []endpoint
}

func (s *Server) rows(_ context.Context, v *view) (any, error) {
	d := rowsData{ServiceStats: s.opts.Rows(), Packed: -1, Endpoints: s.endpoints(v.texts)}
	if d.Bytes > 0 {
		d.Packed = float64(d.Sent) / float64(d.Bytes)
	}
	return d, nil
}
