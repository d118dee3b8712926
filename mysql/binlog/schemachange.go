package binlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// Layout implements Follower.
func (d *Direct) Layout(ctx context.Context, t *rowstream.Table) ([]int, error) {
	var f followedTable
	err := d.Use(ctx, func(c *mysqlconn.Client) (err error) {
		f, err = layOut(ctx, c, t)
		return err
	})
	return f.all, err
}

// SchemaChanges implements Follower.
func (d *Direct) SchemaChanges(ctx context.Context, tables []*rowstream.Table, from, to Position) (found []SchemaChange, err error) {
	if from.GTID != "" { // it may be another server's
		if to, err = d.namePosition(ctx, to); err != nil {
			return nil, fmt.Errorf("look for changes of definitions in the binary log: %w", err)
		}
	}
	if from.Reaches(to) {
		return nil, nil
	}
	if from.GTID == "" && from.Heartbeat == "" { // without a GTID no truncated file can be skipped
		if from, err = d.namePosition(ctx, from); err != nil {
			return nil, fmt.Errorf("look for changes of definitions in the binary log: %w", err)
		}
	}
	o := FollowOptions{From: from, Tables: tables}
	for range tables {
		o.Layouts = append(o.Layouts, []int{}) // no row is decoded
	}
	followed, err := d.Follow(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, followed.Close()) }()
	c := followed.(*changes)
	c.r.scan = func(s SchemaChange) {
		if !s.At.Reaches(to) {
			found = append(found, s)
		}
	}
	var b ChangeBatch
	for b.Upto.IsZero() || !b.Upto.Reaches(to) {
		if err := c.Next(ctx, &b); err != nil {
			return nil, fmt.Errorf("look for changes of definitions in the binary log: %w", err)
		}
	}
	return found, nil
}
