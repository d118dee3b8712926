package promapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// A clientBody is a request's body. The client must send some of it within WriteTimeout, and all of it within
// the time of the request: otherwise it is disconnected, and counted as a client that takes no data.
type clientBody struct {
	io.ReadCloser
	control *http.ResponseController // nil: the connection has no deadlines
	budget  *responses
	end     time.Time
}

// Read implements io.Reader. It clears the deadline at the end of the body, since the server reads on to
// notice a disconnected client.
func (b *clientBody) Read(p []byte) (int, error) {
	if b.control == nil {
		return b.ReadCloser.Read(p)
	}
	deadline := time.Now().Add(b.budget.timeout)
	if deadline.After(b.end) {
		deadline = b.end
	}
	if b.control.SetReadDeadline(deadline) != nil {
		b.control = nil
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.budget.cut.Add(1)
		b.control = nil // the deadline stays: the rest of the body is not read either
		err = fmt.Errorf("read request: the client sent no data for %s, or not all of it in time: %w", b.budget.timeout, err)
	case err != nil:
		_ = b.control.SetReadDeadline(time.Time{}) // setting it succeeded before
	}
	return n, err
}

// maxForm bounds the bytes of a form: those of the longest expression if each of its bytes is escaped, and of other
// parameters.
const maxForm = 3*maxExprBytes + 1<<20

// limitBody sets the limits of the request's body, if there is one: at most most bytes. One that is longer by its header
// is refused before it is read.
func (c *call) limitBody(most int64) *Error {
	if c.r.Body == nil || c.r.Body == http.NoBody {
		return nil
	}
	if c.r.ContentLength > most {
		c.w.Header().Set("Connection", "close")
		return c.badBody(fmt.Errorf("read request: %d bytes, at most %d are allowed: %w", c.r.ContentLength, most, &http.MaxBytesError{Limit: most}))
	}
	o := &c.api.o
	body := &clientBody{c.r.Body, http.NewResponseController(c.w), c.api.responses, time.Now().Add(o.Timeout)}
	c.r.Body = http.MaxBytesReader(c.w, body, most)
	return nil
}

// badBody returns the error of a body that could not be read.
func (c *call) badBody(err error) *Error {
	e := badData(err)
	_, large := errors.AsType[*http.MaxBytesError](err)
	status, ok := errors.AsType[interface { // of a server that has no memory for the body
		error
		StatusCode() int
	}](err)
	switch {
	case ok:
		e.Type, e.Status = Unavailable, status.StatusCode()
	case large:
		e.Status = http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Status = http.StatusRequestTimeout
		c.w.Header().Set("Connection", "close")
	}
	return e
}
