package copier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// lookupInterval is the interval of the check that no value of a lookup table was removed or assigned to another shard. The last check
// is at the end.
const lookupInterval = time.Minute

// eachLookup calls do with each lookup table and a connection to the source.
func (j *job) eachLookup(ctx context.Context, do func(context.Context, *tabledef.Lookup, *mysqlconn.Client) error) error {
	for i := range j.o.Tables {
		l := j.o.Tables[i].Lookup
		if l == nil {
			continue
		}
		source, ok := j.from.(interface {
			Use(ctx context.Context, do func(c *mysqlconn.Client) error) error
		})
		if !ok || !j.o.Follow {
			return fmt.Errorf("the rows of %s are selected by a lookup table, which requires a server as the source, and changes to be followed", j.o.Tables[i].Source())
		}
		if err := source.Use(ctx, func(c *mysqlconn.Client) error { return do(ctx, l, c) }); err != nil {
			return err
		}
	}
	return nil
}

// loadLookups reads the lookup tables.
func (j *job) loadLookups(ctx context.Context) error {
	return j.eachLookup(ctx, func(ctx context.Context, l *tabledef.Lookup, c *mysqlconn.Client) error { return l.Load(ctx, c) })
}

// checkLookups returns an error if the lookup tables assign a value to another shard than when they were read.
func (j *job) checkLookups(ctx context.Context) error {
	return j.eachLookup(ctx, func(ctx context.Context, l *tabledef.Lookup, c *mysqlconn.Client) error { return l.Check(ctx, c) })
}

// keepLookups records the lookup tables in the target, before any row is written that they select. It returns an error if rows of an
// earlier run lie in other shards.
func (j *job) keepLookups(ctx context.Context) error {
	for _, t := range j.tables {
		if t.Spec.Lookup == nil {
			continue
		}
		if err := j.state.KeepLookup(ctx, j.to, t.Spec, t.State != nil); err != nil {
			return err
		}
	}
	return nil
}

// watchLookups checks the lookup tables until ctx is done. It passes the error of the first check that finds a change to fail.
func (j *job) watchLookups(ctx context.Context, fail func(error)) {
	ticker := time.NewTicker(lookupInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := j.checkLookups(ctx); errors.Is(err, tabledef.ErrLookupChanged) { // other errors may be temporary: the last check decides
			fail(err)
			return
		}
	}
}

// newValues decides whether a run that has stopped at a value that is missing in a lookup table is repeated, which reads the table
// again: once per value.
type newValues map[string]bool

func (n newValues) repeat(err error) bool {
	var missing *rowstream.LookupError
	if !errors.As(err, &missing) || n[missing.Value] {
		return false
	}
	n[missing.Value] = true
	return true
}
