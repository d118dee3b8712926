package binlog

import (
	"context"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Direct is a MySQL-compatible server whose tables and binary log are read over direct connections. It is
// safe for concurrent use.
type Direct struct {
	*rowstream.Direct

	beats beatWriter
}

// OpenDirect connects to a server.
func OpenDirect(ctx context.Context, cfg mysqlconn.Config) (*Direct, error) {
	d, err := rowstream.OpenDirect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Direct{Direct: d}, nil
}

// A namedSnapshot is a snapshot whose position has a GTID.
type namedSnapshot struct {
	rowstream.View
	position string
}

func (s *namedSnapshot) Position() string { return s.position }

// Snapshot is OpenSnapshot. If the server has GTIDs, the position includes one.
func (d *Direct) Snapshot(ctx context.Context, workers int, tables []*rowstream.Table) (rowstream.View, error) {
	s, err := rowstream.OpenSnapshot(ctx, d.Config(), workers, tables)
	if err != nil {
		return nil, err
	}
	p, err := ParsePosition(s.Position())
	if err == nil {
		p, err = d.namePosition(ctx, p)
	}
	if err != nil {
		_ = s.Close() // its transactions are read-only
		return nil, err
	}
	return &namedSnapshot{s, p.String()}, nil
}

// Close closes the connections for descriptions and heartbeats.
func (d *Direct) Close() error {
	d.beats.mu.Lock()
	d.beats.close()
	d.beats.mu.Unlock()
	return d.Direct.Close()
}
