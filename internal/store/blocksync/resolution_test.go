package blocksync

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/testseed"
)

// randomTenant returns blocks of all resolutions with few different times, in two groups of external labels.
func randomTenant(r *rand.Rand) []*block {
	var blocks []*block
	for n := range 1 + r.IntN(12) {
		mint := r.Int64N(20)
		blocks = append(blocks, &block{
			id: ulid.ULID{15: byte(n)}, minTime: mint, maxTime: mint + r.Int64N(10), resolution: levels[r.IntN(len(levels))],
			external: labels.FromStrings("cluster", []string{"eu", "us"}[r.IntN(2)]),
		})
	}
	return blocks
}

// tenantOf returns the tenant as the shard knows it that has the blocks for which owns returns true.
func tenantOf(blocks []*block, owns func(int) bool) *Tenant {
	t := newTenant()
	for n, b := range blocks {
		if owns(n) {
			t.add(b)
		} else {
			t.otherShards[b.id] = otherShardBlock{blockTimes: blockTimes{true, b.minTime, b.maxTime, b.external}, resolution: b.resolution}
		}
	}
	t.sort()
	t.coverage = newCoverage(t)
	t.collectGaps()
	return t
}

// has reports whether a block has samples of a time.
func (b *block) has(at int64) bool { return b.minTime <= at && at < max(b.maxTime, b.minTime+1) }

// resolutionAt returns the resolution that serves a time: the preferred one that a block has.
func resolutionAt(blocks []*block, cluster string, at int64, r Resolution) (Resolution, bool) {
	for _, level := range r.preferred() {
		for _, b := range blocks {
			if b.resolution == levels[level] && b.external.Get("cluster") == cluster && b.has(at) {
				return b.resolution, true
			}
		}
	}
	return 0, false
}

// TestCoverage compares the blocks that serve each time of random requests, over all shards, with those of the
// preferred resolution that have samples of it, and the gaps with the times that only coarser blocks have.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.New(t), 1))
	restricted, lacking := 0, 0
	for range 20000 {
		blocks := randomTenant(r)
		mint := r.Int64N(30) - 2
		maxt := mint + r.Int64N(30)
		limit := []Resolution{AnyResolution, Raw, Raw + 1, FiveMinutes, OneHour, math.MaxInt64}[r.IntN(6)]
		shards := 1 + r.IntN(3)
		owner := make([]int, len(blocks))
		for n := range owner {
			owner[n] = r.IntN(shards)
		}
		reads := make(map[int64][]*block) // by time
		var tenants []*Tenant
		for shard := range shards {
			tenant := tenantOf(blocks, func(n int) bool { return owner[n] == shard })
			tenants = append(tenants, tenant)
			s := &Syncer{set: &blockSet{tenants: map[string]*Tenant{"": tenant}}}
			handles, _ := s.Open("", mint, maxt, limit)
			for _, h := range handles {
				from, to, ok := h.Part()
				if !ok {
					from, to = math.MinInt64, math.MaxInt64
				} else {
					restricted++
				}
				for at := max(from, mint, h.block.minTime); at <= min(to, maxt) && h.block.has(at); at++ {
					reads[at] = append(reads[at], h.block)
				}
			}
		}
		for at := mint; at <= maxt; at++ {
			for _, cluster := range []string{"eu", "us"} {
				want, any := resolutionAt(blocks, cluster, at, limit)
				for _, b := range blocks {
					if b.external.Get("cluster") != cluster || !b.has(at) {
						continue
					}
					n := 0
					for _, other := range reads[at] {
						if other == b {
							n++
						}
					}
					if wants := any && b.resolution == want; wants != (n == 1) || n > 1 {
						t.Fatalf("at %d of %d to %d, limit %s: block %d of %s, %d to %d, is read %d times; the resolution is %s", at, mint, maxt, limit, b.id[15], b.resolution, b.minTime, b.maxTime, n, want)
					}
				}
				_, coarser := resolutionAt(blocks, cluster, at, OneHour)
				if any || !coarser {
					continue
				}
				lacking++
				for _, tenant := range tenants {
					m := tenant.Missing(mint, maxt, limit, nil, nil)
					if !slices.ContainsFunc(m.gaps, func(g *gap) bool { return g.reason == SkipDownsampled && g.times.overlaps(at, at) }) {
						t.Fatalf("at %d of %d to %d, limit %s: no gap names a coarser block: %v", at, mint, maxt, limit, m.Warnings())
					}
				}
			}
		}
	}
	if restricted < 100 || lacking < 100 {
		t.Errorf("%d restricted reads and %d gaps are too few", restricted, lacking)
	}
}

// TestCoverageMissing expects the gaps of other shards' blocks only where those are read.
func TestCoverageMissing(t *testing.T) {
	blocks := []*block{
		{id: ulid.ULID{15: 1}, minTime: 0, maxTime: 100, resolution: FiveMinutes},
		{id: ulid.ULID{15: 2}, minTime: 0, maxTime: 100, resolution: Raw},
	}
	tenant := tenantOf(blocks, func(n int) bool { return n == 0 })
	for _, c := range []struct {
		limit Resolution
		want  []SkipReason
	}{{Raw, []SkipReason{SkipOtherShard}}, {FiveMinutes, nil}, {OneHour, nil}, {AnyResolution, []SkipReason{SkipOtherShard}}} {
		var got []SkipReason
		for _, g := range tenant.Missing(0, 50, c.limit, nil, nil).gaps {
			got = append(got, g.reason)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("limit %s: gaps %v, want %v", c.limit, got, c.want)
		}
	}
}
