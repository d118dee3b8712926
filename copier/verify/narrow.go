package verify

import (
	"context"
	"fmt"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// narrowRows is how many rows of the source are held against the target's at once.
const narrowRows = 500

// narrow finds the rows of a chunk that differ. The source's rows are read once, in the order of
// the key; a group of them is held against the same range of the target. Neither side needs more
// memory than a group, and no key is compared but by its bytes: the servers know their collations.
func (w *worker) narrow(ctx context.Context, c *comparison, k rowstream.Chunk, found *ChunkMismatch, counts *Report) error {
	n := narrowing{c: c, found: found, counts: counts, group: make(map[string]uint64)}
	n.rest = k
	flush := func(upto mysqlwire.TextRow) error {
		part := rowstream.Chunk{Number: k.Number, After: n.rest.After, Upto: upto}
		if err := w.writer.Again(ctx, func() error {
			n.begin()
			return rowstream.SumRowsOf(ctx, w.writer.Conn, c.target, part, c.there, n.target)
		}); err != nil {
			return fmt.Errorf("verify at the target: %w", err)
		}
		n.end()
		n.rest.After = upto
		return nil
	}
	err := rowstream.SumRows(ctx, w.view, c.t.Source, k, c.source, func(key mysqlwire.TextRow, sum uint64) error {
		n.group[string(rowstream.EncodeKey(key))] = sum
		n.order = append(n.order, string(rowstream.EncodeKey(key)))
		if len(n.order) < narrowRows {
			return nil
		}
		last, err := rowstream.DecodeKey([]byte(n.order[len(n.order)-1]), len(key))
		if err != nil {
			return err
		}
		return flush(last)
	})
	if err != nil {
		return err
	}
	return flush(k.Upto)
}

// A narrowing holds a group of the source's rows against the target's.
type narrowing struct {
	c      *comparison
	rest   rowstream.Chunk
	group  map[string]uint64 // sums of the source's rows by key
	order  []string          // their keys, as they came
	found  *ChunkMismatch
	counts *Report

	seen    map[string]bool // of the group, in the target
	changed map[string]bool // likewise, with other values
	extra   []RowMismatch
	extras  int64
}

// begin begins comparing a group, perhaps for the second time.
func (n *narrowing) begin() {
	n.seen, n.changed, n.extra, n.extras = make(map[string]bool), make(map[string]bool), nil, 0
}

// target takes a row of the target.
func (n *narrowing) target(key mysqlwire.TextRow, sum uint64) error {
	text := string(rowstream.EncodeKey(key))
	want, ok := n.group[text]
	switch {
	case !ok:
		if n.extras++; len(n.extra) < maxMismatches {
			n.extra = append(n.extra, RowMismatch{Key: keyText(key), Kind: RowExtra})
		}
	case want != sum:
		n.changed[text] = true
		fallthrough
	default:
		n.seen[text] = true
	}
	return nil
}

// end notes what the group has shown.
func (n *narrowing) end() {
	for _, text := range n.order {
		switch {
		case !n.seen[text]:
			n.counts.Missing++
			n.add(text, RowMissing)
		case n.changed[text]:
			n.counts.Changed++
			n.add(text, RowChanged)
		}
	}
	n.counts.Extra += n.extras
	for _, x := range n.extra {
		if len(n.found.Rows) < maxMismatches {
			n.found.Rows = append(n.found.Rows, x)
		}
	}
	clear(n.group)
	n.order = n.order[:0]
}

func (n *narrowing) add(text string, kind MismatchKind) {
	if len(n.found.Rows) == maxMismatches {
		return
	}
	key, err := rowstream.DecodeKey([]byte(text), len(n.c.t.Source.Key))
	if err != nil {
		panic("BUG: a key that was encoded cannot be decoded: " + err.Error())
	}
	n.found.Rows = append(n.found.Rows, RowMismatch{Key: keyText(key), Kind: kind, sum: n.group[text]})
}
