package tabledef

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/taredb/tare/mysql/rowstream"
)

// A Sizing derives how many rows the next chunk of a table has from the chunks that were copied last: the server's statistics may be days old, or
// wrong by any factor. They count for the first chunks alone, which are small for that reason unless the definition bounds the bytes of a row. The zero
// Sizing is ready to use.
type Sizing struct {
	// Short is for copies with limits: clients' commits wait while the server writes a large transaction to its binary log.
	Short bool

	mu       sync.Mutex
	cut      map[int]int64 // rows that chunks were cut for and that are not copied yet, by number
	most     int64         // of those that are copied
	rowBytes float64       // of the last rows; 0: none is copied
	rowTime  float64       // seconds per row that a chunk was cut for, of the last ones
}

const (
	firstRows = 128 // at most in the chunks before the first measurement
	growth    = 8   // at most of a chunk over the largest before

	// chunkTime is how long a chunk may take, by the last ones: locks of its rows and undo log are kept for as long.
	chunkTime = 5 * time.Second

	// The same of short chunks, unless these have less than the following bytes: then the time is that of the commit, and of the record of the
	// chunk, which do not get shorter. A large table has no more than so many chunks.
	shortChunkTime  = 10 * time.Millisecond
	leastShortBytes = 64 << 10
	mostShortChunks = 1 << 16
)

// Next returns how many rows of a table the chunk with a number is cut for, so that it has about the given bytes.
func (s *Sizing) Next(t *rowstream.Table, number int, bytes int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rowBytes, most := s.rowBytes, max(firstRows, growth*s.most)
	if rowBytes == 0 {
		rowBytes = float64(t.RowBytes())
	}
	if bound := t.MaxRowBytes(); bound > 0 {
		rowBytes, most = min(rowBytes, float64(bound)), max(most, bytes/bound)
	}
	n := min(float64(bytes)/max(1, rowBytes), float64(most))
	switch least := float64(max(leastShortBytes, t.BytesEstimate/mostShortChunks)) / max(1, rowBytes); {
	case s.Short && s.rowTime > 0:
		n = min(n, max(least, shortChunkTime.Seconds()/s.rowTime))
	case s.Short:
		n = min(n, least)
	case s.rowTime > 0:
		n = min(n, chunkTime.Seconds()/s.rowTime)
	}
	rows := max(1, int64(n))
	if s.cut == nil {
		s.cut = make(map[int]int64)
	}
	s.cut[number] = rows
	return rows
}

// Copied records that a chunk was copied within a time, without its pauses. Its rows are those that a filter has left.
func (s *Sizing) Copied(number int, rows, bytes int64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, ok := s.cut[number]
	if !ok { // it was cut by an earlier run
		asked = rows
	}
	delete(s.cut, number)
	mean := func(old *float64, now float64) {
		if *old > 0 {
			now = (*old + now) / 2
		}
		*old = now
	}
	if rows > 0 {
		mean(&s.rowBytes, max(1, float64(bytes)/float64(rows)))
	}
	if asked > 0 {
		mean(&s.rowTime, took.Seconds()/float64(asked))
	}
	s.most = max(s.most, asked)
}

// CutRows cuts a table's next chunk of about as many rows.
func CutRows(ctx context.Context, r rowstream.Reader, t *rowstream.Table, rows int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	each := t.RowBytes() // by which the reader divides
	return r.Cut(ctx, t, min(rows, math.MaxInt64/each)*each, from)
}
