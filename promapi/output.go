package promapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	// flushAt is how full a buffer gets before it is sent. A point is appended whole, so
	// a buffer has room beyond it.
	flushAt = 32 << 10
	// bufferBytes is a new buffer's room, keptBytes the most that one keeps for the next answer.
	bufferBytes = flushAt + 4<<10
	keptBytes   = 256 << 10
	// compressFrom is the size from which an answer is compressed: below, the header of
	// the compressed form and the work for it gain nothing.
	compressFrom = 1 << 10
)

// output collects a response's body. Until the response is complete it is encoded into parts, which are
// charged to the budget of responses; then it is sent, after the query's reservation was released. A response
// that has no room in the budget, and a stream, is sent in pieces while it is produced. Nothing is sent
// before that, so until then the response can still become an error.
type output struct {
	w       http.ResponseWriter
	accept  encoding // what the client takes
	code    int      // the status to send
	hold    bool     // keep everything in the buffer until settle or finish
	stream  bool     // pieces are sent as they are produced
	whole   bool     // the response is complete in buffer and parts
	started bool     // the encoding is chosen
	sent    bool     // the header is out: what follows goes to the client
	buf     []byte
	bytes   int64 // so far, before compression
	err     error // the first error of writing
	encoder io.WriteCloser
	pools   *encoderPools

	budget  *responses               // nil: without bounds, everything is sent as it is produced
	parts   []*part                  // encoded, charged
	length  int                      // bytes in parts
	charged int64                    // reserved in the budget
	control *http.ResponseController // sets deadlines; nil where there are none
}

// A bodyWriter takes the encoded body: into parts, or to the client once the header is out.
type bodyWriter output

func (b *bodyWriter) Write(p []byte) (int, error) {
	o, n := (*output)(b), len(p)
	for len(p) > 0 && !o.sent {
		if k := len(o.parts); k > 0 && o.parts[k-1].room() > 0 {
			copied := o.parts[k-1].add(p)
			o.length += copied
			p = p[copied:]
			continue
		}
		if o.stream || !o.charge(partBytes) {
			o.begin(false)
			break
		}
		o.parts = append(o.parts, o.budget.part())
	}
	o.write(p)
	return n, o.err
}

// charge reserves n bytes of the budget of responses and reports whether they were granted.
func (o *output) charge(n int64) bool {
	if o.budget == nil || !o.budget.Reserve(n, o.charged) {
		return false
	}
	o.charged += n
	return true
}

// spill takes b, which is out's buffer with what was appended, and returns an empty one.
func (o *output) spill(b []byte) []byte {
	o.buf = b
	if !o.hold {
		o.choose(false)
		o.encode()
	}
	return o.buf
}

// settle makes a response that is whole independent of the query: encoded, and charged to the budget of
// responses. If it has no room there it is sent at once, while the query's reservation lasts.
func (o *output) settle() {
	if !o.whole {
		return
	}
	o.choose(true)
	if o.encoder != nil {
		o.encode()
		o.closeEncoder()
		if cap(o.buf) > keptBytes {
			o.buf = nil // the parts have its bytes, and it was charged to the query
		}
	}
	if !o.sent && len(o.buf) > 0 && !o.charge(int64(cap(o.buf))) {
		o.begin(true)
	}
	if o.sent {
		o.encode()
	}
}

// finish sends what is left. It returns the first error of all writing.
func (o *output) finish() error {
	o.choose(true)
	if !o.sent {
		o.begin(true)
	}
	o.encode()
	o.closeEncoder()
	o.release()
	return o.err
}

// abandon drops what was not sent.
func (o *output) abandon() {
	if o.encoder != nil {
		o.pools.put(o.encoder)
		o.encoder = nil
	}
	o.release()
	o.buf, o.started, o.whole, o.hold = o.buf[:0], o.sent, false, false
}

// release gives back the parts and what they are charged.
func (o *output) release() {
	for i, p := range o.parts {
		o.budget.putPart(p)
		o.parts[i] = nil
	}
	o.parts, o.length = o.parts[:0], 0
	if o.charged > 0 {
		o.budget.Release(o.charged)
		o.charged = 0
	}
}

// choose decides on the encoding, once.
func (o *output) choose(last bool) {
	if o.started || o.sent {
		return
	}
	o.started = true
	if o.accept != identity && (!last || len(o.buf) >= compressFrom) {
		o.w.Header().Set("Content-Encoding", o.accept.String())
		o.encoder = o.pools.get(o.accept, (*bodyWriter)(o))
	}
}

// encode moves the buffer on and empties it.
func (o *output) encode() {
	o.bytes += int64(len(o.buf))
	if o.err == nil && len(o.buf) > 0 {
		var err error
		if o.encoder != nil {
			_, err = o.encoder.Write(o.buf)
		} else {
			_, err = (*bodyWriter)(o).Write(o.buf)
		}
		if o.err == nil {
			o.err = err
		}
	}
	o.buf = o.buf[:0]
}

func (o *output) closeEncoder() {
	if o.encoder == nil {
		return
	}
	if err := o.encoder.Close(); err != nil && o.err == nil {
		o.err = err
	}
	o.pools.put(o.encoder)
	o.encoder = nil
}

// begin sends the header and the parts. last says that nothing follows but the buffer.
func (o *output) begin(last bool) {
	o.sent = true
	if last && o.encoder == nil && o.code != http.StatusNoContent {
		o.w.Header().Set("Content-Length", strconv.Itoa(o.length+len(o.buf)))
	}
	if o.budget != nil {
		o.control = http.NewResponseController(o.w)
		if !last {
			o.budget.unbuffered.Add(1)
		}
	}
	o.w.WriteHeader(o.code)
	for i, p := range o.parts {
		o.write(p.bytes())
		o.budget.putPart(p)
		o.parts[i] = nil
		o.budget.Release(partBytes)
		o.charged -= partBytes
	}
	o.parts, o.length = o.parts[:0], 0
}

// write writes to the client, in pieces that each have the time of a write.
func (o *output) write(p []byte) {
	for len(p) > 0 && o.err == nil {
		piece := p[:min(len(p), flushAt)]
		o.allow()
		_, o.err = o.w.Write(piece)
		o.noteCut()
		p = p[len(piece):]
	}
}

// flush blocks until the client has what is left in the connection's buffer, so that a client that does not read
// the end of a response is cut too, and lifts the deadline: the connection may serve other handlers.
func (r *responses) flush(control *http.ResponseController) {
	if control == nil || control.SetWriteDeadline(time.Now().Add(r.timeout)) != nil {
		return
	}
	switch err := control.Flush(); {
	case err == nil:
		_ = control.SetWriteDeadline(time.Time{}) // it has just been set
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.cut.Add(1)
	}
}

// allow gives the next write its time.
func (o *output) allow() {
	if o.control != nil && o.control.SetWriteDeadline(time.Now().Add(o.budget.timeout)) != nil {
		o.control = nil // the writer has no deadlines
	}
}

// noteCut counts a client that was too slow.
func (o *output) noteCut() {
	if errors.Is(o.err, os.ErrDeadlineExceeded) {
		o.budget.cut.Add(1)
		o.err = fmt.Errorf("write response: the client took no data for %s: %w", o.budget.timeout, o.err)
	}
}
