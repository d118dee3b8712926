package rowstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// ErrViewExpired means that a short view has reached its age limit, before a call or within it. The rows
// returned are those of the view; the others can be read through another one.
var ErrViewExpired = errors.New("the view has reached its age limit")

// ErrAltered means that a table differs from its description.
var ErrAltered = errors.New("it has been altered since it was described")

// readIdentity is ServerIdentity; empty if the server has none.
func readIdentity(ctx context.Context, c *mysqlconn.Client) (string, error) {
	identity, err := session.ServerIdentity(ctx, c)
	if session.IsUnknownVariable(err) {
		return "", nil
	}
	return identity, err
}

// checkIdentity returns an error unless the server is that of an earlier view: the state of another server
// may be older than that view's.
func checkIdentity(ctx context.Context, c *mysqlconn.Client, want string) error {
	if want == "" {
		return nil
	}
	got, err := readIdentity(ctx, c)
	if err == nil && got != want {
		err = fmt.Errorf("the address leads to another server now (%s) than before (%s)", got, want)
	}
	return err
}

// An Expiry ends a view at its age limit.
type Expiry struct {
	life  context.Context // done when the view has expired or was closed
	end   context.CancelCauseFunc
	at    time.Time // when it expires
	timer *time.Timer
	over  chan struct{} // closed when the function started by the timer has returned

	broken atomic.Bool // a call was abandoned
}

// NewExpiry starts the timer of a view. When it expires, calls with a context of During are canceled, and
// then cut is called to end the view.
func NewExpiry(ctx context.Context, limit time.Duration, cut func()) *Expiry {
	e := &Expiry{at: time.Now().Add(limit), over: make(chan struct{})}
	e.life, e.end = context.WithCancelCause(context.WithoutCancel(ctx))
	e.timer = time.AfterFunc(limit, func() {
		defer close(e.over)
		e.end(ErrViewExpired)
		cut()
	})
	return e
}

// Stop stops the timer, and waits until the function that it may have started returns.
func (e *Expiry) Stop() {
	if !e.timer.Stop() {
		<-e.over
	}
	e.end(context.Canceled)
}

// During returns a context for a call that also ends with the view.
func (e *Expiry) During(call context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(call)
	stop := context.AfterFunc(e.life, func() { cancel(context.Cause(e.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Explain returns the error of a call, as ErrViewExpired if the view has ended meanwhile. The other side of a
// wire may end it before the timer of this side.
func (e *Expiry) Explain(err error) error {
	expired := errors.Is(context.Cause(e.life), ErrViewExpired) || !time.Now().Before(e.at)
	if err == nil || errors.Is(err, ErrViewExpired) || !expired {
		return err
	}
	return fmt.Errorf("%w: %w", ErrViewExpired, err)
}

// Bind returns a reader whose calls end with the view.
func (e *Expiry) Bind(r ViewReader) ViewReader { return &boundReader{e, r} }

// A boundReader is a reader whose calls end with its view.
type boundReader struct {
	e *Expiry
	r ViewReader
}

// call calls do with a context that ends with the view.
func (b *boundReader) call(ctx context.Context, do func(context.Context) error) error {
	within, cancel := b.e.During(ctx)
	defer cancel()
	err := do(within)
	if within.Err() != nil {
		b.e.broken.Store(true)
	}
	return b.e.Explain(err)
}

// Cut implements Reader.
func (b *boundReader) Cut(ctx context.Context, t *Table, bytes int64, from Chunk) (c Chunk, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		c, err = b.r.Cut(ctx, t, bytes, from)
		return err
	})
	return c, err
}

// Read implements Reader.
func (b *boundReader) Read(ctx context.Context, t *Table, c Chunk, o ReadOptions) iter.Seq2[*Batch, error] {
	return within(ctx, b, func(ctx context.Context) iter.Seq2[*Batch, error] { return b.r.Read(ctx, t, c, o) })
}

// within returns the elements of all, which ends with the view.
func within[T any](ctx context.Context, b *boundReader, all func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := false // the loop was stopped early
		err := b.call(ctx, func(ctx context.Context) error {
			for one, err := range all(ctx) {
				if err != nil {
					return err
				}
				if left = !yield(one, nil); left {
					return nil
				}
			}
			return nil
		})
		if err != nil && !left {
			yield(*new(T), err)
		}
	}
}

// SumChunk implements ViewReader.
func (b *boundReader) SumChunk(ctx context.Context, t *Table, c Chunk, o SumOptions) (sum Checksum, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		sum, err = b.r.SumChunk(ctx, t, c, o)
		return err
	})
	return sum, err
}

// SumRows implements ViewReader.
func (b *boundReader) SumRows(ctx context.Context, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return within(ctx, b, func(ctx context.Context) iter.Seq2[RowSum, error] { return b.r.SumRows(ctx, t, c, o) })
}

// LastKey implements ViewReader.
func (b *boundReader) LastKey(ctx context.Context, t *Table) (key mysqlwire.TextRow, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		key, err = b.r.LastKey(ctx, t)
		return err
	})
	return key, err
}

// A shortView is a view of one connection that ends at its age limit.
type shortView struct {
	*snapshot
	*Expiry
	cfg mysqlconn.Config
}

// ShortView implements Server.
func (d *Direct) ShortView(ctx context.Context, identity string, t *Table, limit time.Duration) (_ View, err error) {
	// The server ends the transaction if this process cannot: see cut.
	c, err := session.Connect(ctx, d.cfg, session.Seconds("wait_timeout", 2*limit), session.Seconds("net_write_timeout", 2*limit))
	if err != nil {
		return nil, fmt.Errorf("take a view of %s: %w", t.FullName(), err)
	}
	v := &shortView{snapshot: &snapshot{how: "a transaction of its own", identity: identity, clients: []*mysqlconn.Client{c}, chunkers: make(map[*Table]*chunker)}, cfg: d.cfg}
	v.Expiry = NewExpiry(ctx, limit, v.cut)
	within, cancel := v.During(ctx)
	defer cancel()
	if err := d.openShort(within, v, t); err != nil {
		v.broken.Store(within.Err() != nil)
		return nil, errors.Join(fmt.Errorf("take a view of %s: %w", t.FullName(), v.Explain(err)), v.Close())
	}
	return v, nil
}

// openShort starts the view's transaction, locks the table's definition in it, and then compares the
// definition.
func (d *Direct) openShort(ctx context.Context, v *shortView, t *Table) error {
	c := v.clients[0]
	if err := checkIdentity(ctx, c, v.identity); err != nil {
		return err
	}
	for _, sql := range []string{
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
		"SELECT 1 FROM " + t.SQLName() + " LIMIT 0", // the metadata lock lasts as long as the transaction
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	now, err := d.Describe(ctx, t.Schema, t.Name) // over another connection, which sees the current definition
	if err == nil && !now.SameShape(t) {
		err = ErrAltered
	}
	return err
}

// Reader returns the view's only reader.
func (v *shortView) Reader(worker int) ViewReader {
	return v.Expiry.Bind(&reader{s: v.snapshot, worker: worker})
}

// killTimeout bounds the statement that kills a view's connection.
const killTimeout = 5 * time.Second

// cut ends the view's transaction, even within a statement: a server detects a closed socket only when it
// writes to it.
func (v *shortView) cut() {
	_ = v.clients[0].Conn.Close() // the view is lost in any case
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.life), killTimeout)
	defer cancel()
	c, err := session.OpenBare(ctx, v.cfg)
	if err != nil {
		return // the server is unreachable
	}
	_, _ = c.Exec(ctx, fmt.Sprintf("KILL %d", v.clients[0].ConnectionID)) // the connection may have ended already
	_ = c.Close()
}

// Close ends the view.
func (v *shortView) Close() error {
	v.Stop()
	if errors.Is(context.Cause(v.life), ErrViewExpired) {
		return nil // the socket is closed
	}
	if v.broken.Load() {
		v.cut()
		return nil
	}
	return v.snapshot.Close()
}

// isRedefined reports whether a server refuses to read a table in a view that is older than the table's
// definition.
func isRedefined(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == errTableDefChanged
}

// mayRenew reports whether a failed read can be continued in another view.
func mayRenew(err error) bool { return errors.Is(err, ErrViewExpired) || isRedefined(err) }

// keyColumns returns the indexes of a table's key in the rows that a plan outputs.
func keyColumns(t *Table, p *Plan) ([]int, error) {
	if p == nil || p.Output == nil {
		return t.Key, nil
	}
	var missing []string
	at := make([]int, len(t.Key))
	for i, k := range t.Key {
		at[i] = -1
		for j, o := range p.Output {
			if o.Column == k && o.From == ColumnValue {
				at[i] = j
			}
		}
		if at[i] < 0 {
			missing = append(missing, t.Columns[k].Name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the rows lack columns of the key, after which reading continues in another view: %s", strings.Join(missing, ", "))
	}
	return at, nil
}
