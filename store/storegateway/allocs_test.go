package storegateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
)

// TestAllocs lists the allocations of a query. A query of 60 series costs as much as one of few, except for a
// few objects per batch; in PromQL a series costs its labels.
func TestAllocs(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.Shape{Count: 60, Samples: 30, Interval: 15 * time.Second, Seed: 1}
	if _, err := shape.Write(dir, testblock.Options{External: map[string]string{"ext": "1"}}); err != nil {
		t.Fatal(err)
	}
	g := newSelectGateway(t, dir, selectOptions{local: true})
	r := forever()
	r.Matchers = everySeries()
	query := func(r storegateway.Request, series int) error {
		q, err := g.Admit(context.Background(), storegateway.Admission{})
		if err != nil {
			return err
		}
		defer q.Close()
		set, err := q.Select(context.Background(), r)
		if err != nil {
			return err
		}
		defer set.Close()
		n, _, err := drain(set)
		if err == nil && n != series {
			err = fmt.Errorf("%d series, want %d", n, series)
		}
		return err
	}
	few := r
	few.Limit = 3

	q := newQuery(t, g)
	querier, err := g.Queryable(noTenant).Querier(r.MinTime, r.MaxTime)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = querier.Close() }()
	set := querier.Select(storegateway.WithQuery(context.Background(), q), true, nil, everySeries()...)
	if !set.Next() {
		t.Fatal(set.Err())
	}
	var it chunkenc.Iterator
	alloctest.Run(t, []alloctest.Case{
		{Name: "a query of 3 series", PerThousand: 90_000, Op: func() error { return query(few, 3) }},
		{Name: "a query of 60 series", PerThousand: 110_000, Op: func() error { return query(r, 60) }},
		{Name: "samples of a series for PromQL", Op: func() error {
			it = set.At().Iterator(it)
			for n := range 31 {
				if kind := it.Next(); (kind == chunkenc.ValNone) != (n == 30) {
					return fmt.Errorf("sample %d is of kind %s: %w", n, kind, it.Err())
				}
			}
			return nil
		}},
	})
}
