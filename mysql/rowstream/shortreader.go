package rowstream

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ShortOptions configure a ShortReader.
type ShortOptions struct {
	Server   Server
	Identity string // of the view whose position is known

	// MaxAge is the maximum age of a view. A view is abandoned a tenth before that, and replaced between
	// chunks at half of it.
	MaxAge time.Duration

	// Patience is how long views may make no progress, because a lock blocks them, or the next row takes
	// longer than the life of a view. At least two views are tried.
	Patience time.Duration

	// Waiting is called before a view is taken, and the function that it returns afterwards; it may be nil.
	Waiting func() (end func())
}

// A ShortReader is a Reader that reads through consecutive short views, each of the one table that is read.
// Parts of a chunk may come from several views: each row is read at the time of its view. It must not be used
// concurrently.
type ShortReader struct {
	o       ShortOptions
	view    View // nil: none
	reader  ViewReader
	table   *Table
	renewal time.Time // when the view is replaced, unless it is in use
	last    lastKey
}

var _ Reader = (*ShortReader)(nil)

// NewShortReader returns a reader without a view.
func NewShortReader(o ShortOptions) *ShortReader { return &ShortReader{o: o} }

// Close ends the current view.
func (s *ShortReader) Close() error {
	if s.view == nil {
		return nil
	}
	view := s.view
	s.view, s.reader, s.table = nil, nil, nil
	return view.Close()
}

// ensureView ensures that there is a view of the table that is young enough to start reading.
func (s *ShortReader) ensureView(ctx context.Context, t *Table) error {
	if s.view != nil && s.table == t && time.Now().Before(s.renewal) {
		return nil
	}
	_ = s.Close() // its transaction reads only
	if s.o.Waiting != nil {
		defer s.o.Waiting()()
	}
	begun := time.Now()
	view, err := s.o.Server.ShortView(ctx, s.o.Identity, t, s.o.MaxAge-s.o.MaxAge/10)
	if err != nil {
		return err
	}
	s.view, s.reader, s.table, s.renewal = view, view.Reader(0), t, begun.Add(s.o.MaxAge/2)
	return nil
}

// withView calls do with a view, and again with the next one if the view expired. do reports whether it made
// progress.
func (s *ShortReader) withView(ctx context.Context, t *Table, do func(ViewReader) (further bool, err error)) error {
	patience := max(s.o.Patience, 2*s.o.MaxAge)
	for since := time.Now(); ; {
		further := false
		err := s.ensureView(ctx, t)
		if err == nil {
			further, err = do(s.reader)
		}
		if err == nil || ctx.Err() != nil || !mayRenew(err) {
			return err
		}
		_ = s.Close()
		if further {
			since = time.Now()
		} else if time.Since(since) > patience {
			return fmt.Errorf("%w; tried for %v in views of at most %v: a lock keeps readers from %s, or its rows take longer to read",
				err, time.Since(since).Round(time.Millisecond), s.o.MaxAge, t.FullName())
		}
	}
}

// Cut implements Reader.
func (s *ShortReader) Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (c Chunk, err error) {
	err = s.withView(ctx, t, func(r ViewReader) (further bool, err error) {
		c, err = r.Cut(ctx, t, bytes, from)
		return false, err
	})
	return c, err
}

// LastKey is ViewReader.LastKey of a current view.
func (s *ShortReader) LastKey(ctx context.Context, t *Table) (key mysqlwire.TextRow, err error) {
	err = s.withView(ctx, t, func(r ViewReader) (further bool, err error) {
		key, err = r.LastKey(ctx, t)
		return false, err
	})
	return key, err
}

// Read implements Reader. When a view expires, reading continues in the next one after the last row that was
// yielded. Rows that the plan excludes may be counted by both.
func (s *ShortReader) Read(ctx context.Context, t *Table, c Chunk, o ReadOptions) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := s.last.reset(t, o.Plan); err != nil {
			yield(nil, fmt.Errorf("read chunk %d of %s: %w", c.Number, t.FullName(), err))
			return
		}
		left := false // the loop was stopped early
		err := s.withView(ctx, t, func(r ViewReader) (further bool, err error) {
			for b, err := range r.Read(ctx, t, c, o) {
				if err == nil {
					err = s.last.store(b)
				}
				if err != nil {
					if further {
						c.After, err = s.last.after(err)
					}
					return further, err
				}
				if left = !yield(b, nil); left {
					return false, nil
				}
				further = true
			}
			return further, nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// A lastKey stores the key of the last row of a batch, in reused memory.
type lastKey struct {
	t    *Table
	at   []int // indexes of the key's columns in the batch's rows
	row  mysqlwire.TextRow
	keys mysqlwire.TextRow
}

// reset prepares for rows of a plan.
func (l *lastKey) reset(t *Table, p *Plan) (err error) {
	l.t = t
	l.at, err = keyColumns(t, p)
	return err
}

// store stores the key of the last row of a batch.
func (l *lastKey) store(b *Batch) error {
	if err := b.lastRow(&l.row); err != nil {
		return err
	}
	for len(l.keys) < len(l.at) {
		l.keys = append(l.keys, []byte{}) // nil would be NULL
	}
	l.keys = l.keys[:len(l.at)]
	for i, n := range l.at {
		v := l.row[n]
		if v == nil {
			return fmt.Errorf("table %s: %w", l.t.FullName(), ErrNullKey)
		}
		if l.t.Columns[l.t.Key[i]].kind() == kindBit {
			l.keys[i] = appendBits(l.keys[i][:0], v)
		} else {
			l.keys[i] = append(l.keys[i][:0], v...)
		}
	}
	return nil
}

// after returns the key as a chunk's start, together with the error of reading; the key is needed only if
// reading failed.
func (l *lastKey) after(err error) (mysqlwire.TextRow, error) {
	key, cloneErr := cloneKey(l.keys)
	if cloneErr != nil {
		return nil, cloneErr
	}
	return key, err
}
