package blocksync

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
)

// tombstonesFile returns a tombstones file of n entries.
func tombstonesFile(n int, entry func(i int) (ref uint64, mint, maxt int64)) []byte {
	b := binary.BigEndian.AppendUint32(nil, tombstonesMagic)
	body := []byte{tombstonesVersion}
	for i := range n {
		ref, mint, maxt := entry(i)
		body = binary.AppendVarint(binary.AppendVarint(binary.AppendUvarint(body, ref), mint), maxt)
	}
	return binary.BigEndian.AppendUint32(append(b, body...), crc32.Checksum(body[1:], crc32.MakeTable(crc32.Castagnoli)))
}

// TestTombstonesAsPrometheus parses random files: deletions are those that Prometheus reads.
func TestTombstonesAsPrometheus(t *testing.T) {
	r := testseed.Rand(t)
	ends := []int64{math.MinInt64, math.MinInt64 + 1, -3, 0, 5, math.MaxInt64 - 2, math.MaxInt64 - 1} // after the greatest time its decoder panics
	for range 300 {
		text := tombstonesFile(r.IntN(30), func(int) (ref uint64, mint, maxt int64) {
			mint = r.Int64N(60)
			maxt = mint + r.Int64N(4)
			if r.IntN(15) == 0 {
				mint, maxt = ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
			}
			return r.Uint64N(4), min(mint, maxt), max(mint, maxt)
		})
		got, err := parseTombstones(text)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := tombstones.Decode(text[4 : len(text)-4])
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = theirs.Iter(func(ref storage.SeriesRef, want tombstones.Intervals) error {
			if n++; !slices.Equal(got.Of(uint32(ref)), want) {
				t.Fatalf("series %d: %v, Prometheus has %v", ref, got.Of(uint32(ref)), want)
			}
			return nil
		})
		if err != nil || n != len(got) {
			t.Fatalf("%d series, Prometheus has %d (%v)", len(got), n, err)
		}
	}
}

// TestManyDeletions parses files that Prometheus' decoder takes the square of their size for, and refuses larger ones.
func TestManyDeletions(t *testing.T) {
	const n = 20_000
	text := tombstonesFile(n, func(i int) (uint64, int64, int64) { at := int64(n-i) * 10; return 1, at, at + 5 })
	done := alloctest.Bounded(t, 4<<20)
	d, err := parseTombstones(text)
	done()
	if err != nil || len(d.Of(1)) != n || !slices.IsSortedFunc(d.Of(1), func(a, b tombstones.Interval) int { return int(a.Mint - b.Mint) }) {
		t.Fatalf("%d deletions, %v", len(d.Of(1)), err)
	}
	if d, err := parseTombstones(tombstonesFile(1, func(int) (uint64, int64, int64) { return 1, 5, 4 })); err != nil || len(d) != 0 {
		t.Errorf("a deletion of nothing: %v, %v", d, err)
	}
	last := [][2]int64{{10, 20}, {50, math.MaxInt64}, {40, 45}, {30, math.MaxInt64}} // Prometheus' decoder panics
	d, err = parseTombstones(tombstonesFile(len(last), func(i int) (uint64, int64, int64) { return 1, last[i][0], last[i][1] }))
	if want := (tombstones.Intervals{{Mint: 10, Maxt: 20}, {Mint: 30, Maxt: math.MaxInt64}}); err != nil || !slices.Equal(d.Of(1), want) {
		t.Errorf("deletions to the greatest time: %v, %v, want %v", d.Of(1), err, want)
	}
	text = tombstonesFile(maxDeletions+1, func(int) (uint64, int64, int64) { return 1, 0, 0 })
	done = alloctest.Bounded(t, 4<<20)
	_, err = parseTombstones(text)
	done()
	if err == nil || !strings.Contains(err.Error(), "2000001 deletions are more than 2000000") {
		t.Error(err)
	}
}

// TestBucketIndexExpands parses bucket indexes of a few kilobytes that expand to a million elements.
func TestBucketIndexExpands(t *testing.T) {
	for name, c := range map[string]struct {
		begin, repeated string
		times           int
		want            string
	}{
		"elements without an id": {`{"version":2,"blocks":[{}`, ",{}", 1 << 20, "is no block id"},
		"marks":                  {`{"version":2,"block_deletion_marks":[null`, ",null", 1 << 20, "is no block id"},
		"an unknown key":         {`{"version":2,"other":[{}`, ",{}", 1 << 20, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			zw := gzip.NewWriter(&packed)
			_, err := io.WriteString(zw, c.begin)
			for at := 0; at < c.times && err == nil; at++ {
				_, err = io.WriteString(zw, c.repeated)
			}
			if err == nil {
				err = zw.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer alloctest.Bounded(t, 24<<20)()
			if _, err := parseBucketIndex(packed.Bytes()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestLargeExternalLabels has a meta.json with external labels that each series would have in responses.
func TestLargeExternalLabels(t *testing.T) {
	id := blockID("A")
	meta := func(name string, size int) []byte {
		return fmt.Appendf(nil, `{"ulid":%q,"version":1,"minTime":1,"maxTime":2,"thanos":{"version":1,"labels":{%q:%q}}}`, id, name, strings.Repeat("x", size))
	}
	if m, err := parseMeta(meta("a", maxExternal-1), id); err != nil || len(m.Thanos.Labels["a"]) != maxExternal-1 {
		t.Error(err)
	}
	for name, text := range map[string][]byte{"the external labels have 65537 bytes": meta("a", maxExternal), "no name": meta("", 1)} {
		if _, err := parseMeta(text, id); verdictOf(err) == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

// TestMetaExpands parses a meta.json with lists of millions of small elements.
func TestMetaExpands(t *testing.T) {
	id := blockID("A")
	for name, c := range map[string]struct {
		list, element, end string
		files              int
		want               string
	}{
		"files":              {`"thanos":{"version":1,"files":[`, "{}", "]}", 0, "it has more than 100000 files"},
		"null as files":      {`"thanos":{"version":1,"files":[`, "null", "]}", 0, "it has more than 100000 files"},
		"labels":             {`"thanos":{"version":1,"labels":{`, `"a":""`, "}}", 0, "it has more than 10000 external labels"},
		"null as labels":     {`"thanos":{"version":1,"labels":{`, `"a":null`, "}}", 0, "it has more than 10000 external labels"},
		"lists of files":     {`"thanos":{"version":1,"files":[{"rel_path":"index"},`, "[]", "]}", 0, "cannot unmarshal array"},
		"files as an object": {`"thanos":{"version":1,"files":{`, `"a":1`, "}}", 0, "{ in place of ["},
		"parents":            {`"thanos":{"version":1,"files":[{"rel_path":"index"}]},"compaction":{"level":2,"parents":[`, "{}", "]}", 1, ""},
		"sources":            {`"compaction":{"sources":[`, `"` + id.String() + `"`, `]},"thanos":{"version":1,"files":[{},{}]}`, 2, ""},
		"hints":              {`"thanos":{"files":null,"labels":null},"compaction":{"hints":[`, `""`, "]}", 0, ""},
		"an unknown key":     {`"other":[`, "{}", "]", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Appendf(nil, `{"ulid":%q,"version":1,"minTime":1,"maxTime":2,%s`, id, c.list)
			text = append(text, bytes.Repeat([]byte(c.element+","), 1<<20)...)
			text = append(append(text, c.element...), c.end+"}"...)
			defer alloctest.Bounded(t, 24<<20)()
			m, err := parseMeta(text, id)
			if (err == nil) != (c.want == "") || err != nil && (verdictOf(err) == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err == nil && len(m.Thanos.Files) != c.files {
				t.Errorf("%d files", len(m.Thanos.Files))
			}
		})
	}
}

// FuzzTombstones parses arbitrary entries under a right checksum: deletions are those of Prometheus' decoder.
func FuzzTombstones(f *testing.F) {
	one := func(entries ...int64) (b []byte) {
		for i := 0; i < len(entries); i += 3 {
			b = binary.AppendVarint(binary.AppendVarint(binary.AppendUvarint(b, uint64(entries[i])), entries[i+1]), entries[i+2])
		}
		return b
	}
	f.Add(one(1, 10, 20, 1, 5, 9, 2, math.MinInt64, math.MaxInt64))
	f.Add(one(1<<32, 0, 1))
	f.Add(one(1, 20, 10))
	f.Add([]byte{0x80, 0x80})
	f.Fuzz(func(t *testing.T, entries []byte) {
		if len(entries) > 1<<12 {
			return // Prometheus' decoder takes the square of it
		}
		body := append([]byte{tombstonesVersion}, entries...)
		text := binary.BigEndian.AppendUint32(nil, tombstonesMagic)
		text = binary.BigEndian.AppendUint32(append(text, body...), crc32.Checksum(entries, crc32.MakeTable(crc32.Castagnoli)))
		done := alloctest.Bounded(t, 4<<20)
		got, err := parseTombstones(text)
		done()
		if err != nil {
			return
		}
		unlike := false // Prometheus adds deletions of nothing, and panics after the greatest time
		for _, intervals := range got {
			for i, v := range intervals {
				if v.Mint > v.Maxt || i > 0 && (intervals[i-1].Maxt == math.MaxInt64 || v.Mint <= intervals[i-1].Maxt+1) {
					t.Fatalf("%v", intervals)
				}
			}
		}
		for rest := entries; len(rest) > 0; {
			_, n := binary.Uvarint(rest)
			mint, first := binary.Varint(rest[n:])
			maxt, second := binary.Varint(rest[n+first:])
			unlike = unlike || mint > maxt || maxt == math.MaxInt64
			rest = rest[n+first+second:]
		}
		if unlike {
			return
		}
		theirs, err := tombstones.Decode(body)
		if err != nil {
			t.Fatalf("Prometheus: %v", err)
		}
		err = theirs.Iter(func(ref storage.SeriesRef, want tombstones.Intervals) error {
			if !slices.Equal(got.Of(uint32(ref)), want) {
				t.Errorf("series %d: %v, Prometheus has %v", ref, got.Of(uint32(ref)), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
