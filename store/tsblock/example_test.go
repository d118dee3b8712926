package tsblock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/tsblock"
)

func sample(t int64, v float64) testblock.Sample { return testblock.Sample{T: t, V: v} }

func Example() {
	err := example(context.Background())
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// up has [db web]
	// up{job="web"}: 1 chunk, encoding 1, from 1000 to 2000
}

func example(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tsblock")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	id, err := testblock.Write(dir, func(yield func(testblock.Series) bool) {
		_ = yield(testblock.Series{Labels: labels.FromStrings("__name__", "up", "job", "db"), Samples: []testblock.Sample{sample(1000, 1)}}) &&
			yield(testblock.Series{Labels: labels.FromStrings("__name__", "up", "job", "web"), Samples: []testblock.Sample{sample(1000, 1), sample(2000, 0)}})
	}, testblock.Options{})
	if err != nil {
		return err
	}

	// Shared by all blocks of the process.
	options := tsblock.Options{
		Cache:    tsblock.NewCache(64 << 20),
		Pool:     slab.NewPool(slab.PoolOptions{}),
		Entries:  tsblock.NewEntries(slab.EntriesOptions{}),
		LocalDir: dir + "/local",
	}
	source := tsblock.Dir(dir)
	defer func() { _ = source.Close() }()
	text, err := os.ReadFile(filepath.Join(dir, id.String(), tsblock.MetaFile))
	if err != nil {
		return err
	}
	meta, err := tsblock.ParseMeta(text)
	if err != nil {
		return err
	}
	block, err := tsblock.New(source, id.String(), meta, options)
	if err != nil {
		return err
	}
	defer block.Close()

	// A query: its bytes, and a reader.
	gate := slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20})
	quota, err := gate.Admit(ctx)
	if err != nil {
		return err
	}
	defer quota.Close()
	r := block.Reader(quota)
	defer r.Close()

	jobs, err := r.LabelValues(ctx, "job", 0)
	if err != nil {
		return err
	}
	fmt.Println("up has", jobs)
	p, err := r.Postings(ctx, labels.MustNewMatcher(labels.MatchRegexp, "job", "w.*"))
	if err != nil {
		return err
	}
	series := r.Series(p, tsblock.Select{MinTime: 0, MaxTime: math.MaxInt64})
	for {
		batch, err := series.Next(ctx)
		if errors.Is(err, tsblock.ErrNoMoreSeries) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.LoadChunks(ctx, batch); err != nil {
			batch.Release()
			return err
		}
		for i := range batch.Len() {
			set, chunks := batch.Labels(i), batch.Chunks(i)
			encoding, _ := batch.Data(i, 0)
			fmt.Printf("%s{%s=%q}: %d chunk, encoding %d, from %d to %d\n",
				set[0].Value, set[1].Name, set[1].Value, len(chunks), encoding, chunks[0].MinTime, chunks[0].MaxTime)
		}
		batch.Release()
	}
}

func ExampleParseShard() {
	s, err := tsblock.ParseShard("3_of_16")
	fmt.Println(s.Index, s.Count, err)
	_, err = tsblock.ParseShard("17_of_16")
	fmt.Println(err)
	// Output:
	// 2 16 <nil>
	// shard "17_of_16": there is no shard 17 of 16
}
