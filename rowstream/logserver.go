package rowstream

import (
	"context"

	"github.com/taredb/tare/mysqlconn"
)

// A LogServer is a MySQL-compatible server whose tables and binary log are read over connections to it. It is safe for
// concurrent use.
type LogServer struct {
	*Direct

	beats beatWriter
}

// OpenLogServer connects to a server.
func OpenLogServer(ctx context.Context, cfg mysqlconn.Config) (*LogServer, error) {
	d, err := OpenDirect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &LogServer{Direct: d}, nil
}

// A namedSnapshot is a snapshot whose position has a GTID.
type namedSnapshot struct {
	*Snapshot
	position string
}

func (s *namedSnapshot) Position() string { return s.position }

// Snapshot is OpenSnapshot. Where the server has GTIDs, the position has one.
func (d *LogServer) Snapshot(ctx context.Context, workers int, tables []*Table) (View, error) {
	s, err := OpenSnapshot(ctx, d.Config(), workers, tables)
	if err != nil {
		return nil, err // a nil *Snapshot would be a View that is not nil
	}
	p, err := ParsePosition(s.Position())
	if err == nil {
		p, err = d.namePosition(ctx, p)
	}
	if err != nil {
		_ = s.Close() // its transactions only read
		return nil, err
	}
	return &namedSnapshot{s, p.String()}, nil
}

// Close closes the connections for descriptions and heartbeats.
func (d *LogServer) Close() error {
	d.beats.mu.Lock()
	d.beats.close()
	d.beats.mu.Unlock()
	return d.Direct.Close()
}
