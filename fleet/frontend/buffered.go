package frontend

import (
	"net/http"
	"strconv"
)

// holdBytes is the number of bytes of a response that are buffered before its status is sent, so that errors
// up to then can still change the status.
const holdBytes = 64 << 10

// A bufferedWriter buffers the start of a response.
type bufferedWriter struct {
	w    http.ResponseWriter
	code int

	held  []byte
	sent  bool // the status was sent
	lost  bool // the client has disconnected
	bytes int64
}

// Write buffers p while there is room, and otherwise sends the buffer and p.
func (h *bufferedWriter) Write(p []byte) (int, error) {
	if !h.sent {
		if len(h.held)+len(p) <= holdBytes {
			h.held = append(h.held, p...)
			return len(p), nil
		}
		h.w.Header().Set("Trailer", errorTrailer)
		if err := h.send(); err != nil {
			return 0, err
		}
	}
	return h.writeClient(p)
}

func (h *bufferedWriter) writeClient(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.bytes += int64(n)
	h.lost = h.lost || err != nil
	return n, err
}

// send sends the status and the buffer.
func (h *bufferedWriter) send() error {
	h.sent = true
	h.w.WriteHeader(h.code)
	_, err := h.writeClient(h.held)
	h.held = nil
	return err
}

// finish sends the buffer: if it is the whole response, with its length.
func (h *bufferedWriter) finish() error {
	if h.sent {
		return nil
	}
	h.w.Header().Set("Content-Length", strconv.Itoa(len(h.held)))
	return h.send()
}
