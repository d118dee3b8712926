package promapi

import (
	"io"
	"net/http"
	"strconv"
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

// output collects an answer's body and sends it in pieces. Nothing is sent before the first
// spill or finish, so until then the answer can still become an error.
type output struct {
	w       http.ResponseWriter
	accept  encoding // what the client takes
	code    int      // the status to send
	hold    bool     // keep everything until finish
	sent    bool     // the header is out
	buf     []byte
	bytes   int64 // sent so far, before compression
	err     error // the first error of writing
	encoder io.WriteCloser
	pools   *encoderPools
}

// spill sends b, which is out's buffer with what was appended, and returns an empty one.
func (o *output) spill(b []byte) []byte {
	if o.hold {
		return b
	}
	o.buf = b
	o.send(false)
	return o.buf
}

// finish sends what is left. It returns the first error of all writing.
func (o *output) finish() error {
	o.send(true)
	if o.encoder != nil {
		if err := o.encoder.Close(); err != nil && o.err == nil {
			o.err = err
		}
		o.pools.put(o.encoder)
		o.encoder = nil
	}
	return o.err
}

// abandon gives the encoder back without finishing its stream.
func (o *output) abandon() {
	if o.encoder != nil {
		o.pools.put(o.encoder)
		o.encoder = nil
	}
}

// send writes the buffer and empties it.
func (o *output) send(last bool) {
	if !o.sent {
		o.sent = true
		h := o.w.Header()
		switch {
		case o.accept != identity && (!last || len(o.buf) >= compressFrom):
			h.Set("Content-Encoding", o.accept.String())
			o.encoder = o.pools.get(o.accept, o.w)
		case last && o.code != http.StatusNoContent:
			h.Set("Content-Length", strconv.Itoa(len(o.buf)))
		}
		o.w.WriteHeader(o.code)
	}
	o.bytes += int64(len(o.buf))
	if o.err == nil && len(o.buf) > 0 {
		var err error
		if o.encoder != nil {
			_, err = o.encoder.Write(o.buf)
		} else {
			_, err = o.w.Write(o.buf)
		}
		o.err = err
	}
	o.buf = o.buf[:0]
}
