package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// watchPiece is the number of bytes a server must accept within a watched connection's limit.
const watchPiece = 256 << 10

// A watch bounds the silence of a connection's server.
type watch struct {
	c     *Client
	every time.Duration
	limit time.Duration
	alive func(context.Context) error

	ctx context.Context // of the current command
}

// Watch bounds the server's silence within a command. Statements may run for hours: after each interval of
// silence alive is called, which returns nil if the server is known to be working on the command. If neither
// a byte nor that confirmation arrives within limit, the command fails and the connection is broken. A server
// that accepts no data for limit counts as unreachable. Events of a binary log have a separate limit.
func (c *Client) Watch(every, limit time.Duration, alive func(context.Context) error) {
	c.watch = &watch{c: c, every: every, limit: limit, alive: alive, ctx: context.Background()}
}

// A silenceError reports that a server has sent or accepted nothing for too long.
type silenceError struct {
	For time.Duration
	Err error // reason why it is not known to be working
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("the server has been silent for %v: %v", e.For.Round(time.Second), e.Err)
}

func (e *silenceError) Unwrap() error { return e.Err }

// Timeout reports true: the error is a network timeout.
func (e *silenceError) Timeout() bool { return true }

// Temporary reports true. It makes the error a net.Error.
func (e *silenceError) Temporary() bool { return true }

// read reads once.
func (w *watch) read(p []byte) (int, error) {
	since := time.Now()
	for {
		if err := w.c.SetReadDeadline(time.Now().Add(w.every)); err != nil {
			return 0, err
		}
		if w.ctx.Err() != nil { // its interrupt may precede the deadline
			return 0, context.Cause(w.ctx)
		}
		n, err := w.c.nc.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || w.ctx.Err() != nil {
			return n, err
		}
		if err := w.alive(w.ctx); err == nil {
			since = time.Now()
		} else if silent := time.Since(since); silent >= w.limit {
			return 0, &silenceError{silent, err}
		}
	}
}

// write writes all of p.
func (w *watch) write(p []byte) (written int, err error) {
	for len(p) > 0 {
		if err := w.c.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
			return written, err
		}
		if w.ctx.Err() != nil {
			return written, context.Cause(w.ctx)
		}
		n, err := w.c.nc.Write(p[:min(len(p), watchPiece)])
		written, p = written+n, p[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) && w.ctx.Err() == nil {
			err = &silenceError{w.limit, errors.New("it takes no data")}
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
