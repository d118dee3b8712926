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
	// flushAt is the size at which a buffer is sent. A point is appended completely, so a buffer has room
	// beyond it.
	flushAt = 32 << 10
	// bufferBytes is the capacity of a new buffer, keptBytes the maximum of one that is reused.
	bufferBytes = flushAt + 4<<10
	keptBytes   = 256 << 10
	// compressFrom is the minimum size of a compressed response: for smaller ones, compression does not pay
	// off.
	compressFrom = 1 << 10
)

// An output collects a response's body. Until the response is complete it is encoded into parts, which are
// charged to the budget of responses; then it is sent, after the query's reservation was released. A response
// that does not fit into the budget, and a stream, are sent in pieces while they are produced. Before the
// first piece is sent, the response can still become an error.
type output struct {
	w        http.ResponseWriter
	accept   encoding // coding that the client accepts
	code     int      // status to send
	buffered bool     // keep everything in the buffer until settle or finish
	stream   bool     // send pieces as they are produced
	whole    bool     // the response is complete in buffer and parts
	settled  bool     // settle was called then
	started  bool     // the encoding is chosen
	sent     bool     // the header was sent: further bytes go to the client
	buf      []byte
	bytes    int64 // so far, before compression
	err      error // first error of writing
	turn     *gate // of requests that compute a response; nil: it has none
	encoder  io.WriteCloser
	pools    *encoderPools

	budget  *responses               // nil: no bounds; pieces are sent as they are produced
	parts   []*part                  // encoded and charged
	length  int                      // bytes in parts
	charged int64                    // reserved in the budget
	control *http.ResponseController // sets deadlines; nil if unsupported
}

// A bodyWriter writes the encoded body, to parts or, once the header was sent, to the client.
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
			o.sendHeader(false)
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

// spill takes b, which is out's buffer with appended bytes, and returns an empty buffer.
func (o *output) spill(b []byte) []byte {
	o.buf = b
	if !o.buffered {
		o.choose(false)
		o.encode()
	}
	return o.buf
}

// settle makes a complete response independent of the query: encoded, and charged to the budget of responses.
// A response that does not fit is sent immediately, while the query's reservation lasts.
func (o *output) settle() {
	if !o.whole || o.settled {
		return
	}
	o.settled = true
	o.choose(true)
	if o.encoder != nil {
		o.encode()
		o.closeEncoder()
		if cap(o.buf) > keptBytes {
			o.buf = nil // the parts have its bytes, and it was charged to the query
		}
	}
	if !o.sent && len(o.buf) > 0 && !o.charge(int64(cap(o.buf))) {
		o.sendHeader(true)
	}
	if o.sent {
		o.encode()
	}
}

// endTurn lets another request compute its response.
func (o *output) endTurn() {
	if o.turn != nil {
		o.turn.release()
		o.turn = nil
	}
}

// finish sends the rest. It returns the first error of all writes.
func (o *output) finish() error {
	o.choose(true)
	if !o.sent {
		o.sendHeader(true)
	}
	o.encode()
	o.closeEncoder()
	o.release()
	return o.err
}

// abandon discards unsent bytes.
func (o *output) abandon() {
	if o.encoder != nil {
		o.pools.put(o.encoder)
		o.encoder = nil
	}
	o.release()
	o.buf, o.started, o.whole, o.settled, o.buffered = o.buf[:0], o.sent, false, false, false
}

// release frees the parts and returns their bytes to the budget.
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

// choose chooses the encoding, once.
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

// encode encodes the buffer and empties it.
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

// sendHeader sends the header and the parts. last reports whether only the buffer follows.
func (o *output) sendHeader(last bool) {
	o.sent = true
	o.endTurn() // the client may be slow
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

// write writes to the client, in pieces with a deadline each.
func (o *output) write(p []byte) {
	for len(p) > 0 && o.err == nil {
		piece := p[:min(len(p), flushAt)]
		o.setDeadline()
		_, o.err = o.w.Write(piece)
		o.countSlow()
		p = p[len(piece):]
	}
}

// flush blocks until the client has received the connection's buffer, so that a client that does not read the
// end of a response is disconnected too, and clears the deadline, since the connection may serve other
// handlers.
func (r *responses) flush(control *http.ResponseController) {
	if control == nil || control.SetWriteDeadline(time.Now().Add(r.timeout)) != nil {
		return
	}
	switch err := control.Flush(); {
	case err == nil:
		_ = control.SetWriteDeadline(time.Time{}) // setting it succeeded before
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.cut.Add(1)
	}
}

// setDeadline sets the deadline of the next write.
func (o *output) setDeadline() {
	if o.control != nil && o.control.SetWriteDeadline(time.Now().Add(o.budget.timeout)) != nil {
		o.control = nil // the writer has no deadlines
	}
}

// countSlow counts a client that was too slow.
func (o *output) countSlow() {
	if errors.Is(o.err, os.ErrDeadlineExceeded) {
		o.budget.cut.Add(1)
		o.err = fmt.Errorf("write response: the client took no data for %s: %w", o.budget.timeout, o.err)
	}
}
