package storegateway_test

import (
	"context"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// BenchmarkBlockSeries is the benchmark of grafana/mimir#3215, case for case: one block of 1,000 series of a
// day each, and matchers that select parts of them, or one of 20 shards. An operation is a query, from
// admission to Close: it delivers all chunks of all matching series, each checked against its CRC, and the
// consumer reads every byte. The bucket is objstore's for file systems in the configuration of tare store:
// chunk files are read by pread.
func BenchmarkBlockSeries(b *testing.B) { blockSeries(b, selectOptions{local: true}) }

// BenchmarkBlockSeriesObjstore also reads chunk files through objstore, which opens and closes the file for
// each range.
func BenchmarkBlockSeriesObjstore(b *testing.B) { blockSeries(b, selectOptions{}) }

func blockSeries(b *testing.B, o selectOptions) {
	dir := b.TempDir()
	if _, err := testblock.BlockSeries().Write(dir, testblock.Options{External: map[string]string{"ext1": "1"}}); err != nil {
		b.Fatal(err)
	}
	o.processBytes = 64 << 30
	g := newSelectGateway(b, dir, o)
	testblock.BenchmarkBlockSeries(b, func(s testblock.SeriesQuery, t *testblock.Tally) error {
		q, err := g.Admit(context.Background(), storegateway.Admission{})
		if err != nil {
			return err
		}
		defer q.Close()
		request := forever()
		request.Matchers = []*labels.Matcher{s.Matcher}
		if s.Sharded {
			request.Shard = tsblock.Shard{Index: s.Shard, Count: testblock.SeriesRounds}
		}
		set, err := q.Select(context.Background(), request)
		if err != nil {
			return err
		}
		defer set.Close()
		for set.Next() {
			t.Series++
			for _, c := range set.At().Chunks {
				t.Chunk(c.Data)
			}
		}
		return set.Err()
	})
}
