package verify

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// narrowRows is the number of the source's rows per comparison with the target.
const narrowRows = 500

// narrow finds the rows of a chunk that differ, after its checksums did, and returns the target's checksum. The source's rows are read
// once, in key order; each group of them is compared with the same range of the target. Only one group is in memory. Keys are compared
// by their bytes, because only the servers know the collations.
//
// The target is read in one snapshot, and its checksum again in it. So the rows read on each side have the checksum of that side, and
// explain why the two differ; otherwise narrow returns an UnexplainedError. If the target's checksum is the source's by then, narrow
// finds nothing.
func (w *worker) narrow(ctx context.Context, c *comparison, k rowstream.Chunk, source rowstream.Checksum, found *ChunkMismatch, counts *Report) (target rowstream.Checksum, err error) {
	var sourceErr error // which a retry at the target does not help
	err = w.writer.Retry(ctx, func() error {
		found.Rows, *counts, sourceErr = []RowMismatch{}, Report{}, nil
		return session.InSnapshot(ctx, w.writer.Conn, func() (err error) {
			if target, err = rowstream.SumChunkOf(ctx, w.writer.Conn, c.target, k, c.there); err != nil || target == source {
				return err
			}
			n := narrowing{c: c, found: found, counts: counts, group: make(map[string]uint64), rest: k}
			if sourceErr, err = n.compareAll(ctx, w, k); sourceErr == nil && err == nil {
				sourceErr = n.explain(k, source, target)
			}
			return err
		})
	})
	if err != nil {
		return target, fmt.Errorf("verify at the target: %w", err)
	}
	found.Target = sumReport(target)
	return target, sourceErr
}

// compareAll compares all rows of a chunk. Errors of the source are separate.
func (n *narrowing) compareAll(ctx context.Context, w *worker, k rowstream.Chunk) (sourceErr, err error) {
	for row, err := range rowstream.SumRows(ctx, w.view, n.c.t.Source, k, n.c.source) {
		if err != nil {
			return err, nil
		}
		n.source.Rows++
		n.source.Sum ^= row.Sum
		key := rowstream.EncodeKey(row.Key)
		n.group[string(key)] = row.Sum
		n.order = append(n.order, string(key))
		if len(n.order) < narrowRows {
			continue
		}
		last, err := rowstream.DecodeKey(key, len(row.Key))
		if err != nil {
			return err, nil
		}
		if err := n.flush(ctx, w.writer.Conn, last); err != nil {
			return nil, err
		}
	}
	return nil, n.flush(ctx, w.writer.Conn, k.Upto)
}

// explain returns an UnexplainedError unless the rows read have the checksums of the two sides, and some of them differ.
func (n *narrowing) explain(k rowstream.Chunk, source, target rowstream.Checksum) error {
	if n.source == source && n.target == target && n.counts.Mismatches() > 0 {
		return nil
	}
	return &UnexplainedError{
		Table: n.c.t.Spec.Source(), Chunk: k.Number, After: keyText(k.After), Upto: keyText(k.Upto),
		Source: source, Target: target, SourceRows: n.source, TargetRows: n.target, Mismatches: n.counts.Mismatches(),
	}
}

// A narrowing compares a group of the source's rows with the target's.
type narrowing struct {
	c      *comparison
	rest   rowstream.Chunk
	group  map[string]uint64 // sums of the source's rows by key
	order  []string          // their keys, in the order read
	found  *ChunkMismatch
	counts *Report

	source, target rowstream.Checksum // of the rows read so far
}

// A comparedGroup is the result of comparing a group with the target's rows in its range.
type comparedGroup struct {
	seen    map[string]bool // keys of the group that the target has
	changed map[string]bool // whether the values of a key in seen differ
	extra   []RowMismatch
	extras  int64
}

// flush compares the group, which reaches up to a key, and starts the next one.
func (n *narrowing) flush(ctx context.Context, target *mysqlconn.Client, upto mysqlwire.TextRow) error {
	g, err := n.compare(ctx, target, rowstream.Chunk{Number: n.rest.Number, After: n.rest.After, Upto: upto})
	if err != nil {
		return err
	}
	n.count(g)
	clear(n.group)
	n.order, n.rest.After = n.order[:0], upto
	return nil
}

// compare reads the target's rows in the range of the group. A second row with a key, which a target without a unique key can have, is
// an extra one.
func (n *narrowing) compare(ctx context.Context, target *mysqlconn.Client, part rowstream.Chunk) (*comparedGroup, error) {
	g := &comparedGroup{seen: make(map[string]bool), changed: make(map[string]bool)}
	for row, err := range rowstream.SumRowsOf(ctx, target, n.c.target, part, n.c.there) {
		if err != nil {
			return nil, err
		}
		n.target.Rows++
		n.target.Sum ^= row.Sum
		text := string(rowstream.EncodeKey(row.Key))
		if want, ok := n.group[text]; ok && !g.seen[text] {
			g.seen[text], g.changed[text] = true, want != row.Sum
			continue
		}
		if g.extras++; len(g.extra) < maxMismatches {
			g.extra = append(g.extra, RowMismatch{Key: keyText(row.Key), Kind: RowExtra, encoded: text})
		}
	}
	return g, nil
}

// count adds the result of a group to the counts and to the rows found.
func (n *narrowing) count(g *comparedGroup) {
	for _, text := range n.order {
		switch {
		case !g.seen[text]:
			n.counts.Missing++
			n.add(text, RowMissing)
		case g.changed[text]:
			n.counts.Changed++
			n.add(text, RowChanged)
		}
	}
	n.counts.Extra += g.extras
	room := maxMismatches - len(n.found.Rows)
	n.found.Rows = append(n.found.Rows, g.extra[:min(room, len(g.extra))]...)
}

func (n *narrowing) add(text string, kind MismatchKind) {
	if len(n.found.Rows) == maxMismatches {
		return
	}
	key, err := rowstream.DecodeKey([]byte(text), len(n.c.t.Source.Key))
	if err != nil {
		panic("BUG: a key that was encoded cannot be decoded: " + err.Error())
	}
	n.found.Rows = append(n.found.Rows, RowMismatch{Key: keyText(key), Kind: kind, sum: n.group[text], encoded: text})
}
