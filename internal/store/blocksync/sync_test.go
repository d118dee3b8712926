package blocksync

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/store/tsblock"
)

// testOptions returns the options of a Syncer of a bucket.
func testOptions(t testing.TB, bucket objstore.Bucket) Options {
	return Options{
		Bucket:  bucket,
		DataDir: t.TempDir(),
		Cache:   tsblock.NewCache(4 << 20),
		Pool:    slab.NewPool(slab.PoolOptions{}),
		Log:     slog.New(slog.DiscardHandler),
	}
}

func newSyncer(t testing.TB, o Options) *Syncer {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pinned returns the blocks that Open pins.
func pinned(s *Syncer, tenant string, mint, maxt int64, ids ...*labels.Matcher) []*Handle {
	handles, _ := s.Open(tenant, mint, maxt, Raw, ids...)
	return handles
}

// A syncScript runs a transcript of testdata/sync against a bucket in memory, in fake time. Blocks are named
// by a letter: A is the block whose ULID has A's number as its time.
type syncScript struct {
	t      *testing.T
	bucket *testbucket.Failing
	g      *Syncer
	pinned map[string][]*Handle
}

func TestSyncTranscripts(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "sync"), func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &syncScript{t: t, bucket: testbucket.NewFailing(objstore.NewInMemBucket()), pinned: make(map[string][]*Handle)}
			s.g = newSyncer(t, testOptions(t, s.bucket))
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(d) })
		})
	})
}

func blockID(name string) ulid.ULID {
	var id ulid.ULID
	if err := id.SetTime(uint64(name[0])); err != nil {
		panic(err)
	}
	return id
}

// short replaces ids by their letters.
func short(text string) string {
	for c := 'A'; c <= 'Z'; c++ {
		text = strings.ReplaceAll(text, blockID(string(c)).String(), string(c))
	}
	return text
}

// long replaces <A> by the id of A.
func long(text string) string {
	for c := 'A'; c <= 'Z'; c++ {
		text = strings.ReplaceAll(text, "<"+string(c)+">", blockID(string(c)).String())
	}
	return text
}

func arg(d *datadriven.TestData, key, otherwise string) string {
	if !d.HasArg(key) {
		return otherwise
	}
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func (s *syncScript) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "gateway":
		o := testOptions(s.t, s.bucket)
		o.Layout = Layout(arg(d, "layout", ""))
		o.Shard, _ = ParseShard(arg(d, "shard", ""))
		if tenants := arg(d, "tenants", ""); tenants != "" {
			o.Tenants = strings.Split(tenants, ",")
		}
		s.g = newSyncer(s.t, o)
		return ""
	case "block":
		s.block(d)
		return ""
	case "put":
		testbucket.Upload(s.t, s.bucket, long(arg(d, "name", "")), long(d.Input))
		return ""
	case "delete":
		return s.delete(long(arg(d, "name", "")))
	case "mark":
		s.mark(d)
		return ""
	case "bucket-index":
		s.bucketIndex(d)
		return ""
	case "fail":
		times, _ := strconv.Atoi(arg(d, "times", "-1"))
		s.bucket.Fail(testbucket.FailRule{Op: arg(d, "op", ""), Name: long(arg(d, "name", "")), Times: times, How: testbucket.Failure(arg(d, "with", "error"))})
		return ""
	case "heal":
		s.bucket.Heal()
		return ""
	case "calls":
		return s.calls()
	case "wait":
		time.Sleep(duration(s.t, d.CmdArgs[0].Key))
		return ""
	case "sync":
		return s.sync()
	case "open":
		mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
		scan(s.t, d, "mint", &mint)
		scan(s.t, d, "maxt", &maxt)
		var ids []*labels.Matcher
		if re := arg(d, "ids", ""); re != "" {
			ids = append(ids, labels.MustNewMatcher(labels.MatchRegexp, BlockIDLabel, long(re)))
		}
		handles := pinned(s.g, arg(d, "tenant", ""), mint, maxt, ids...)
		if keep := arg(d, "keep", ""); keep != "" {
			s.pinned[keep] = handles
		} else {
			defer ReleaseAll(handles)
		}
		return names(handles) + "\n"
	case "release":
		ReleaseAll(s.pinned[d.CmdArgs[0].Key])
		return ""
	}
	return "unknown command"
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func names(handles []*Handle) string {
	if len(handles) == 0 {
		return "no blocks"
	}
	var b strings.Builder
	for _, h := range handles {
		fmt.Fprintf(&b, "%s%s ", short(h.ID().String()), strings.TrimPrefix(h.External().String(), "{}"))
	}
	return strings.TrimSpace(b.String())
}

// block uploads the objects of a block, whose contents are never read.
func (s *syncScript) block(d *datadriven.TestData) {
	id := blockID(d.CmdArgs[0].Key)
	dir := prefixOf(arg(d, "tenant", ""), id)
	mint, maxt := int64(0), int64(7_200_000)
	scan(s.t, d, "mint", &mint)
	scan(s.t, d, "maxt", &maxt)
	version, thanosVersion, resolution := 1, 1, 0
	scan(s.t, d, "version", &version)
	scan(s.t, d, "thanos-version", &thanosVersion)
	scan(s.t, d, "resolution", &resolution)
	meta := map[string]any{
		"ulid": id, "version": version, "minTime": mint, "maxTime": maxt,
		"stats":      map[string]int{"numSeries": 10, "numChunks": 20, "numSamples": 300},
		"compaction": map[string]any{"level": 1, "sources": []ulid.ULID{id}},
	}
	if of := arg(d, "ulid", ""); of != "" {
		meta["ulid"] = blockID(of)
	}
	if d.HasArg("thanos") {
		external := map[string]string{}
		for pair := range strings.SplitSeq(arg(d, "thanos", ""), ",") {
			if name, value, ok := strings.Cut(pair, ":"); ok {
				external[name] = value
			}
		}
		size := 13
		scan(s.t, d, "size", &size)
		meta["thanos"] = map[string]any{
			"version": thanosVersion, "labels": external, "source": "sidecar",
			"downsample": map[string]int{"resolution": resolution},
			"files": []map[string]any{
				{"rel_path": "chunks/000001", "size_bytes": size},
				{"rel_path": "chunks/000002", "size_bytes": 13},
				{"rel_path": "index", "size_bytes": 5},
				{"rel_path": "meta.json"},
			},
		}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		s.t.Fatal(err)
	}
	without := strings.Split(arg(d, "without", ""), ",")
	for name, text := range map[string]string{
		"chunks/000001": "chunks chunks", "chunks/000002": "chunks chunks", "index": "index", "meta.json": string(text),
	} {
		if !slices.Contains(without, name) {
			testbucket.Upload(s.t, s.bucket, dir+"/"+name, text)
		}
	}
}

// delete removes an object, or all objects below a name that ends in a slash.
func (s *syncScript) delete(name string) string {
	ctx := context.Background()
	if !strings.HasSuffix(name, "/") {
		if err := s.bucket.Delete(ctx, name); err != nil {
			return err.Error() + "\n"
		}
		return ""
	}
	var all []string
	if err := s.bucket.Bucket.Iter(ctx, name, func(n string) error { all = append(all, n); return nil }, objstore.WithRecursiveIter()); err != nil {
		return err.Error() + "\n"
	}
	for _, n := range all {
		if err := s.bucket.Delete(ctx, n); err != nil {
			return err.Error() + "\n"
		}
	}
	return ""
}

// mark uploads a deletion mark of the given age.
func (s *syncScript) mark(d *datadriven.TestData) {
	id, tenant := blockID(d.CmdArgs[0].Key), arg(d, "tenant", "")
	at := time.Now().Add(-duration(s.t, arg(d, "age", "0s")))
	name := prefixOf(tenant, id) + "/" + deletionMarkName
	if d.HasArg("global") {
		name = markerName(tenant, id)
	}
	testbucket.Upload(s.t, s.bucket, name, fmt.Sprintf(`{"id":%q,"version":1,"deletion_time":%d}`, id, at.Unix()))
}

// bucketIndex writes Mimir's list of a tenant's blocks.
func (s *syncScript) bucketIndex(d *datadriven.TestData) {
	index := bucketIndex{Version: 2, UpdatedAt: time.Now().Unix()}
	scan(s.t, d, "version", &index.Version)
	text := map[string]any{"version": index.Version, "updated_at": index.UpdatedAt}
	var blocks, marks []map[string]any
	for b := range strings.SplitSeq(arg(d, "blocks", ""), ",") {
		blocks = append(blocks, map[string]any{"block_id": blockID(b), "min_time": 1, "max_time": 2})
	}
	if marked := arg(d, "marked", ""); marked != "" {
		at := time.Now().Add(-duration(s.t, arg(d, "age", "0s")))
		marks = append(marks, map[string]any{"block_id": blockID(marked), "deletion_time": at.Unix()})
	}
	text["blocks"], text["block_deletion_marks"] = blocks, marks
	raw, err := json.Marshal(text)
	if err != nil {
		s.t.Fatal(err)
	}
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write(raw); err != nil {
		s.t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		s.t.Fatal(err)
	}
	testbucket.Upload(s.t, s.bucket, arg(d, "tenant", "")+"/"+bucketIndexName, packed.String())
}

// sync syncs once and returns the resulting state.
func (s *syncScript) sync() string {
	err := s.g.Sync(context.Background())
	var b strings.Builder
	for _, i := range s.g.Blocks() {
		fmt.Fprintf(&b, "serves %s%s", tenantSlash(i.Tenant), short(i.ID))
		if len(i.Labels) > 0 {
			fmt.Fprintf(&b, " %s", labels.FromMap(i.Labels))
		}
		if i.Marked != nil {
			fmt.Fprintf(&b, " marked %s ago", time.Since(*i.Marked).Truncate(time.Minute))
		}
		if i.Gone != nil {
			b.WriteString(" gone")
		}
		if i.NoCompact {
			b.WriteString(" no-compact")
		}
		b.WriteString("\n")
	}
	for _, k := range s.g.Skipped() {
		fmt.Fprintf(&b, "skips  %s%s: %s: %s\n", tenantSlash(k.Tenant), short(k.ID), k.Reason, short(k.Detail))
	}
	status := s.g.Status()
	if status.OtherShard > 0 {
		fmt.Fprintf(&b, "others %d\n", status.OtherShard)
	}
	if status.Foreign > 0 {
		fmt.Fprintf(&b, "strangers %d: %s\n", status.Foreign, status.Stranger)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %s\n", short(err.Error()))
	}
	fmt.Fprintf(&b, "%s, ready %t\n", status.Layout, s.g.Ready())
	return b.String()
}

// calls returns the bucket calls since the previous call, sorted.
func (s *syncScript) calls() string {
	calls := s.bucket.TakeCalls()
	slices.Sort(calls)
	return short(strings.Join(calls, "\n")) + "\n"
}

func tenantSlash(tenant string) string {
	if tenant == "" {
		return ""
	}
	return tenant + "/"
}

// scan scans the argument key if it is present.
func scan(t *testing.T, d *datadriven.TestData, key string, dst any) {
	if d.HasArg(key) {
		d.ScanArgs(t, key, dst)
	}
}
