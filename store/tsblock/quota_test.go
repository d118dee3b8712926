package tsblock

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/crc32c"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
)

// TestQuotaExhausted runs each kind of query with quotas from nothing to all that it needs: it has the whole result or the error of the
// limit, and nothing stays reserved.
func TestQuotaExhausted(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(5, 6)), 400))
	some := labels.MustNewMatcher(labels.MatchRegexp, "some", ".*1.*")
	long := labels.MustNewMatcher(labels.MatchNotEqual, "long", "")
	rows := func(shard Shard, ms ...*labels.Matcher) func(*Reader) (any, error) {
		return func(r *Reader) (any, error) {
			p, err := r.Postings(t.Context(), ms...)
			if err != nil {
				return nil, err
			}
			return readRows(t.Context(), r.Series(p, Select{MinTime: 0, MaxTime: math.MaxInt64, Shard: shard}))
		}
	}
	for what, query := range map[string]func(*Reader) (any, error){
		"series":           rows(Shard{}, some),
		"long series":      rows(Shard{}, long),
		"a shard":          rows(Shard{1, 3}, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")),
		"names":            func(r *Reader) (any, error) { return r.LabelNames(t.Context(), 0) },
		"names of series":  func(r *Reader) (any, error) { return r.LabelNames(t.Context(), 0, some) },
		"values":           func(r *Reader) (any, error) { return r.LabelValues(t.Context(), "unique", 0) },
		"values of series": func(r *Reader) (any, error) { return r.LabelValues(t.Context(), "unique", 0, some) },
	} {
		e := newEnv(t)
		b := e.open(t, dir, name)
		run := func(limit int64) (got any, used int64, err error) {
			e.gate = slab.NewGate(slab.GateOptions{Bytes: limit, PerQuery: limit})
			r, done := e.reader(t, b)
			got, err = query(r)
			used = r.account.quota.Peak()
			done()
			if held := e.gate.Stats().Held; held != 0 {
				t.Errorf("%s with %d bytes: %d are still reserved", what, limit, held)
			}
			return got, used, err
		}
		want, peak, err := run(256 << 20)
		if err != nil || peak == 0 {
			t.Fatalf("%s: %d bytes, %v", what, peak, err)
		}
		refused := 0
		for limit := int64(1); limit <= peak; limit += max(1, peak/40) {
			got, _, err := run(limit)
			if err != nil {
				refused++
				if limited, ok := errors.AsType[*slab.LimitError](err); !ok || limited.Requested <= 0 {
					t.Errorf("%s with %d of %d bytes: %v", what, limit, peak, err)
				}
				continue
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s with %d of %d bytes: -want +got\n%.500s", what, limit, peak, d)
			}
		}
		if got, _, err := run(2 * peak); err != nil || cmp.Diff(want, got) != "" { // the request depends on the quota
			t.Errorf("%s with twice its %d bytes: %v", what, peak, err)
		}
		if refused == 0 {
			t.Errorf("%s is never refused below %d bytes", what, peak)
		}
	}
}

// TestCompact compacts batches before and after their chunks are loaded: references and chunks stay the same, and the bytes of labels are
// returned to the quota. Without room for both forms the batch stays as it is.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	id, err := (testblock.Shape{Count: 30, Samples: 300}).Write(dir, testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t)
	b := e.open(t, dir, id)
	type series struct {
		Ref    uint32
		Chunks []Chunk
		Data   []string
	}
	all := func(batch *Batch, loaded bool) (list []series) {
		for i := range batch.Len() {
			s := series{Ref: batch.SeriesRef(i), Chunks: slices.Clone(batch.Chunks(i))}
			for j := range s.Chunks {
				if loaded {
					encoding, data := batch.Data(i, j)
					s.Data = append(s.Data, fmt.Sprint(encoding, " ", string(data)))
				}
			}
			list = append(list, s)
		}
		return list
	}
	next := func(r *Reader) *Batch {
		p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
		if err != nil {
			t.Fatal(err)
		}
		batch, err := r.Series(p, Select{MinTime: 0, MaxTime: math.MaxInt64}).Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	for _, first := range []bool{false, true} {
		r, done := e.reader(t, b)
		batch := next(r)
		if first {
			if err := r.LoadChunks(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		want, chunks, before := all(batch, first), batch.ChunkCount(), r.account.quota.Used()
		for range 2 { // the second time it is compact already
			if err := batch.Compact(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, all(batch, first)); d != "" || batch.ChunkCount() != chunks || batch.Len() != len(want) {
				t.Errorf("after compaction: -want +got\n%.500s", d)
			}
		}
		if bytes := e.options.Entries.Stats().OutBytes; bytes != 0 {
			t.Errorf("a compact batch has %d bytes of entries", bytes)
		}
		if after := r.account.quota.Used(); after >= before {
			t.Errorf("%d bytes are reserved, %d before", after, before)
		}
		if err := r.LoadChunks(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if loaded := all(batch, true); first && cmp.Diff(want, loaded) != "" || len(loaded[len(loaded)-1].Data) == 0 {
			t.Error("chunks of a compact batch differ")
		}
		batch.Release()
		done()
	}
	r, done := e.reader(t, b)
	batch := next(r)
	quota := r.account.quota
	room := quota.Allowed() - quota.Used()
	if err := quota.Reserve(slab.ResponseBytes, room); err != nil {
		t.Fatal(err)
	}
	want := batch.Labels(0)[0]
	if err := batch.Compact(); err == nil || batch.Labels(0)[0] != want {
		t.Errorf("without room for both forms: %v", err)
	}
	quota.Return(slab.ResponseBytes, room)
	batch.Release()
	done()
}

// TestStats adds counts: each field of the sum is the sum of the fields.
func TestStats(t *testing.T) {
	var a, b Stats
	next := int64(0)
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		for _, f := range v.Fields() {
			if f.Kind() == reflect.Struct {
				set(f)
			} else {
				next = 2*next%1_000_003 + 1
				f.SetInt(next)
			}
		}
	}
	set(reflect.ValueOf(&a).Elem())
	set(reflect.ValueOf(&b).Elem())
	sum, total := a, a.Total()
	sum.Add(&b)
	var check func(path string, x, y, z reflect.Value)
	check = func(path string, x, y, z reflect.Value) {
		for i := range x.NumField() {
			name := path + "." + x.Type().Field(i).Name
			if x.Field(i).Kind() == reflect.Struct {
				check(name, x.Field(i), y.Field(i), z.Field(i))
			} else if x.Field(i).Int()+y.Field(i).Int() != z.Field(i).Int() {
				t.Errorf("%s: %d and %d are %d", name, x.Field(i).Int(), y.Field(i).Int(), z.Field(i).Int())
			}
		}
	}
	check("Stats", reflect.ValueOf(a), reflect.ValueOf(b), reflect.ValueOf(sum))
	var want Usage
	for _, u := range []Usage{a.Table, a.Postings, a.Series, a.Symbols, a.Hashes, a.Chunks} {
		for i := range reflect.TypeFor[Usage]().NumField() {
			f := reflect.ValueOf(&want).Elem().Field(i)
			f.SetInt(f.Int() + reflect.ValueOf(u).Field(i).Int())
		}
	}
	if total != want {
		t.Errorf("the total is %+v, want %+v", total, want)
	}
}

// TestMeta parses files that describe no block, and refuses options of a block that lack one.
func TestMeta(t *testing.T) {
	id := ulid.MustNew(1, nil)
	for text, want := range map[string]string{
		`{"version":1,"ulid":"` + id.String() + `","minTime":5,"maxTime":5}`: "",
		`{"version":1,"ulid":"` + id.String() + `","minTime":6,"maxTime":5}`: "parse meta.json: times from 6 to 5",
		`{"version":2,"ulid":"` + id.String() + `"}`:                         "parse meta.json: version 2 is not 1",
		`{"ulid":"` + id.String() + `"}`:                                     "parse meta.json: version 0 is not 1",
		`{"version":1}`:                                                      "parse meta.json: it names no block",
		`{"version":1,`:                                                      "parse meta.json: unexpected ",
	} {
		m, err := ParseMeta([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) || err == nil && (m.ULID != id || m.MaxTime != 5) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	e := newEnv(t)
	m := &Meta{ULID: id}
	for what, change := range map[string]func(*Options){
		"a cache": func(o *Options) { o.Cache = nil }, "a pool": func(o *Options) { o.Pool = nil }, "entries": func(o *Options) { o.Entries = nil }, "a directory": func(o *Options) { o.LocalDir = "" },
	} {
		o := e.options
		change(&o)
		if _, err := New(&memorySource{}, id.String(), m, o); err == nil {
			t.Errorf("a block without %s is opened", what)
		}
	}
	if _, err := New(&memorySource{}, ulid.MustNew(2, nil).String(), m, e.options); err == nil || !strings.Contains(err.Error(), "its meta.json is that of "+id.String()) {
		t.Errorf("a block with the meta.json of another: %v", err)
	}
	var names []string
	for a := range aggregateKinds + 1 {
		names = append(names, a.String())
	}
	if got := strings.Join(names, " "); got != "count sum min max counter aggregate 5" {
		t.Error(got)
	}
	var all Aggregates
	all[AggregateMax].Encoding, all[AggregateMax].Data = 1, []byte("x")
	data := all.AppendTo(nil)
	for n := range len(data) {
		if _, err := SplitAggregates(data[:n]); err == nil {
			t.Errorf("%d of %d bytes are aggregates", n, len(data))
		}
	}
	if _, err := SplitAggregates(append(data, 0)); err == nil {
		t.Error("a byte after the last aggregate is accepted")
	}
}

// TestStaleLocalFiles opens local files whose footer is that of another file, or whose parts do not add up.
func TestStaleLocalFiles(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(5, 6)), 300))
	e := newEnv(t)
	b := e.open(t, dir, name)
	r, done := e.reader(t, b)
	if _, err := r.LabelNames(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	done()
	info, err := os.Stat(filepath.Join(dir, name, "index"))
	if err != nil {
		t.Fatal(err)
	}
	path, id := filepath.Join(e.options.LocalDir, name, headerName), identity{b.meta.ULID, info.Size()}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, created := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(created); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v, %v", created, info.Mode(), err)
		}
	}
	be := binary.BigEndian
	with := func(change func(footer []byte)) []byte {
		file := slices.Clone(whole)
		footer := file[len(file)-footerBytes:]
		change(footer)
		be.PutUint32(footer[footerBytes-4:], crc32c.Checksum(footer[:footerBytes-4]))
		return file
	}
	for _, c := range []struct {
		want string
		file []byte
	}{
		{"", whole},
		{"it is too short", nil},
		{"it is too short", whole[len(whole)-footerBytes+1:]},
		{"it does not end as it should", with(func(f []byte) { f[0] ^= 1 })},
		{"its footer has a checksum mismatch", append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1)},
		{"it has version ", with(func(f []byte) { f[11] ^= 1 })},
		{"it is a file of another kind", with(func(f []byte) { be.PutUint32(f[12:], uint32(hashesFile)) })},
		{"it belongs to another index", with(func(f []byte) { f[16] ^= 1 })},
		{"it belongs to another index", with(func(f []byte) { f[39] ^= 1 })},
		{"its parts do not add up to its size", with(func(f []byte) { f[47] ^= 1 })},
		{"its parts do not add up to its size", with(func(f []byte) { f[40] = 0xff })},
		{"its parts do not add up to its size", with(func(f []byte) { f[55] ^= 1 })},
		{"its parts do not add up to its size", with(func(f []byte) { f[48] = 0xff })},
		{"its parts do not add up to its size", whole[len(whole)-footerBytes:]},
		{"it has a checksum mismatch", with(func(f []byte) { f[59] ^= 1 })},
		{"it has a checksum mismatch", with(func(f []byte) { f[63] ^= 1 })},
	} {
		damaged := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(damaged, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLocal(damaged, headerFile, id)
		stale, ok := errors.AsType[errStale](err)
		if c.want == "" && (err != nil || l.paged <= 0 || len(l.sums) == 0) || c.want != "" && (!ok || !strings.HasPrefix(stale.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := openLocal(filepath.Join(t.TempDir(), "none"), headerFile, id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if text, err := json.Marshal(b.justBuilt("x", errStale{"it is too short"}).Error()); err != nil || !strings.Contains(string(text), "just built: it is too short") || !strings.Contains(string(text), name) {
		t.Errorf("a file that was just built: %s", text)
	}
	if err := b.justBuilt("x", fs.ErrPermission); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "open x, just built") {
		t.Errorf("a file that was just built: %v", err)
	}
}
