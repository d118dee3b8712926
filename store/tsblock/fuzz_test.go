package tsblock

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"

	"github.com/taredb/tare/internal/alloctest"
)

// A realByteSlice is an index in memory, for Prometheus' reader.
type realByteSlice []byte

func (b realByteSlice) Len() int                    { return len(b) }
func (b realByteSlice) Range(start, end int) []byte { return b[start:end] }

// assemble builds an index of arbitrary sections with correct checksums.
func assemble(version byte, symbols, series, postings, table []byte) []byte {
	be := binary.BigEndian
	section := func(b, body []byte) []byte {
		b = be.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
		return be.AppendUint32(b, crc32.Checksum(body, castagnoli))
	}
	b := append(be.AppendUint32(nil, indexMagic), version)
	toc := [6]uint64{0: uint64(len(b))}
	b = section(b, symbols)
	for len(b)%seriesAlign != 0 {
		b = append(b, 0)
	}
	toc[1] = uint64(len(b))
	b = binary.AppendUvarint(b, uint64(len(series)))
	b = append(b, series...)
	b = be.AppendUint32(b, crc32.Checksum(series, castagnoli))
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	toc[4] = uint64(len(b))
	b = section(b, postings)
	toc[5] = uint64(len(b))
	b = section(b, table)
	start := len(b)
	for _, v := range toc {
		b = be.AppendUint64(b, v)
	}
	return be.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parts returns the sections of a small index of one series.
func parts(version byte) (symbols, series, postings, table []byte) {
	be := binary.BigEndian
	symbols = be.AppendUint32(nil, 4)
	var at []uint64
	for _, s := range []string{"a", "b", "x", "yy"} {
		at = append(at, uint64(indexHead+4+len(symbols)))
		symbols = appendText(symbols, s)
	}
	if version == 2 {
		at = []uint64{0, 1, 2, 3}
	}
	series = []byte{2}
	for _, i := range []int{0, 2, 1, 3} {
		series = binary.AppendUvarint(series, at[i])
	}
	series = append(series, 2)
	series = binary.AppendVarint(series, 1000)
	series = binary.AppendUvarint(series, 500)
	series = binary.AppendUvarint(series, 8)
	series = binary.AppendUvarint(series, 10)
	series = binary.AppendUvarint(series, 20)
	series = binary.AppendVarint(series, 300)
	first := uint64(indexHead+4+len(symbols)+4+seriesAlign-1) / seriesAlign * seriesAlign
	list := uint64(len(assemble(version, symbols, series, nil, nil))) - indexTOC - 8 - 8
	ref := first
	if version == 2 {
		ref /= seriesAlign
	}
	postings = be.AppendUint32(be.AppendUint32(nil, 1), uint32(ref))
	table = be.AppendUint32(nil, 3)
	for _, l := range [][2]string{{"", ""}, {"a", "x"}, {"b", "yy"}} {
		table = append(table, 2)
		table = appendText(appendText(table, l[0]), l[1])
		table = binary.AppendUvarint(table, list)
	}
	return symbols, series, postings, table
}

func assembleParts(version byte) []byte {
	symbols, series, postings, table := parts(version)
	return assemble(version, symbols, series, postings, table)
}

// promRead reads an index with Prometheus' reader: the matching series with their labels and chunks. It turns
// panics of that reader into errors.
func promRead(ctx context.Context, text []byte, m *labels.Matcher) (rows []row, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	r, err := index.NewReader(realByteSlice(text), index.DecodePostingsRaw)
	if err != nil {
		return nil, err
	}
	p, err := tsdb.PostingsForMatchers(ctx, oracle{r}, m)
	if err != nil {
		return nil, err
	}
	var b labels.ScratchBuilder
	var metas []chunks.Meta
	for p.Next() {
		if err := r.Series(p.At(), &b, &metas); err != nil {
			return nil, err
		}
		w := row{Ref: uint32(p.At())}
		for _, l := range b.Labels().Map() {
			w.Labels += l
		}
		for _, m := range metas {
			w.Chunks = append(w.Chunks, Chunk{uint64(m.Ref), m.MinTime, m.MaxTime})
		}
		if len(w.Chunks) > 0 {
			rows = append(rows, w)
		}
	}
	return rows, p.Err()
}

// FuzzIndex reads indexes with arbitrary contents in sections with correct checksums. Nothing panics, hangs
// or takes much memory; if both readers succeed, they return the same.
func FuzzIndex(f *testing.F) {
	for _, v := range []byte{1, 2} {
		symbols, series, postings, table := parts(v)
		f.Add(v, symbols, series, postings, table)
		f.Add(v, symbols, series, postings, append(slices.Clone(table), 0))
		f.Add(v, symbols, append(slices.Clone(series), 1), postings, table)
		f.Add(v, symbols, binary.AppendUvarint(nil, 1<<62), postings, table)
		f.Add(v, binary.BigEndian.AppendUint32(nil, 1<<31), series, binary.BigEndian.AppendUint32(nil, math.MaxUint32), table)
	}
	f.Fuzz(func(t *testing.T, version byte, symbols, series, postings, table []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		if len(symbols)+len(series)+len(postings)+len(table) > 1<<16 {
			return
		}
		text := assemble(1+version%2, symbols, series, postings, table)
		id := ulid.MustNew(1, bytes.NewReader(make([]byte, 10)))
		name := id.String()
		m := &memorySource{objects: map[string][]byte{name + "/index": text}}
		e := newEnv(t)
		b, err := New(m, name, &Meta{ULID: id, Version: 1}, e.options)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		q, err := e.gate.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		for _, matcher := range []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, "", ""),
			labels.MustNewMatcher(labels.MatchEqual, "a", "x"),
			labels.MustNewMatcher(labels.MatchRegexp, "b", "y.+"),
			labels.MustNewMatcher(labels.MatchNotEqual, "a", "x"),
		} {
			r := b.Reader(q)
			var got []row
			p, err := r.Postings(t.Context(), matcher)
			if err == nil {
				got, err = readRows(t.Context(), r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64}))
			}
			if peak := q.Peak(); peak > 4<<20 {
				t.Errorf("%d bytes for an index of %d", peak, len(text))
			}
			r.Close()
			if err != nil {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("the error does not say where: %v", err)
				}
				continue
			}
			want, err := promRead(t.Context(), text, matcher)
			if err != nil {
				continue // Prometheus is stricter here, or panicked
			}
			if len(got) != len(want) {
				t.Fatalf("%v: %d series, Prometheus has %d", matcher, len(got), len(want))
			}
			for i := range want {
				if got[i].Ref != want[i].Ref || !slices.Equal(got[i].Chunks, want[i].Chunks) {
					t.Fatalf("%v: %+v, Prometheus has %+v", matcher, got[i], want[i])
				}
			}
		}
	})
}

// FuzzLocalFile replaces a local file by arbitrary bytes: it is used or rebuilt, and in both cases reads
// return the contents of the index.
func FuzzLocalFile(f *testing.F) {
	dir, name := writeIndex(f, randomSeries(rand.New(rand.NewPCG(20, 20)), 10))
	m := readSource(f, dir, name)
	local := f.TempDir()
	e := newEnv(f)
	e.options.LocalDir = local
	b := e.open(f, dir, name)
	if err := b.Load(f.Context()); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(local, name, headerName))
	if err != nil {
		f.Fatal(err)
	}
	id := identity{b.meta.ULID, int64(len(m.objects[name+"/index"]))}
	l, err := openLocal(filepath.Join(local, name, headerName), headerFile, id)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, l.memory)
	f.Add(text[:len(text)-1], l.memory[:len(l.memory)-1])
	f.Add([]byte{}, []byte{2, 0, 0, 0, 0, 0, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, text, memory []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		// The memory part, as if its checksum were right.
		if h, err := parseHeader(memory, l.paged); err == nil {
			if again, err := parseHeader(h.appendTo(nil), l.paged); err != nil || len(again.names) != len(h.names) {
				t.Fatalf("written again it is another: %v", err)
			}
			for i := range h.names {
				h.names[i].run("x")
			}
		}
		path := filepath.Join(t.TempDir(), headerName)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := openLocal(path, headerFile, id)
		var stale errStale
		if err != nil && !errors.As(err, &stale) {
			t.Fatal(err)
		}
		if err == nil && (file.paged > int64(len(text)) || len(file.memory) > len(text)) {
			t.Fatalf("%d bytes of pages and %d of memory in a file of %d", file.paged, len(file.memory), len(text))
		}
	})
}

// FuzzMeta parses arbitrary text as a meta.json. Its files and labels are those of encoding/json.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"thanos":{"version":1,"labels":{"a":"b","c":null},"files":[{"rel_path":"index","size_bytes":9},{},null]}}`))
	f.Add([]byte(`{"version":1,"thanos":{"labels":null,"files":null}}`))
	f.Add([]byte(`{"version":1,"thanos":{"labels":[],"files":{}}}`))
	f.Add([]byte(`{"ulid":"01DXXFZDYD1MQW6079WK0K6EDQ","minTime":0,"maxTime":7200000,"version":1}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		m, err := ParseMeta(text)
		if err == nil && (m.Version != 1 || m.MinTime > m.MaxTime) {
			t.Fatalf("%+v", m)
		}
		lower := bytes.ToLower(text)
		repeats := func(key string) bool { return bytes.Count(lower, []byte(key)) > 1 } // encoding/json merges the values of such keys
		if err != nil || bytes.Contains(text, []byte(`\`)) || repeats("thanos") || repeats("labels") || repeats("files") {
			return
		}
		var want struct {
			Thanos struct {
				Labels map[string]string `json:"labels"`
				Files  []metaFile        `json:"files"`
			} `json:"thanos"`
		}
		if err := json.Unmarshal(text, &want); err != nil || !maps.Equal(m.Thanos.Labels, want.Thanos.Labels) || !slices.Equal(m.Thanos.Files, want.Thanos.Files) {
			t.Fatalf("%+v, want %+v, %v", m.Thanos, want.Thanos, err)
		}
	})
}

// TestParts reads the seed index of FuzzIndex with both readers.
func TestParts(t *testing.T) {
	for _, version := range []byte{1, 2} {
		text := assembleParts(version)
		want, err := promRead(t.Context(), text, labels.MustNewMatcher(labels.MatchEqual, "b", "yy"))
		if err != nil || len(want) != 1 || len(want[0].Chunks) != 2 {
			t.Fatalf("version %d: Prometheus reads %v, %v", version, want, err)
		}
		e := newEnv(t)
		id := ulid.MustNew(1, bytes.NewReader(make([]byte, 10)))
		m := &memorySource{objects: map[string][]byte{id.String() + "/index": text}}
		b, err := New(m, id.String(), &Meta{ULID: id, Version: 1}, e.options)
		if err != nil {
			t.Fatal(err)
		}
		r := b.Reader(nil)
		p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchEqual, "b", "yy"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readRows(t.Context(), r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64}))
		if err != nil || len(got) != 1 || got[0].Labels != `{a="x", b="yy"}` || !slices.Equal(got[0].Chunks, want[0].Chunks) {
			t.Errorf("version %d: %v, %v", version, got, err)
		}
		r.Close()
		b.Close()
	}
}

// FuzzAggregates splits data of downsampled chunks, joins the parts, and splits the result: both have the same parts.
func FuzzAggregates(f *testing.F) {
	var all Aggregates
	f.Add(all.AppendTo(nil))
	for i := range all {
		all[i].Encoding, all[i].Data = byte(i), bytes.Repeat([]byte{byte(i)}, i*60+1)
		f.Add(all.AppendTo(nil))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		all, err := SplitAggregates(data)
		if err != nil {
			return
		}
		joined := all.AppendTo(nil)
		if len(joined) > len(data) {
			t.Fatalf("%d bytes are %d when they are joined", len(data), len(joined))
		}
		again, err := SplitAggregates(joined)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if len(all[i].Data) > 0 && all[i].Encoding != again[i].Encoding || !bytes.Equal(all[i].Data, again[i].Data) {
				t.Errorf("aggregate %s: %+v, then %+v", Aggregate(i), all[i], again[i])
			}
		}
	})
}
