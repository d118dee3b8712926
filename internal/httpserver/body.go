package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	bodyTimeout  = 30 * time.Second // for a whole body, unless the handler sets a deadline of its own
	drainTimeout = time.Second      // for the rest of a body that the handler has not read

	// BodyBytes bounds the memory for the bodies of all requests of a server, from their reading to their response.
	BodyBytes = 128 << 20

	bodyFactor = 4        // bytes of memory per byte of a body: grown buffers, the text, its parts
	bodyStep   = 16 << 10 // bytes read per reservation
)

// A BodyError reports a body for which the server has no memory now.
type BodyError struct{ Bytes int64 }

// Error implements error.
func (e *BodyError) Error() string {
	return fmt.Sprintf("read request: the bodies of requests use all of the %d MiB for them: try again later", e.Bytes>>20)
}

// StatusCode returns the HTTP status of the response.
func (e *BodyError) StatusCode() int { return http.StatusServiceUnavailable }

// bodies reads the bodies of a server's requests within deadlines and a budget of memory.
type bodies struct {
	most int64
	held atomic.Int64
}

// wrap returns h with a deadline for each body, whose memory is reserved before it is read. A body that the handler
// does not read, as after a refusal, is not awaited for longer either: the connection is closed.
func (b *bodies) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			h.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		body := &body{ReadCloser: r.Body, all: b, control: control}
		if control.SetReadDeadline(time.Now().Add(bodyTimeout)) != nil {
			body.control = nil // not a connection, as in tests of handlers
		}
		defer body.release()
		r.Body = body
		h.ServeHTTP(w, r)
		if body.control != nil && !body.complete {
			_ = control.SetReadDeadline(time.Now().Add(drainTimeout)) // setting it succeeded before
		}
	})
}

// A body is a request's body. At its end the deadline is cleared, since the server reads on to notice a
// disconnected client.
type body struct {
	io.ReadCloser
	all      *bodies
	control  *http.ResponseController // nil: the connection has no deadlines
	reserved int64
	complete bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	p = p[:min(len(p), bodyStep)]
	want := int64(len(p)) * bodyFactor
	if b.all.held.Add(want) > b.all.most {
		b.all.held.Add(-want)
		return 0, &BodyError{b.all.most}
	}
	n, err := b.ReadCloser.Read(p)
	used := int64(n) * bodyFactor
	b.all.held.Add(used - want)
	b.reserved += used
	switch {
	case errors.Is(err, io.EOF):
		b.complete = true
		if b.control != nil {
			_ = b.control.SetReadDeadline(time.Time{}) // setting it succeeded before
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("read request: the client did not send its body in time: %w", err)
	}
	return n, err
}

func (b *body) release() { b.all.held.Add(-b.reserved) }
