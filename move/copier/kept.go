package copier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// checkKept returns an error for a target table that has lost the rows that an earlier run has copied, such as by TRUNCATE.
func (p *preparePhase) checkKept(ctx context.Context) error {
	for _, t := range p.tables {
		if t.State == nil || t.Past() {
			continue
		}
		lost := p.lostCopied
		if p.o.Follow && t.State.Phase != tabledef.Copying {
			lost = p.lostFollowed
		}
		found, err := hasRows(ctx, t, p.to)
		if err == nil && !found {
			found, err = lost(ctx, t)
			if err == nil && found {
				err = fmt.Errorf("resume the copy to %s: the state in the target records copied rows, but the table is empty; use option restart", t.Spec.Target())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostCopied reports whether an empty table had rows that were copied, and that no change can have deleted.
func (p *preparePhase) lostCopied(ctx context.Context, t *tabledef.Table) (bool, error) {
	if !slices.ContainsFunc(t.State.Chunks, func(k tabledef.RecordedChunk) bool { return k.Copied && k.Rows > 0 }) {
		return false, nil
	}
	last, err := p.snapshot.Reader(0).LastKey(ctx, t.Source)
	if errors.Is(err, dump.ErrNoLog) { // a dump does not change
		return true, nil
	}
	return last != nil, err
}

// lostFollowed reports whether an empty table that was followed has lost rows: the source has a row that no change has written since the position
// up to which the target has all changes, so that the target had it. It reads the log from there on.
func (p *preparePhase) lostFollowed(ctx context.Context, t *tabledef.Table) (bool, error) {
	if t.Start.IsZero() || t.Redefined != nil && t.Redefined.Change != "" { // a change of its definition may have changed the key
		return false, nil
	}
	key, err := p.firstRow(ctx, t)
	if err != nil || key == nil {
		return false, err
	}
	written, err := p.writtenSince(ctx, t, key)
	if stop := new(binlog.StopError); errors.As(err, &stop) { // as will following, with the position in the target
		return false, nil
	}
	return err == nil && !written, err
}

// firstRow returns the key of one of the first rows of the source that are copied; nil if none of these is.
func (p *preparePhase) firstRow(ctx context.Context, t *tabledef.Table) (key [][]byte, err error) {
	const rows = 100
	reader := p.snapshot.Reader(0)
	c, err := tabledef.CutRows(ctx, reader, t.Source, rows, rowstream.Chunk{})
	if err != nil {
		return nil, err
	}
	var row mysqlwire.TextRow
	for b, err := range reader.Read(ctx, t.Source, c, rowstream.ReadOptions{Where: t.Spec.Where, Plan: t.Plan}) {
		if err != nil {
			return nil, err
		}
		if key != nil || b.Rows == 0 {
			continue
		}
		if _, err := b.Row(0, &row); err != nil {
			return nil, err
		}
		for _, k := range t.Key {
			key = append(key, bytes.Clone(row[k]))
		}
	}
	return key, nil
}

// writtenSince reports whether the first change of a row with the key, after the position up to which the target has all changes, has written the
// row: the target need not have had it.
func (p *preparePhase) writtenSince(ctx context.Context, t *tabledef.Table, key [][]byte) (written bool, err error) {
	end, err := p.from.GTIDPosition(ctx)
	if err != nil || t.Start.Reaches(end) {
		return false, err
	}
	o := binlog.FollowOptions{
		From: t.Start, Tables: []*rowstream.Table{t.Source}, Plans: []*rowstream.Plan{t.Events}, Before: [][]int{t.Key},
		Ignore: p.o.IgnoreStatements, Patience: p.o.Patience,
	}
	if t.Redefined != nil {
		o.Defined, o.Layouts = []binlog.Position{t.Redefined.Upto}, [][]int{t.Redefined.Layout}
	}
	changes, err := p.from.Follow(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, changes.Close()) }()
	var b binlog.ChangeBatch
	var row mysqlwire.TextRow
	for b.Upto.IsZero() || !b.Upto.Reaches(end) {
		if err := changes.Next(ctx, &b); err != nil {
			return false, err
		}
		for _, c := range b.Changes {
			for _, image := range []int{c.Before, c.After} {
				if image < 0 {
					continue
				}
				if _, err := b.Tables[0].Row(image, &row); err != nil {
					return false, err
				}
				if matchesKey(row, t.Key, key) {
					return image == c.After, nil // a row before its first change was there at the position
				}
			}
		}
	}
	return false, nil
}

// matchesKey reports whether a row has a key in some columns.
func matchesKey(row mysqlwire.TextRow, columns []int, key [][]byte) bool {
	for i, k := range columns {
		if !bytes.Equal(row[k], key[i]) {
			return false
		}
	}
	return true
}
