package web

import (
	"context"

	"github.com/taredb/tare/rowstream/wire"
)

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
