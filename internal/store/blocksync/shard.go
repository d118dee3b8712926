package blocksync

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
)

// A Shard is one process's part of the blocks when several processes share a bucket: "2/5" is the second of
// five. The zero Shard is all blocks.
type Shard struct {
	Index int // from 1
	Count int
}

// maxShards bounds the work of finding a block's shard.
const maxShards = 1024

// ParseShard parses "2/5"; "" means all blocks.
func ParseShard(s string) (Shard, error) {
	if s == "" {
		return Shard{}, nil
	}
	index, count, ok := strings.Cut(s, "/")
	i, errI := strconv.Atoi(index)
	n, errN := strconv.Atoi(count)
	if !ok || errI != nil || errN != nil {
		return Shard{}, fmt.Errorf("shard %q: want which of how many, as in 2/5", s)
	}
	shard := Shard{i, n}
	return shard, shard.validate()
}

func (s Shard) validate() error {
	if s == (Shard{}) {
		return nil
	}
	if s.Count < 1 || s.Count > maxShards || s.Index < 1 || s.Index > s.Count {
		return fmt.Errorf("shard %d/%d: want 1 to %d of at most %d", s.Index, s.Count, max(s.Count, 1), maxShards)
	}
	return nil
}

// String returns a text like "2/5", or "1/1" for all blocks.
func (s Shard) String() string {
	if s == (Shard{}) {
		return "1/1"
	}
	return strconv.Itoa(s.Index) + "/" + strconv.Itoa(s.Count)
}

// Owns reports whether a block belongs to the shard. A block belongs to the shard whose number, mixed with
// the block's hash, is highest (rendezvous hashing), so that growing from n to n+1 processes moves one block
// in n+1 rather than nearly all of them. It takes time proportional to Count.
func (s Shard) Owns(id ulid.ULID) bool {
	if s.Count <= 1 {
		return true
	}
	h := hashBlock(id)
	mine := mix(h + uint64(s.Index))
	for i := 1; i <= s.Count; i++ {
		if score := mix(h + uint64(i)); score > mine || (score == mine && i < s.Index) {
			return false
		}
	}
	return true
}

// hashBlock is FNV-1a over the 16 bytes of the id. It never changes: processes that share a bucket must agree
// on it.
func hashBlock(id ulid.ULID) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range id {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
