package querylog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/urlparams"
)

// writeGrace is the time limit for a reader's last piece after the stream's end, and for each piece before.
const writeGrace = 10 * time.Second

// pieceBytes is the number of bytes written under one deadline.
const pieceBytes = 16 << 10

// ServeHTTP streams the log: first the lines in the ring, then new lines within a second of their statement.
// The parameters:
//
//	format=json|text  JSON lines (the default) or the text format
//	filter=…          only lines that meet a Filter
//	for=10s           stop after that duration; 0s: only the lines in the ring. Without
//	                  it the stream ends when the reader disconnects
//	limit=100         stop after so many lines
//	history=0         start with new lines
//
// A reader that is slower than the log misses lines; a dropped record in their place has the number. Readers
// cost sessions nothing: lines are formatted once, for the ring.
func (l *Logger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	if l.ring == nil {
		http.Error(w, "the query log keeps no ring in memory", http.StatusNotFound)
		return
	}
	q, err := parseStreamQuery(req.URL.Query(), l.fields)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if q.format == JSON {
		w.Header().Set("Content-Type", "application/x-ndjson")
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")

	ctx := req.Context()
	rc := http.NewResponseController(w)
	if q.limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.during)
		defer cancel()
	}
	l.flush()
	rd := l.ring.attach(q.history)
	defer rd.detach()
	s := streamer{
		query: q,
		rd:    rd,
		w:     w,
		flush: rc.Flush,
		drop:  Line{Format: q.format},
		log:   l,
	}
	if q.limited {
		s.stop, s.deadline = time.Now().Add(q.during+writeGrace), rc.SetWriteDeadline
	}
	s.run(ctx)
}

// A streamQuery is the parsed parameters of a reader.
type streamQuery struct {
	format  Format
	filter  Filter
	limited bool // during is set
	during  time.Duration
	lines   int // maximum; 0: no limit
	history bool
}

func parseStreamQuery(v url.Values, fields []string) (q streamQuery, err error) {
	q.history = true
	if err := urlparams.Check(v, "format", "filter", "for", "limit", "history"); err != nil {
		return q, err
	}
	for name, values := range v {
		s := values[0]
		switch name {
		case "format":
			q.format, err = ParseFormat(s)
		case "filter":
			if q.filter, err = ParseFilter(s); err == nil && fields != nil {
				err = q.filter.CheckFields("line", fields)
			}
		case "for":
			q.limited = true
			if q.during, err = time.ParseDuration(s); err != nil || q.during < 0 {
				err = fmt.Errorf("want a duration such as 30s, not %.40q", s)
			}
		case "limit":
			if q.lines, err = strconv.Atoi(s); err != nil || q.lines < 1 {
				err = fmt.Errorf("want a number of lines from 1, not %.40q", s)
			}
		case "history":
			if q.history, err = strconv.ParseBool(s); err != nil {
				err = fmt.Errorf("want true or false, not %.40q", s)
			}
		}
		if err != nil {
			return q, fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return q, nil
}

// A streamer writes one reader's lines.
type streamer struct {
	query streamQuery
	rd    *ringReader
	w     interface{ Write([]byte) (int, error) }
	flush func() error
	drop  Line // for dropped records
	log   *Logger

	stop     time.Time             // time after which no line is started; zero: never
	deadline func(time.Time) error // sets the next write's deadline; nil: writes end with the connection

	in, out, scratch []byte
	sent             int
	lastEnd          [32]byte // end field of the last line taken, for the time range of a gap
}

// run writes until the reader disconnects, has received the requested lines, or the logger is closed. over is
// done when the requested duration has passed or the reader has disconnected.
func (s *streamer) run(over context.Context) {
	var end uint64 // line number to stop before, once last is set
	last := false
	for {
		if !last && over.Err() != nil {
			// Lines logged in the requested duration may still be buffered.
			s.log.flush()
			end, last = s.rd.newest(), true
		}
		var missed uint64
		var closed bool
		s.in, missed, closed = s.rd.read(s.in[:0])
		more := len(s.in) > 0
		switch {
		case s.write(missed) || closed || last && s.rd.line >= end:
			_ = s.flush() // fails if the reader has disconnected
			return
		case more:
			continue
		case s.flush() != nil:
			return
		}
		select {
		case <-s.rd.wake:
		case <-over.Done():
		}
	}
}

// write writes the lines in s.in, and reports whether the stream is complete.
func (s *streamer) write(missed uint64) (done bool) {
	s.out = s.out[:0]
	st := SinkStats{Offered: missed, Dropped: missed}
	if missed > 0 {
		s.out = s.appendMissed(s.out, missed)
	}
	for line := range bytes.Lines(s.in) {
		if !s.query.filter.Empty() {
			ok, room, err := s.query.filter.passLine(line, s.scratch)
			if s.scratch = room; err != nil {
				panic("BUG: querylog: a line of the ring is not readable: " + err.Error())
			}
			if !ok {
				continue
			}
		}
		s.out = s.appendLine(s.out, line)
		st.Written++
		if s.sent++; s.sent == s.query.lines {
			done = true
			break
		}
	}
	s.keepEnd()
	if len(s.out) > 0 {
		n, err := s.writeLines(s.out)
		if err != nil {
			whole := uint64(bytes.Count(s.out[:n], newline))
			st.Dropped += st.Written - min(st.Written, whole)
			st.Written = min(st.Written, whole)
			done = true
		}
		st.Bytes = uint64(n)
	}
	st.Offered = st.Written + st.Dropped
	s.rd.count(st)
	return done
}

var errStreamOver = errors.New("the time of the stream is over")

// writeLines writes whole lines, so that a stream at its time limit ends between two of them.
func (s *streamer) writeLines(lines []byte) (written int, err error) {
	if s.deadline == nil {
		return s.w.Write(lines)
	}
	for written < len(lines) && err == nil {
		if !time.Now().Before(s.stop) {
			return written, errStreamOver
		}
		piece := lines[written:]
		if len(piece) > pieceBytes {
			end := bytes.LastIndexByte(piece[:pieceBytes], '\n') + 1
			if end == 0 {
				end = pieceBytes + bytes.IndexByte(piece[pieceBytes:], '\n') + 1
			}
			piece = piece[:end]
		}
		// Without deadlines, a write ends with its connection. The last deadline covers the end of the
		// response.
		_ = s.deadline(time.Now().Add(writeGrace))
		var n int
		n, err = s.w.Write(piece)
		written += n
	}
	return written, err
}

func (s *streamer) appendLine(dst, line []byte) []byte {
	if s.query.format == JSON {
		return append(dst, line...)
	}
	dst, room, err := appendAsText(dst, line, s.scratch)
	if s.scratch = room; err != nil {
		panic("BUG: querylog: a line of the ring is not readable: " + err.Error())
	}
	return dst
}

// appendMissed appends the record of lines that were overwritten before they were read.
func (s *streamer) appendMissed(dst []byte, n uint64) []byte {
	d := lost{records: n}
	d.from = nanosOf(s.lastEnd[:])
	first, _, _ := bytes.Cut(s.in, newline)
	var next [32]byte
	copyEnd(&next, first)
	d.to = nanosOf(next[:])
	if d.from == 0 || d.to < d.from {
		d.from = d.to
	}
	return appendDropped(dst, &s.drop, s.log.boot, "http", d)
}

// keepEnd records the end time of the last line taken.
func (s *streamer) keepEnd() {
	if len(s.in) == 0 {
		return
	}
	last := s.in[bytes.LastIndexByte(s.in[:len(s.in)-1], '\n')+1:]
	copyEnd(&s.lastEnd, last)
}

// copyEnd copies the end field of a line of the ring; without one dst is unchanged.
func copyEnd(dst *[32]byte, line []byte) {
	for f := ParseLine(line); f.Next(); {
		if string(f.Name()) == "end" {
			copy(dst[:], f.Raw())
			return
		}
	}
}

// nanosOf parses a time in Line's format and returns it as Unix nanoseconds; 0 if b contains none.
func nanosOf(b []byte) int64 {
	t, err := time.Parse(time.RFC3339Nano, string(bytes.TrimRight(b, "\x00")))
	if err != nil {
		return 0
	}
	return t.UnixNano()
}

var _ http.Handler = (*Logger)(nil)
