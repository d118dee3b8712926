package frontend

import (
	"net/http"
	"strconv"
)

// holdBytes is how much of an answer is held back before its status goes out, so that what goes wrong
// until then has a status of its own.
const holdBytes = 64 << 10

// A heldWriter holds the beginning of an answer back.
type heldWriter struct {
	w    http.ResponseWriter
	code int

	held  []byte
	sent  bool // the status went out
	lost  bool // the client takes no more
	bytes int64
}

// Write holds p back while there is room, and else sends all there is.
func (h *heldWriter) Write(p []byte) (int, error) {
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
	return h.pass(p)
}

func (h *heldWriter) pass(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.bytes += int64(n)
	h.lost = h.lost || err != nil
	return n, err
}

// send sends the status and what was held.
func (h *heldWriter) send() error {
	h.sent = true
	h.w.WriteHeader(h.code)
	_, err := h.pass(h.held)
	h.held = nil
	return err
}

// finish sends what is still held: the whole answer, then, with its length.
func (h *heldWriter) finish() error {
	if h.sent {
		return nil
	}
	h.w.Header().Set("Content-Length", strconv.Itoa(len(h.held)))
	return h.send()
}
