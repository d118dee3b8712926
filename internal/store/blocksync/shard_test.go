package blocksync

import (
	"math/rand/v2"
	"testing"

	"github.com/oklog/ulid/v2"
)

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"": {}, "1/1": {1, 1}, "2/5": {2, 5}, "1024/1024": {1024, 1024}} {
		if s, err := ParseShard(text); err != nil || s != want {
			t.Errorf("%q: got %v, %v, want %v", text, s, err, want)
		}
	}
	for _, text := range []string{"0/5", "6/5", "1/0", "-1/2", "1", "a/b", "1/1025", "1/2/3", " 1/2"} {
		if s, err := ParseShard(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, s)
		}
	}
	if s := (Shard{2, 5}).String(); s != "2/5" {
		t.Error(s)
	}
}

// TestShardsOwn checks that each block is in one shard, that shards have similar sizes, and that an
// additional shard takes blocks from all others without moving any between them.
func TestShardsOwn(t *testing.T) {
	const blocks, count = 20_000, 5
	r := rand.New(rand.NewPCG(1, 2))
	var sizes [count + 1]int
	moved := 0
	for range blocks {
		var id ulid.ULID
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		owner := func(n int) int {
			client := 0
			for i := 1; i <= n; i++ {
				if (Shard{i, n}).Owns(id) {
					if client != 0 {
						t.Fatalf("block %s is in shards %d and %d of %d", id, client, i, n)
					}
					client = i
				}
			}
			if client == 0 {
				t.Fatalf("block %s is in no shard of %d", id, n)
			}
			return client
		}
		before, after := owner(count), owner(count+1)
		sizes[before]++
		if before != after {
			moved++
			if after != count+1 {
				t.Fatalf("block %s moved from shard %d to %d", id, before, after)
			}
		}
	}
	for i, n := range sizes[1:] {
		if n < blocks/count*9/10 || n > blocks/count*11/10 {
			t.Errorf("shard %d has %d of %d blocks", i+1, n, blocks)
		}
	}
	if want := blocks / (count + 1); moved < want*9/10 || moved > want*11/10 {
		t.Errorf("%d of %d blocks moved, want about %d", moved, blocks, want)
	}
}

// TestShardsStay pins the hash, which is a contract between processes of different versions.
func TestShardsStay(t *testing.T) {
	id := ulid.MustParse("01HZXJ5V9S8K3Q2W4R6T8Y0ABC")
	if !(Shard{}).Owns(id) || !(Shard{1, 1}).Owns(id) {
		t.Error("all blocks are one shard's")
	}
	if h := hashBlock(id); h != wantHash {
		t.Errorf("hash is %#x, want %#x", h, uint64(wantHash))
	}
}

const wantHash = 0x473ce00ee39f4b5e
