package querylog

import (
	"bytes"
	"fmt"
	"io"
)

// A stream is an output that cannot be truncated: standard output, a pipe, a writer of the caller's. If a
// write stops inside a line, the next write starts with the rest of that line, so that the stream consists of
// whole lines.
type stream struct {
	w    io.Writer
	rest []byte // of the torn line
}

func (s *stream) write(p []byte) (int, error) {
	if len(s.rest) > 0 {
		n, err := s.w.Write(s.rest)
		s.rest = s.rest[min(max(n, 0), len(s.rest)):]
		if err == nil && len(s.rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return 0, fmt.Errorf("write: %w", err)
		}
		s.rest = nil
	}
	n, err := s.w.Write(p)
	n = min(max(n, 0), len(p))
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if n > 0 && n < len(p) && p[n-1] != '\n' {
		end := n + bytes.IndexByte(p[n:], '\n') + 1
		s.rest = bytes.Clone(p[n:end])
		n = end
	}
	if err != nil {
		return n, fmt.Errorf("write: %w", err)
	}
	return n, nil
}

func (s *stream) close() (int, error) {
	if len(s.rest) == 0 {
		return 0, nil
	}
	if _, err := s.w.Write(s.rest); err != nil {
		return 1, fmt.Errorf("write: %w", err)
	}
	return 0, nil
}
