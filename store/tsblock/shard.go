package tsblock

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/prometheus/model/labels"
)

// ShardLabel is the label whose equality matcher selects a shard, as in Mimir: its value is "1_of_16" for the
// first of sixteen.
const ShardLabel = "__query_shard__"

// A Shard is a part of all series: those whose hash modulo Count is Index. The zero Shard contains all
// series.
type Shard struct{ Index, Count uint64 }

// All reports whether every series is in the shard.
func (s Shard) All() bool { return s.Count <= 1 }

// String returns the shard in the form that ParseShard parses.
func (s Shard) String() string {
	return strconv.FormatUint(s.Index+1, 10) + "_of_" + strconv.FormatUint(s.Count, 10)
}

// ParseShard parses a shard like "1_of_16".
func ParseShard(text string) (Shard, error) {
	index, count, ok := strings.Cut(text, "_of_")
	i, err := strconv.ParseUint(index, 10, 64)
	if err != nil || !ok {
		return Shard{}, fmt.Errorf("shard %q is not like 1_of_16", text)
	}
	n, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return Shard{}, fmt.Errorf("shard %q is not like 1_of_16", text)
	}
	if i < 1 || i > n {
		return Shard{}, fmt.Errorf("shard %q: there is no shard %d of %d", text, i, n)
	}
	return Shard{i - 1, n}, nil
}

// TakeShard returns the shard that the matchers select, and the other matchers. It may return ms itself.
func TakeShard(ms []*labels.Matcher) (Shard, []*labels.Matcher, error) {
	for i, m := range ms {
		if m.Name != ShardLabel {
			continue
		}
		if m.Type != labels.MatchEqual {
			return Shard{}, nil, fmt.Errorf("shard matcher %s is not an equality", m)
		}
		s, err := ParseShard(m.Value)
		if err != nil {
			return Shard{}, nil, err
		}
		rest := make([]*labels.Matcher, 0, len(ms)-1)
		rest = append(append(rest, ms[:i]...), ms[i+1:]...)
		for _, o := range rest {
			if o.Name == ShardLabel {
				return Shard{}, nil, fmt.Errorf("two shard matchers: %s and %s", m, o)
			}
		}
		return s, rest, nil
	}
	return Shard{}, ms, nil
}

// stableHash returns labels.StableHash of a label set: xxhash of all names and values, each followed by 0xff.
// It uses scratch as a buffer, and returns it.
func stableHash(set []Label, scratch []byte) (uint64, []byte) {
	scratch = scratch[:0]
	for _, l := range set {
		scratch = append(scratch, l.Name...)
		scratch = append(scratch, 0xff)
		scratch = append(scratch, l.Value...)
		scratch = append(scratch, 0xff)
	}
	return xxhash.Sum64(scratch), scratch
}

// view returns b as a string that shares its memory.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
