package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// Rows that change in every comparison are not known to be equal. Where both sides can be stopped for a moment, such as for a swap of the two
// tables, they are compared then, by their keys.

// maxChanging is the maximum number of such rows that are kept, per verification.
const maxChanging = 1000

// A Changing is the rows of a pass that changed in every comparison.
type Changing struct {
	v    *Following
	keys []map[string]bool // of each table, encoded
	rows int
	lost bool // there were more than are kept
}

// Rows returns how many rows there are, and false if not all of them are kept.
func (c *Changing) Rows() (n int, complete bool) { return c.rows, !c.lost }

// keep keeps the rows of a comparison that differed, of which there were as many as counts has.
func (c *Changing) keep(table int, found *ChunkMismatch, counts *Report) {
	c.lost = c.lost || int64(len(found.Rows)) < counts.Mismatches()
	for i := range found.Rows {
		if c.rows == maxChanging {
			c.lost = true
			return
		}
		if key := found.Rows[i].encoded; !c.keys[table][key] {
			c.keys[table][key] = true
			c.rows++
		}
	}
}

// ErrDiffer means that rows differ.
var ErrDiffer = errors.New("rows differ between the two sides")

// Compare compares the rows while neither side changes, by the connections to the two sides. Afterwards the reports of the pass have no
// undecided chunks.
func (c *Changing) Compare(ctx context.Context, source, target *mysqlconn.Client) error {
	for i, keys := range c.keys {
		if len(keys) == 0 {
			continue
		}
		of := c.v.comparisons[i]
		here, err := sumsOf(ctx, source, of.t.Source, of.source, keys)
		if err != nil {
			return err
		}
		there, err := sumsOf(ctx, target, of.target, of.there, keys)
		if err != nil {
			return err
		}
		for key := range keys {
			if here[key] != there[key] {
				return fmt.Errorf("%w: a row of %s that changed in every comparison before", ErrDiffer, of.t.Spec.Source())
			}
		}
	}
	for _, r := range c.v.reports {
		r.Undecided = 0
	}
	return nil
}

// sumsOf returns the sums of rows by their encoded keys.
func sumsOf(ctx context.Context, conn *mysqlconn.Client, t *rowstream.Table, o rowstream.SumOptions, keys map[string]bool) (map[string]rowstream.Checksum, error) {
	var conditions []string
	for key := range keys {
		tuple, err := rowstream.DecodeKey([]byte(key), len(t.Key))
		if err != nil {
			return nil, err
		}
		condition, err := t.KeyIs(tuple)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, "("+condition+")")
	}
	o.Where = strings.Join(conditions, " OR ")
	sums := make(map[string]rowstream.Checksum) // one row per key, where it is unique
	for row, err := range rowstream.SumRowsOf(ctx, conn, t, rowstream.Chunk{}, o) {
		if err != nil {
			return nil, err
		}
		key := string(rowstream.EncodeKey(row.Key))
		sum := sums[key]
		sums[key] = rowstream.Checksum{Rows: sum.Rows + 1, Sum: sum.Sum ^ row.Sum}
	}
	return sums, nil
}
