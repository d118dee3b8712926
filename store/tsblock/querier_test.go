package tsblock

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/testblock"
)

// TestAgainstQuerier selects series of a block written by Prometheus with its own querier, for matchers and
// time ranges of all kinds, and compares the series and their order.
func TestAgainstQuerier(t *testing.T) {
	dir := t.TempDir()
	o := testblock.RandomOptions{Series: 120, Samples: 400, Start: 1_000_000, Step: 15_000}
	id, err := testblock.Write(dir, slices.Values(testblock.Random(rand.New(rand.NewPCG(40, 40)), o)), testblock.Options{ChunkRange: o.ChunkRange()})
	if err != nil {
		t.Fatal(err)
	}
	block, err := tsdb.OpenBlock(nil, filepath.Join(dir, id.String()), nil, tsdb.DefaultPostingsDecoderFactory)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = block.Close() }()
	e := newEnv(t)
	ours := e.open(t, dir, id.String())
	rng := rand.New(rand.NewPCG(41, 41))
	some := 0
	for range 60 {
		mint := ours.Meta().MinTime + rng.Int64N(o.Step*int64(o.Samples)) - o.Step
		maxt := mint + rng.Int64N(o.Step*100)
		ms := []*labels.Matcher{
			labels.MustNewMatcher(matcherTypes[rng.IntN(4)], "job", []string{"api", "a.b+c|d", "db|node", ""}[rng.IntN(4)]),
			labels.MustNewMatcher(matcherTypes[rng.IntN(4)], "zone", []string{"", "eu", ".+", "u.*"}[rng.IntN(4)]),
		}
		q, err := tsdb.NewBlockChunkQuerier(block, mint, maxt)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{}
		for set := q.Select(t.Context(), true, nil, ms...); set.Next(); {
			want = append(want, set.At().Labels().String())
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		r, done := e.reader(t, ours)
		p, err := r.Postings(t.Context(), ms...)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := readRows(t.Context(), r.Series(p, Select{MinTime: mint, MaxTime: maxt}))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, w := range rows {
			got = append(got, w.Labels)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%v from %d to %d: -Prometheus +ours\n%s", ms, mint, maxt, d)
		}
		some += len(got)
		done()
	}
	if some < 200 {
		t.Errorf("only %d series were compared", some)
	}
}
