package binlog

import (
	"context"
	"errors"

	"github.com/taredb/tare/mysql/mysqlconn"
)

// Hooks of the external tests.

// NamePosition returns p with the GTID at its file and offset.
func (d *Direct) NamePosition(ctx context.Context, p Position) (Position, error) {
	return d.namePosition(ctx, p)
}

// BeatConnection returns the connection that writes heartbeats.
func (d *Direct) BeatConnection() *mysqlconn.Client { return d.beats.c }

// Lose closes the connection that c reads from, as if it had failed.
func Lose(ctx context.Context, c Changes) error {
	x := c.(*changes)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.disconnect(ctx, errors.New("lost"))
}

// LoseReread closes the connection from which c reads rows of a prepared transaction again, and reports whether
// there is one.
func LoseReread(ctx context.Context, c Changes) (bool, error) {
	x := c.(*changes)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.r.reread == nil || x.r.reread.from == nil || x.r.reread.from.events == nil {
		return false, nil
	}
	return true, x.r.reread.from.disconnect(ctx, errors.New("lost"))
}

// ReadPosition returns the position up to which c has read the log.
func ReadPosition(c Changes) Position { return c.(*changes).r.position() }
