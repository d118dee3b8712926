package blocksync

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzBucketFiles decodes files of other writers in the bucket: they are accepted or rejected as a whole.
func FuzzBucketFiles(f *testing.F) {
	id := blockID("A")
	f.Add(fmt.Appendf(nil, `{"version":2,"updated_at":1,"blocks":[{"block_id":%q}],"block_deletion_marks":[{"block_id":%q,"deletion_time":9}]}`, id, id))
	f.Add(fmt.Appendf(nil, `{"ulid":%q,"version":1,"minTime":1,"maxTime":2,"thanos":{"version":1,"labels":{"a":"b"},"files":[{"rel_path":"chunks\\000001","size_bytes":3}]}}`, id))
	f.Add(fmt.Appendf(nil, `{"id":%q,"version":1,"deletion_time":1700000000}`, id))
	f.Add([]byte(`{"version":1,"blocks":[{"block_id":"no ulid"}]}`))
	f.Add([]byte(`{"blocks":null,"other":{"a":[1,{}]},"version":1,"block_deletion_marks":[]}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		var packed bytes.Buffer
		zw := gzip.NewWriter(&packed)
		if _, err := zw.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
		if index, err := parseBucketIndex(packed.Bytes()); err == nil {
			for _, b := range index.Blocks {
				if !bytes.Contains(text, []byte(b.String())) {
					t.Errorf("a bucket index has the block %s, which its text has not", b)
				}
			}
		}
		if _, err := parseBucketIndex(packed.Bytes()[:packed.Len()/2]); err == nil {
			t.Error("half of a bucket index is taken")
		}
		if m, err := parseMeta(text, id); err != nil {
			if verdictOf(err) == nil {
				t.Errorf("no verdict: %v", err)
			}
		} else if m.ULID != id || m.MaxTime < m.MinTime || m.MaxTime-m.MinTime < 0 {
			t.Errorf("taken: %+v", m)
		} else if err := checkFiles(m, &found{saw: sawIndex}); err != nil && verdictOf(err) == nil {
			t.Errorf("no verdict: %v", err)
		}
		if at, err := parseDeletionMark(text); err == nil && at <= 0 {
			t.Errorf("a mark of %d is taken", at)
		}
	})
}

// TestOpenAllocs measures the allocations of opening blocks for a query.
func TestOpenAllocs(t *testing.T) {
	bucket := objstore.NewInMemBucket()
	for _, name := range []string{"A", "B", "C"} {
		uploadBlock(t, bucket, name)
	}
	o := testOptions(t, bucket)
	o.Layout = LayoutThanos
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	own := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "x", "y")}
	id := blockID("B")
	alloctest.Run(t, []alloctest.Case{
		{Name: "open and release three blocks", Op: func() error {
			handles := pinned(g, "", 0, 1)
			ReleaseAll(handles)
			return unless(len(handles) == 3)
		}, PerThousand: 2000},
		{Name: "matchers of no external label", Op: func() error {
			h := Handle{block: g.set.tenants[""].blocks[0]}
			_, ok := h.MatchExternal(own)
			return unless(ok)
		}},
		{Name: "shard of a block", Op: func() error {
			return unless(Shard{1, 2}.Owns(id) != Shard{2, 2}.Owns(id))
		}},
	})
}

var errWrong = errors.New("the operation did not do its work")

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errWrong
}

func ExampleShard() {
	shard, err := ParseShard("2/3")
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"01HZXJ5V9S8K3Q2W4R6T8Y0ABC", "01HZXJ5V9S8K3Q2W4R6T8Y0ABD", "01HZXJ5V9S8K3Q2W4R6T8Y0ABE"} {
		fmt.Println(id, shard.Owns(ulid.MustParse(id)))
	}
	// Output:
	// 01HZXJ5V9S8K3Q2W4R6T8Y0ABC false
	// 01HZXJ5V9S8K3Q2W4R6T8Y0ABD true
	// 01HZXJ5V9S8K3Q2W4R6T8Y0ABE false
}
