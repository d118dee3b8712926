package web

import (
	"context"

	"github.com/taredb/tare/rowstream/wire"
)

// rowsPage is the front page of a server of rows.
func (s *Server) rowsPage(path string) page {
	return page{path: path, title: "Row streams", template: "rows", key: "r", fixed: true, follow: true, answer: s.rows}
}

// rowsData is what the page shows.
type rowsData struct {
	wire.ServiceStats
	Packed        float64 // bytes on the wire for each byte of rows; -1: none went
	PackedChanges float64 // likewise of changes

	Endpoints []endpoint
}

func (s *Server) rows(_ context.Context, v *view) (any, error) {
	stats := s.opts.Rows()
	return rowsData{
		ServiceStats: stats, Packed: part(stats.Sent, stats.Bytes), PackedChanges: part(stats.ChangeSent, stats.ChangeBytes), Endpoints: s.endpoints(v.account),
	}, nil
}

// part is how many bytes were sent for each byte, -1 when there were none.
func part(sent, bytes int64) float64 {
	if bytes == 0 {
		return -1
	}
	return float64(sent) / float64(bytes)
}
