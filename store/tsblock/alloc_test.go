package tsblock

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/alloctest"
)

func TestAllocs(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(30, 30)), 100))
	e := newEnv(t)
	b := e.open(t, dir, name)
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	query := func(m *labels.Matcher, s Select, least int) func() error {
		return func() error {
			r := b.Reader(q)
			defer r.Close()
			p, err := r.Postings(t.Context(), m)
			if err != nil {
				return err
			}
			series, least := r.Series(p, s), least
			for {
				batch, err := series.Next(t.Context())
				if errors.Is(err, ErrNoMoreSeries) {
					break
				}
				if err != nil {
					return err
				}
				least -= batch.Len()
				batch.Release()
			}
			if least > 0 {
				return fmt.Errorf("%d series too few", least)
			}
			return nil
		}
	}
	always := Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, BatchBytes: 1 << 30}
	sharded := always
	sharded.Shard = Shard{2, 5}
	refs := make([]uint32, 1000)
	for i := range refs {
		refs[i] = uint32(3 * i)
	}
	var set Postings
	var head, whole list
	var both intersection
	var text []byte
	labelSet := []Label{{"__name__", "up"}, {"job", "x"}}
	alloctest.Run(t, []alloctest.Case{
		{Name: "no series", PerThousand: 4_000, Op: query(labels.MustNewMatcher(labels.MatchEqual, "unique", "nothing"), always, 0)},
		{Name: "some 30 series and their chunks", PerThousand: 14_000, Op: query(labels.MustNewMatcher(labels.MatchRegexp, "unique", ".*5.*"), always, 25)},
		{Name: "a shard of 100 series", PerThousand: 13_000, Op: query(labels.MustNewMatcher(labels.MatchRegexp, "unique", ".+"), sharded, 8)},
		{Name: "walk an intersection", Op: func() error {
			head, whole = list{refs[500:]}, list{refs}
			set = Postings{root: &both}
			both.sets = append(both.sets[:0], &head, &whole)
			n := 0
			for set.next() {
				n++
			}
			if n != 500 {
				return fmt.Errorf("%d references", n)
			}
			return nil
		}},
		{Name: "StableHash", Op: func() error {
			var hash uint64
			hash, text = stableHash(labelSet, text)
			if hash == 0 {
				return errors.New("no hash")
			}
			return nil
		}},
	})
}
