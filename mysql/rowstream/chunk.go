package rowstream

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Chunk is a range of a table's rows in the order of its key, including Table.Descending: those after
// After, up to and including Upto. Tuples are values of the key's columns as returned by the server; nil is
// the table's start or end.
type Chunk struct {
	Number int // from 0, in the order of the key
	After  mysqlwire.TextRow
	Upto   mysqlwire.TextRow
}

// keyExprs returns the key's columns as selected to cut chunks.
func (t *Table) keyExprs() string {
	exprs := make([]string, len(t.Key))
	for i, k := range t.Key {
		exprs[i] = t.Columns[k].keyExpr()
	}
	return strings.Join(exprs, ", ")
}

// keyOrder returns the ORDER BY list of the key.
func (t *Table) keyOrder() string {
	return t.order(false)
}

// order returns the ORDER BY list of the key, or of its reverse.
func (t *Table) order(reverse bool) string {
	names := make([]string, len(t.Key))
	for i, k := range t.Key {
		names[i] = session.Ident(t.Columns[k].Name)
		if t.descends(i) != reverse {
			names[i] += " DESC"
		}
	}
	return strings.Join(names, ", ")
}

// descends reports whether chunks have a column of the key in descending order.
func (t *Table) descends(i int) bool { return i < len(t.Descending) && t.Descending[i] }

// side returns the operator for a column of the key that selects the side op of a tuple in the order of the
// key.
func (t *Table) side(op string, i int) string {
	if !t.descends(i) {
		return op
	}
	return strings.NewReplacer("<", ">", ">", "<").Replace(op)
}

// bound returns the condition that a row's key is on one side of a tuple: with ">" after it, with "<=" up to
// and including it. A comparison of tuples would not use the index, so it is expanded: a > 1 OR a = 1 AND b >
// 2, within a >= 1; with descending b, b < 2.
func (t *Table) bound(op string, tuple mysqlwire.TextRow) (string, error) {
	if len(tuple) != len(t.Key) {
		return "", fmt.Errorf("a key of %d values for the %d columns of %s", len(tuple), len(t.Key), t.KeyName)
	}
	strict := op[:1]
	var b strings.Builder
	equal := ""
	for i, k := range t.Key {
		c := &t.Columns[k]
		v, err := c.keyLiteral(tuple[i])
		if err != nil {
			return "", err
		}
		name := session.Ident(c.Name)
		if i == 0 && len(t.Key) > 1 {
			fmt.Fprintf(&b, "%s %s= %s AND (", name, t.side(strict, i), v)
		}
		last := i == len(t.Key)-1
		if last {
			strict = op
		}
		fmt.Fprintf(&b, "%s%s %s %s", equal, name, t.side(strict, i), v)
		if !last {
			b.WriteString(" OR ")
			equal += name + " = " + v + " AND "
		}
	}
	if len(t.Key) > 1 {
		b.WriteString(")")
	}
	return b.String(), nil
}

// KeyIs returns the condition that a row's key is a tuple, which is as keys of chunks are.
func (t *Table) KeyIs(tuple mysqlwire.TextRow) (string, error) {
	if len(tuple) != len(t.Key) {
		return "", fmt.Errorf("a key of %d values for the %d columns of %s", len(tuple), len(t.Key), t.KeyName)
	}
	parts := make([]string, len(tuple))
	for i, k := range t.Key {
		v, err := t.Columns[k].keyLiteral(tuple[i])
		if err != nil {
			return "", err
		}
		parts[i] = session.Ident(t.Columns[k].Name) + " = " + v
	}
	return strings.Join(parts, " AND "), nil
}

// conditions returns the chunk's bounds and the caller's condition as a WHERE clause.
func (t *Table) conditions(c Chunk, where string) (string, error) {
	var all []string
	for _, side := range []struct {
		op    string
		tuple mysqlwire.TextRow
	}{{">", c.After}, {"<=", c.Upto}} {
		if side.tuple == nil {
			continue
		}
		cond, err := t.bound(side.op, side.tuple)
		if err != nil {
			return "", fmt.Errorf("chunk %d of %s: %w", c.Number, t.FullName(), err)
		}
		all = append(all, "("+cond+")")
	}
	if where != "" {
		all = append(all, "("+where+")")
	}
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), nil
}

// ChunkCondition returns the condition that a row is in a chunk.
func (t *Table) ChunkCondition(c Chunk) (string, error) {
	where, err := t.conditions(c, "")
	if where == "" {
		where = " WHERE TRUE"
	}
	return strings.TrimPrefix(where, " WHERE "), err
}

// forceIndex returns the clause that makes the server use the key's index for ranges.
func (t *Table) forceIndex() string {
	if t.KeyName == "" {
		return ""
	}
	return " FORCE INDEX (" + session.Ident(t.KeyName) + ")"
}

// SelectChunk returns the statement that reads a chunk's rows.
func (t *Table) SelectChunk(c Chunk, where string) (string, error) {
	conditions, err := t.conditions(c, where)
	if err != nil {
		return "", err
	}
	exprs := make([]string, len(t.Columns))
	for i := range t.Columns {
		exprs[i] = t.Columns[i].ReadExpr()
	}
	order := ""
	if len(t.Key) > 0 {
		order = " ORDER BY " + t.keyOrder()
	}
	return "SELECT " + strings.Join(exprs, ", ") + " FROM " + t.SQLName() + t.forceIndex() + conditions + order, nil
}

// A chunker cuts a table into consecutive chunks over one connection.
type chunker struct {
	t     *Table
	rows  int64             // target per chunk
	next  Chunk             // without an end
	end   mysqlwire.TextRow // rows after it are not cut; nil: all are
	ended bool

	// dense reports that the key is one integer whose values are close together, so that ranges are computed
	// arithmetically; max is the largest value.
	dense     bool
	last, max int64
}

// denseSpread is the maximum number of possible values of an integer key per row for the key to be cut
// arithmetically.
const denseSpread = 4

// newChunker returns a chunker that cuts t into chunks of about the given bytes, starting after the last
// chunk of an earlier run: pass its Upto and Number+1 as from, or the zero Chunk. Unless from.Upto is nil,
// the chunk that reaches it is the last one. A table without a key is one chunk.
func newChunker(ctx context.Context, c *mysqlconn.Client, t *Table, bytes int64, from Chunk) (*chunker, error) {
	k := &chunker{t: t, next: Chunk{Number: from.Number, After: from.After}, end: from.Upto}
	k.size(bytes)
	if err := k.findDense(ctx, c); err != nil {
		return nil, fmt.Errorf("cut table %s into chunks: %w", t.FullName(), err)
	}
	return k, nil
}

// size sets the size of the next chunks.
func (k *chunker) size(bytes int64) { k.rows = max(1, bytes/max(1, k.t.RowBytes())) }

// RowBytes returns the number of bytes per row by the server's estimate.
func (t *Table) RowBytes() int64 {
	if t.RowsEstimate <= 0 {
		return 1 << 10
	}
	return max(16, t.BytesEstimate/t.RowsEstimate)
}

// MaxRowBytes returns how many bytes a row has at most, by the definition; 0: a column has no small bound.
func (t *Table) MaxRowBytes() (all int64) {
	for i := range t.Columns {
		n := t.Columns[i].maxBytes()
		if n == 0 {
			return 0
		}
		all += n
	}
	return all
}

// findDense determines whether ranges can be computed arithmetically.
func (k *chunker) findDense(ctx context.Context, c *mysqlconn.Client) error {
	if len(k.t.Key) != 1 || k.t.Columns[k.t.Key[0]].kind() != kindInteger {
		return nil
	}
	name := session.Ident(k.t.Columns[k.t.Key[0]].Name)
	var bounds mysqlwire.TextRow
	if _, err := c.Query(ctx, "SELECT MIN("+name+"), MAX("+name+") FROM "+k.t.SQLName(), func(row mysqlwire.TextRow) error {
		bounds = mysqlwire.TextRow{[]byte(string(row[0])), []byte(string(row[1]))}
		return nil
	}); err != nil {
		return err
	}
	lowest, err1 := strconv.ParseInt(string(bounds[0]), 10, 64)
	highest, err2 := strconv.ParseInt(string(bounds[1]), 10, 64)
	if err1 != nil || err2 != nil { // an empty table, or keys beyond a signed integer
		return nil
	}
	spread := uint64(highest-lowest) + 1
	k.last, k.max = lowest-1, highest
	if k.next.After != nil { // from an earlier view, in which keys may have been larger
		k.last, err1 = strconv.ParseInt(string(k.next.After[0]), 10, 64)
	}
	if k.end != nil {
		var end int64
		end, err2 = strconv.ParseInt(string(k.end[0]), 10, 64)
		k.max = min(highest, end)
	}
	signed := err1 == nil && err2 == nil && (lowest != math.MinInt64 || k.next.After != nil)
	k.dense = signed && spread != 0 && spread/denseSpread <= uint64(max(k.t.RowsEstimate, 1))
	return nil
}

// Next cuts the next chunk. The last one's Upto is nil; Next must not be called after it.
func (k *chunker) Next(ctx context.Context, c *mysqlconn.Client) (chunk Chunk, err error) {
	if k.ended {
		panic("BUG: a table is cut after its last chunk")
	}
	chunk = k.next
	switch {
	case len(k.t.Key) == 0:
	case k.dense:
		chunk.Upto, err = k.nextDense(ctx, c)
	default:
		chunk.Upto, err = k.nextByOffset(ctx, c, k.rows)
	}
	if err != nil {
		return Chunk{}, fmt.Errorf("cut chunk %d of %s: %w", chunk.Number, k.t.FullName(), err)
	}
	k.ended = chunk.Upto == nil
	k.next = Chunk{Number: chunk.Number + 1, After: chunk.Upto}
	return chunk, nil
}

// probedRows is how many rows show whether the next keys are close together: the estimate by which they are may be wrong.
const probedRows = 1000

// nextDense adds the target number of rows to the last key, unless the next keys are further apart than that.
func (k *chunker) nextDense(ctx context.Context, c *mysqlconn.Client) (mysqlwire.TextRow, error) {
	if k.max <= k.last || uint64(k.max-k.last) <= uint64(k.rows) {
		return nil, nil // the remaining rows
	}
	probed := min(k.rows, probedRows)
	key, last, err := k.nextInteger(ctx, c, probed)
	if err != nil || key == nil {
		return nil, err
	}
	if uint64(last-k.last) > 2*uint64(probed) {
		if key, last, err = k.nextInteger(ctx, c, k.rows); key != nil {
			k.last = last
		}
		return key, err
	}
	k.last += k.rows
	return mysqlwire.TextRow{strconv.AppendInt(nil, k.last, 10)}, nil
}

// nextInteger is nextByOffset for a key that is one integer, which it returns too.
func (k *chunker) nextInteger(ctx context.Context, c *mysqlconn.Client, rows int64) (key mysqlwire.TextRow, n int64, err error) {
	if key, err = k.nextByOffset(ctx, c, rows); err == nil && key != nil {
		n, err = strconv.ParseInt(string(key[0]), 10, 64)
	}
	return key, n, err
}

// nextByOffset queries the key at a distance of a number of rows.
func (k *chunker) nextByOffset(ctx context.Context, c *mysqlconn.Client, rows int64) (mysqlwire.TextRow, error) {
	sql, err := k.offsetSQL(rows)
	if err != nil {
		return nil, err
	}
	var key mysqlwire.TextRow
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) (err error) {
		key, err = cloneKey(row)
		return err
	})
	return key, err
}

func (k *chunker) offsetSQL(rows int64) (string, error) {
	conditions, err := k.t.conditions(Chunk{After: k.next.After, Upto: k.end}, "")
	return "SELECT " + k.t.keyExprs() + " FROM " + k.t.SQLName() + k.t.forceIndex() + conditions +
		" ORDER BY " + k.t.keyOrder() + " LIMIT " + strconv.FormatInt(rows-1, 10) + ", 1", err
}
