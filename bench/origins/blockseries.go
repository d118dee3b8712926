package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/testblock"
)

// measureBlockSeries repeats grafana/mimir#3215: its benchmark, with the baseline and the product, and the
// fraction of a running server's objects that loading chunks allocates.
func measureBlockSeries(old, new, out io.Writer, _ string) error {
	b := goBenchmark{
		name: "BenchmarkBlockSeries", old: "baseline/chunks", new: "storegateway",
		time: "1x", count: 10, // as many runs as published; 1x runs each query of a case once per worker
	}
	if err := b.run(old, new, out); err != nil {
		return err
	}
	return profileBlockSeries(out)
}

// seriesRounds is the number of rounds of queries to the profiled servers.
const seriesRounds = 5

// profileBlockSeries profiles two servers of one block under the benchmark's queries.
func profileBlockSeries(out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "blockseries-")
	if err != nil {
		return fmt.Errorf("make a place for a block: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := testblock.BlockSeries().Write(dir, testblock.Options{External: map[string]string{"ext1": "1"}}); err != nil {
		return err
	}
	for _, side := range []string{"old", "new"} {
		p, queries, err := profileServer(storeCase{Side: side, Dir: dir})
		if err != nil {
			return fmt.Errorf("profile the %s server: %w", side, err)
		}
		fmt.Fprintf(out, "%s server: %.0f objects a query, of them %.0f in loading chunks (%.2f %%)\n", side,
			float64(p.Objects)/queries, float64(p.Loading)/queries, 100*float64(p.Loading)/float64(p.Objects))
		p.writeTop(out)
	}
	fmt.Fprintln(out)
	return nil
}

// profileServer runs a server as a separate process and sends it all queries, after a warm-up.
func profileServer(c storeCase) (p objectProfile, queries float64, err error) {
	s, err := startStore(c)
	if err != nil {
		return p, 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.askAll(); err != nil {
		return p, 0, err
	}
	before, err := s.profile()
	if err != nil {
		return p, 0, err
	}
	for range seriesRounds {
		n, err := s.askAll()
		if err != nil {
			return p, 0, err
		}
		queries += float64(n)
	}
	p, err = s.profile()
	p.subtract(before)
	return p, queries, err
}

// writeTop writes the functions that allocate the most objects.
func (p *objectProfile) writeTop(out io.Writer) {
	type entry struct {
		name    string
		objects int64
	}
	var all []entry
	for name, n := range p.By {
		all = append(all, entry{name, n})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.objects, a.objects), strings.Compare(a.name, b.name))
	})
	for _, e := range all[:min(len(all), 5)] {
		fmt.Fprintf(out, "  %5.1f %%  %s\n", 100*float64(e.objects)/float64(p.Objects), e.name)
	}
}
