package tsblock

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestTakeShard(t *testing.T) {
	job := labels.MustNewMatcher(labels.MatchEqual, "job", "x")
	shard := func(kind labels.MatchType, v string) *labels.Matcher {
		return labels.MustNewMatcher(kind, ShardLabel, v)
	}
	for _, c := range []struct {
		ms   []*labels.Matcher
		want Shard
		rest int
		ok   bool
	}{
		{[]*labels.Matcher{job}, Shard{}, 1, true},
		{[]*labels.Matcher{job, shard(labels.MatchEqual, "1_of_2")}, Shard{0, 2}, 1, true},
		{[]*labels.Matcher{shard(labels.MatchEqual, "16_of_16"), job}, Shard{15, 16}, 1, true},
		{[]*labels.Matcher{shard(labels.MatchEqual, "0_of_2")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "3_of_2")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "1_of_0")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "1of2")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "1_of_2_of_3")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "-1_of_2")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchRegexp, "1_of_2")}, Shard{}, 0, false},
		{[]*labels.Matcher{shard(labels.MatchEqual, "1_of_2"), shard(labels.MatchEqual, "1_of_2")}, Shard{}, 0, false},
	} {
		got, rest, err := TakeShard(c.ms)
		if got != c.want || len(rest) != c.rest || (err == nil) != c.ok {
			t.Errorf("%v: %v, %v, %v", c.ms, got, rest, err)
		}
		if err == nil && !got.All() {
			if again, err := ParseShard(got.String()); again != got || err != nil {
				t.Errorf("%v is written %q", got, got)
			}
		}
	}
}

// FuzzStableHash compares stableHash with Prometheus' own.
func FuzzStableHash(f *testing.F) {
	f.Add("__name__", "up", "job", "x")
	f.Add("", "", "\xff", "long"+string(make([]byte, 3000)))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		var b labels.ScratchBuilder
		b.Add(n1, v1)
		b.Add(n2, v2)
		got, _ := stableHash([]Label{{n1, v1}, {n2, v2}}, nil)
		if want := labels.StableHash(b.Labels()); got != want {
			t.Fatalf("%q %q %q %q: %x, want %x", n1, v1, n2, v2, got, want)
		}
	})
}
