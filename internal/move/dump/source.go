package dump

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Dump is a dump that is read. As a source of copies it has the tables, the chunks and the checksums of the manifest; it has no binary log.
// It is safe for concurrent use.
type Dump struct {
	from Destination
	m    *Manifest
}

var _ binlog.Follower = (*Dump)(nil)

// Open opens a dump. One that is unfinished or damaged is an error.
func Open(ctx context.Context, from Destination) (*Dump, error) {
	m, err := from.manifest(ctx, manifestName)
	if m == nil && (err == nil || errors.Is(err, ErrDamaged)) {
		partial, partialErr := from.manifest(ctx, partialName)
		switch {
		case partial != nil:
			return nil, fmt.Errorf("open the dump %s: %w: repeat the command that writes it, which resumes it", from.Name, ErrUnfinished)
		case err == nil && partialErr != nil:
			return nil, fmt.Errorf("open the dump %s: %w: repeat the command that writes it, with option restart: %w", from.Name, ErrUnfinished, partialErr)
		case err == nil:
			return nil, fmt.Errorf("open the dump %s: there is no %s: is it the directory that the dump was written to, and was the dump finished?", from.Name, manifestName)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the dump: %w", err)
	}
	for _, t := range m.Tables {
		if err := t.finished(); err != nil {
			return nil, fmt.Errorf("open the dump %s: %w: table %s.%s: %w", from.Name, ErrDamaged, t.Schema, t.Name, err)
		}
	}
	return &Dump{from: from, m: m}, nil
}

// Manifest returns the manifest, which must not be changed.
func (d *Dump) Manifest() *Manifest { return d.m }

// Inventory returns the objects of the dump that a selection asks for, all of them for an empty one; nil if the dump lists none.
func (d *Dump) Inventory(sel *inventory.Selection) (*inventory.Inventory, error) {
	if d.m.Objects == nil {
		return nil, nil
	}
	source := dialect.MySQL
	if strings.HasPrefix(d.m.Source, "mariadb ") {
		source = dialect.MariaDB
	}
	inv := &inventory.Inventory{Source: source, Objects: d.m.Objects}
	return inv.Select(sel)
}

// ServerVersion returns the version of the server that was dumped, without suffixes.
func (d *Dump) ServerVersion() string {
	version, _, _ := strings.Cut(d.m.Version, "-")
	return version
}

// Addr returns the name of the dump.
func (d *Dump) Addr() string { return d.from.Name }

// Identity identifies the dump and the server that was dumped.
func (d *Dump) Identity(context.Context) (string, error) { return d.m.Source + " dump " + d.m.ID, nil }

// Describe returns the description of a table, whose definition it reads.
func (d *Dump) Describe(ctx context.Context, schema, name string) (*rowstream.Table, error) {
	t := d.m.table(schema, name)
	if t == nil {
		return nil, fmt.Errorf("describe table %s.%s: the dump %s does not have it", schema, name, d.from.Name)
	}
	text, err := d.from.load(ctx, t.Create, nil)
	if err != nil {
		return nil, fmt.Errorf("describe table %s.%s: %w", schema, name, err)
	}
	shape := *t.Shape
	shape.Create = strings.TrimSuffix(string(text), createEnd)
	return &shape, nil
}

// Snapshot returns a view of the dump.
func (d *Dump) Snapshot(_ context.Context, workers int, _ []*rowstream.Table) (rowstream.View, error) {
	v := &view{d: d}
	for range workers {
		r, err := newChunkReader(&d.from)
		if err != nil {
			_ = v.Close()
			return nil, err
		}
		v.readers = append(v.readers, &viewReader{d: d, files: r})
	}
	return v, nil
}

// ErrNoLog is returned by the methods of a Follower about changes, and by LastKey.
var ErrNoLog = errors.New("a dump has no binary log, and does not change")

// ShortView returns an error.
func (d *Dump) ShortView(context.Context, string, *rowstream.Table, time.Duration) (rowstream.View, error) {
	return nil, ErrNoLog
}

// CheckFollow returns an error.
func (d *Dump) CheckFollow(context.Context, []*rowstream.Table, binlog.Position) error {
	return ErrNoLog
}

// Follow returns an error.
func (d *Dump) Follow(context.Context, binlog.FollowOptions) (binlog.Changes, error) {
	return nil, ErrNoLog
}

// CurrentPosition returns an error.
func (d *Dump) CurrentPosition(context.Context) (binlog.Position, error) {
	return binlog.Position{}, ErrNoLog
}

// GTIDPosition returns an error.
func (d *Dump) GTIDPosition(context.Context) (binlog.Position, error) {
	return binlog.Position{}, ErrNoLog
}

// LogBytes returns an error.
func (d *Dump) LogBytes(context.Context, binlog.Position, binlog.Position) (int64, error) {
	return 0, ErrNoLog
}

// Layout returns an error.
func (d *Dump) Layout(context.Context, *rowstream.Table) ([]int, error) { return nil, ErrNoLog }

// SchemaChanges returns an error.
func (d *Dump) SchemaChanges(context.Context, []*rowstream.Table, binlog.Position, binlog.Position) ([]binlog.SchemaChange, error) {
	return nil, ErrNoLog
}

// WriteHeartbeat returns an error.
func (d *Dump) WriteHeartbeat(context.Context, binlog.Heartbeat) error { return ErrNoLog }

// CheckHeartbeat returns an error.
func (d *Dump) CheckHeartbeat(context.Context, binlog.Heartbeat) error { return ErrNoLog }

// DeleteHeartbeat returns an error.
func (d *Dump) DeleteHeartbeat(context.Context, binlog.Heartbeat) error { return ErrNoLog }

// Close does nothing: the bucket is the caller's.
func (d *Dump) Close() error { return nil }

// A view is the rows of a dump.
type view struct {
	d       *Dump
	readers []*viewReader
}

func (v *view) How() string {
	return "a dump that was finished at " + v.d.m.Finished.UTC().Format(time.RFC3339) + ", " + v.d.from.Name
}

func (v *view) Position() string { return v.d.m.Position.String() }

func (v *view) Identity() string { return v.d.m.Source + " dump " + v.d.m.ID }

func (v *view) Reader(worker int) rowstream.ViewReader { return v.readers[worker] }

func (v *view) Close() error {
	for _, r := range v.readers {
		r.files.close()
	}
	return nil
}

// A viewReader reads the chunks of a dump.
type viewReader struct {
	d     *Dump
	files *chunkReader
	out   rowstream.Batch
}

// chunk returns a chunk by its number and bounds.
func (r *viewReader) chunk(t *rowstream.Table, c rowstream.Chunk, whole bool) (*Chunk, error) {
	table := r.d.m.table(t.Schema, t.Name)
	if table == nil {
		return nil, fmt.Errorf("table %s: the dump %s does not have it", t.FullName(), r.d.from.Name)
	}
	if c.Number < len(table.Chunks) {
		k := table.Chunks[c.Number]
		if sameKey(k.After, c.After) && (!whole || sameKey(k.Upto, c.Upto)) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("table %s: the dump %s has no chunk %d of these bounds", t.FullName(), r.d.from.Name, c.Number)
}

// Cut returns the chunk of the dump.
func (r *viewReader) Cut(_ context.Context, t *rowstream.Table, _ int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	k, err := r.chunk(t, from, false)
	if err != nil {
		return rowstream.Chunk{}, err
	}
	return rowstream.Chunk{Number: from.Number, After: k.After, Upto: k.Upto}, nil
}

// Read implements rowstream.Reader. The throttle is checked before each batch.
func (r *viewReader) Read(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	return func(yield func(*rowstream.Batch, error) bool) {
		err := r.read(ctx, t, c, o, func(b *rowstream.Batch) bool { return yield(b, nil) })
		if err != nil {
			yield(nil, fmt.Errorf("read chunk %d of %s: %w", c.Number, t.FullName(), err))
		}
	}
}

// read yields a chunk's batches. It returns no error after yield has returned false.
func (r *viewReader) read(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.ReadOptions, yield func(*rowstream.Batch) bool) error {
	if o.Where != "" {
		return errors.New("conditions in SQL apply when a dump is written")
	}
	k, err := r.chunk(t, c, true)
	if err != nil {
		return err
	}
	var filter *rowstream.Filter
	if o.Plan != nil {
		if filter, err = rowstream.NewFilter(o.Plan, len(t.Columns)); err != nil {
			return err
		}
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = rowstream.DefaultBatchBytes
	}
	var rows int64
	r.files.begin(k, len(t.Columns))
	for _, f := range k.Files {
		more, err := r.files.read(ctx, f, len(t.Columns), o.BatchBytes, func(b *rowstream.Batch) (bool, error) {
			rows += int64(b.Rows)
			return r.pass(ctx, b, filter, &o, yield)
		})
		if err != nil || !more {
			return err
		}
	}
	if rows != k.Rows {
		return fmt.Errorf("%w: its files have %d rows, and the manifest %d", ErrDamaged, rows, k.Rows)
	}
	return nil
}

// pass yields the rows of a batch that the filter selects.
func (r *viewReader) pass(ctx context.Context, b *rowstream.Batch, filter *rowstream.Filter, o *rowstream.ReadOptions, yield func(*rowstream.Batch) bool) (more bool, err error) {
	if o.Count != nil {
		*o.Count += int64(b.Rows)
	}
	if o.Throttle != nil && !o.Throttle.OK() {
		if err := o.Throttle.Wait(ctx); err != nil {
			return true, err
		}
	}
	if filter == nil {
		return yield(b), nil
	}
	r.out.Reset(filter.Columns())
	r.out.Shrink(rowstream.RoomKept(o.BatchBytes))
	if err := filter.AppendBatch(&r.out, b); err != nil {
		return true, err
	}
	return r.out.Rows == 0 || yield(&r.out), nil
}

// SumChunk returns the checksum of the manifest if it has one over the same rows and columns, and otherwise reads the rows.
func (r *viewReader) SumChunk(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) (sum rowstream.Checksum, err error) {
	k, err := r.chunk(t, c, true)
	if err != nil {
		return sum, err
	}
	if text := k.sumOver(len(t.Columns), o.Columns); text != "" && o.Plan == nil && o.Where == "" {
		sum.Rows = k.Rows
		sum.Sum, err = strconv.ParseUint(text, 16, 64)
		return sum, err
	}
	for row, err := range rowstream.SumRead(ctx, r, t, c, o) {
		if err != nil {
			return sum, err
		}
		sum.Rows++
		sum.Sum ^= row.Sum
	}
	return sum, nil
}

// sumOver returns the checksum over some columns; empty if the manifest has none.
func (k *Chunk) sumOver(all int, columns []int) string {
	if slices.Equal(columns, numbers(all)) {
		return k.Sum
	}
	for _, s := range k.Sums {
		if slices.Equal(s.Columns, columns) {
			return s.Sum
		}
	}
	return ""
}

// numbers returns the numbers from 0 to n-1.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// SumRows reads the rows and sums them up.
func (r *viewReader) SumRows(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) iter.Seq2[rowstream.RowSum, error] {
	return rowstream.SumRead(ctx, r, t, c, o)
}

// LastKey returns an error.
func (r *viewReader) LastKey(context.Context, *rowstream.Table) (mysqlwire.TextRow, error) {
	return nil, ErrNoLog
}
