package storegateway_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testseed"
)

// A lyingIndex is the content of an index of version 2, whose checksums are right.
type lyingIndex struct {
	symbols []string
	series  []lyingSeries
	entries []lyingEntry // of the postings offset table
}

// A lyingSeries is a series entry: numbers of symbols, and chunks.
type lyingSeries struct {
	labels []uint64
	chunks []lyingChunk
}

type lyingChunk struct {
	mint, maxt int64
	ref        uint64
}

// A lyingEntry is an entry of the postings offset table. Entries with the same list refer to one list.
type lyingEntry struct {
	name, value string
	list        int
	series      []int // if the list is new
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// encode returns the index.
func (x *lyingIndex) encode() []byte {
	be := binary.BigEndian
	section := func(b, body []byte) []byte {
		b = be.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
		return be.AppendUint32(b, crc32.Checksum(body, castagnoli))
	}
	b := append(be.AppendUint32(nil, 0xBAAAD700), 2)
	toc := [6]uint64{0: uint64(len(b))}
	body := be.AppendUint32(nil, uint32(len(x.symbols)))
	for _, s := range x.symbols {
		body = appendText(body, s)
	}
	b = section(b, body)
	var refs []uint32
	for i, s := range x.series {
		for len(b)%16 != 0 {
			b = append(b, 0)
		}
		if i == 0 {
			toc[1] = uint64(len(b))
		}
		refs = append(refs, uint32(len(b)/16))
		body := binary.AppendUvarint(nil, uint64(len(s.labels)/2))
		for _, l := range s.labels {
			body = binary.AppendUvarint(body, l)
		}
		body = binary.AppendUvarint(body, uint64(len(s.chunks)))
		for j, c := range s.chunks {
			if j == 0 {
				body = binary.AppendVarint(body, c.mint)
				body = binary.AppendUvarint(body, uint64(c.maxt-c.mint))
				body = binary.AppendUvarint(body, c.ref)
			} else {
				body = binary.AppendUvarint(body, uint64(c.mint-s.chunks[j-1].maxt))
				body = binary.AppendUvarint(body, uint64(c.maxt-c.mint))
				body = binary.AppendVarint(body, int64(c.ref-s.chunks[j-1].ref))
			}
		}
		b = binary.AppendUvarint(b, uint64(len(body)))
		b = append(b, body...)
		b = be.AppendUint32(b, crc32.Checksum(body, castagnoli))
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	toc[4] = uint64(len(b))
	lists := make(map[int]uint64)
	for _, e := range x.entries {
		if _, ok := lists[e.list]; ok {
			continue
		}
		lists[e.list] = uint64(len(b))
		body := be.AppendUint32(nil, uint32(len(e.series)))
		for _, i := range e.series {
			body = be.AppendUint32(body, refs[i])
		}
		b = section(b, body)
	}
	toc[5] = uint64(len(b))
	body = be.AppendUint32(nil, uint32(len(x.entries)))
	for _, e := range x.entries {
		body = append(body, 2)
		body = appendText(appendText(body, e.name), e.value)
		body = binary.AppendUvarint(body, lists[e.list])
	}
	b = section(b, body)
	start := len(b)
	for _, v := range toc {
		b = be.AppendUint64(b, v)
	}
	return be.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// lyingChunks returns a chunk file, and the references of its chunks.
func lyingChunks(encoding byte, datas ...[]byte) (text []byte, refs []uint64) {
	text = []byte{0x85, 0xbd, 0x40, 0xdd, 1, 0, 0, 0}
	for _, data := range datas {
		refs = append(refs, uint64(len(text)))
		text = binary.AppendUvarint(text, uint64(len(data)))
		body := append([]byte{encoding}, data...)
		text = append(text, body...)
		text = binary.BigEndian.AppendUint32(text, crc32.Checksum(body, castagnoli))
	}
	return text, refs
}

// floatChunk returns the data of a chunk with n samples of consecutive milliseconds.
func floatChunk(t *testing.T, from int64, n int) []byte {
	t.Helper()
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	run(t, err)
	for i := range n {
		app.Append(0, from+int64(i), 1)
	}
	return c.Bytes()
}

// times returns the times of the second block.
func (h *hostileBlocks) times(t *testing.T) (mint, maxt int64) {
	t.Helper()
	var m struct{ MinTime, MaxTime int64 }
	run(t, json.Unmarshal(h.files[h.blocks[1]+"/"+metaName], &m))
	return m.MinTime, m.MaxTime
}

// withoutTombstones returns a meta.json that counts no deletions.
func withoutTombstones(t *testing.T, text []byte) []byte {
	t.Helper()
	var m map[string]any
	run(t, json.Unmarshal(text, &m))
	delete(m["stats"].(map[string]any), "numTombstones")
	text, err := json.Marshal(m)
	run(t, err)
	return text
}

// honest returns an index of n series {__name__="lie", n="…"}.
func honest(n int, c lyingChunk) *lyingIndex {
	x := &lyingIndex{symbols: []string{"__name__", "lie", "n"}}
	all := lyingEntry{list: 0}
	name := lyingEntry{name: "__name__", value: "lie", list: 1}
	var values []lyingEntry
	for i := range n {
		text := fmt.Sprintf("v%07d", i)
		x.symbols = append(x.symbols, text)
		x.series = append(x.series, lyingSeries{labels: []uint64{0, 1, 2, uint64(3 + i)}, chunks: []lyingChunk{c}})
		all.series, name.series = append(all.series, i), append(name.series, i)
		values = append(values, lyingEntry{name: "n", value: text, list: 2 + i, series: []int{i}})
	}
	x.entries = append([]lyingEntry{all, name}, values...)
	return x
}

// histogramChunk returns the data of a chunk with one histogram.
func histogramChunk(t *testing.T, at int64, h *histogram.FloatHistogram) []byte {
	t.Helper()
	for _, s := range h.PositiveSpans {
		h.PositiveBuckets = append(h.PositiveBuckets, make([]float64, s.Length)...)
	}
	c := chunkenc.NewFloatHistogramChunk()
	app, err := c.Appender()
	run(t, err)
	_, _, _, err = app.AppendFloatHistogram(nil, 0, at, h, false)
	run(t, err)
	return c.Bytes()
}

// TestHostileStructures serves a block with right checksums and structures that no writer creates. Requests of all kinds
// succeed, and have the samples of the other blocks and a warning that names the block.
func TestHostileStructures(t *testing.T) {
	h := newHostileBlocks(t, testseed.New(t))
	mint, _ := h.times(t)
	others := h.others(t, blocksync.LayoutPrometheus)
	floats := floatChunk(t, mint, 10)
	for name, c := range map[string]struct {
		histogram *histogram.FloatHistogram // nil: a chunk of floats
		series    int
		change    func(*lyingIndex)
		want      string // warning; "": its samples
	}{
		"none":                {series: 3},
		"large symbols":       {series: 3, change: func(x *lyingIndex) { x.addSymbols(20, 1<<20) }},
		"a symbol too large":  {series: 3, change: func(x *lyingIndex) { x.addSymbols(1, 1<<20+1) }, want: "a text of 1048577 bytes"},
		"a name twice":        {series: 3, change: func(x *lyingIndex) { x.series[1].labels = []uint64{0, 1, 2, 4, 2, 5} }, want: "or a name repeats"},
		"labels out of order": {series: 3, change: func(x *lyingIndex) { x.series[1].labels = []uint64{2, 4, 0, 1} }, want: "not in the order of their names"},
		"values that share series": {series: 300, change: func(x *lyingIndex) {
			for i := range 2000 {
				x.entries = append(x.entries, lyingEntry{name: "region", value: fmt.Sprintf("%04d", i), list: 1})
			}
		}, want: "more postings than there can be series"},
		"custom buckets": {histogram: &histogram.FloatHistogram{
			Schema: histogram.CustomBucketsSchema, PositiveSpans: []histogram.Span{{Length: 3}}, CustomValues: []float64{1, 2},
		}, series: 3},
		"too few bounds": {histogram: &histogram.FloatHistogram{
			Schema: histogram.CustomBucketsSchema, PositiveSpans: []histogram.Span{{Length: 3}}, CustomValues: []float64{1},
		}, series: 3, want: "1 bounds are too few"},
		"buckets before the first bound": {histogram: &histogram.FloatHistogram{
			Schema: histogram.CustomBucketsSchema, PositiveSpans: []histogram.Span{{Offset: -5, Length: 3}}, CustomValues: []float64{1, 2, 3},
		}, series: 3, want: "before the first bound"},
		"buckets out of range": {histogram: &histogram.FloatHistogram{
			PositiveSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 3}},
		}, series: 3, want: "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			data, chunk, encoding := floats, lyingChunk{mint: mint, maxt: mint + 9}, chunkenc.EncXOR
			if c.histogram != nil {
				data, chunk.maxt, encoding = histogramChunk(t, mint, c.histogram), mint, chunkenc.EncFloatHistogram
			}
			text, refs := lyingChunks(byte(encoding), data)
			chunk.ref = refs[0]
			index := honest(c.series, chunk)
			if c.change != nil {
				c.change(index)
			}
			own := &hostileBlocks{files: maps.Clone(h.files), thanos: h.thanos, blocks: h.blocks, end: h.end}
			dir := h.blocks[1] + "/"
			delete(own.files, dir+tombstonesName)
			own.files[dir+"chunks/000001"], own.files[dir+indexName] = text, index.encode()
			own.files[dir+metaName] = withoutTombstones(t, own.files[dir+metaName])
			a := own.serve(t, blocksync.LayoutPrometheus, "", nil)
			own.askAll(t, a)
			got, warnings := own.ask(t, a)
			lies := 0
			for s := range got {
				if strings.Contains(s, `"__name__":"lie"`) {
					lies++
				}
			}
			if c.want == "" && (lies == 0 || len(warnings) > 0) || c.want != "" && (lies > 0 || !strings.Contains(strings.Join(warnings, " "), c.want)) {
				t.Errorf("%d of its samples, warnings %q, want %q", lies, warnings, c.want)
			}
			for s := range others {
				if !got[s] {
					t.Fatalf("a sample of another block is missing: %s", s)
				}
			}
		})
	}
}

// TestLongChunks serves a block with a chunk that exceeds a query's bytes: the error names the block. A chunk that is longer
// than any writer creates is damage: queries succeed without the block.
func TestLongChunks(t *testing.T) {
	h := newHostileBlocks(t, testseed.New(t))
	mint, _ := h.times(t)
	const most = 16 << 20 // as a query's bytes
	serve := func(t *testing.T, text []byte) (*hostileBlocks, api) {
		own := &hostileBlocks{files: maps.Clone(h.files), thanos: h.thanos, blocks: h.blocks, end: h.end}
		dir := h.blocks[1] + "/"
		delete(own.files, dir+tombstonesName)
		own.files[dir+"chunks/000001"], own.files[dir+indexName] = text, honest(3, lyingChunk{mint: mint, maxt: mint + 9, ref: 8}).encode()
		own.files[dir+metaName] = withoutTombstones(t, own.files[dir+metaName])
		return own, own.serve(t, blocksync.LayoutPrometheus, "", nil)
	}
	t.Run("over the limit", func(t *testing.T) {
		text, _ := lyingChunks(byte(chunkenc.EncXOR), make([]byte, most))
		own, a := serve(t, text)
		got := own.send(t, a)
		if got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body, "block "+h.blocks[1]+": 3 chunks of 3 series: query bytes: chunks ask for 16") || !strings.Contains(got.Body, "raise the limit") {
			t.Errorf("got %.1000v", got)
		}
	})
	t.Run("absurd", func(t *testing.T) {
		text := []byte{0x85, 0xbd, 0x40, 0xdd, 1, 0, 0, 0}
		text = append(binary.AppendUvarint(text, most+1), make([]byte, 5000)...)
		own, a := serve(t, text)
		got, warnings := own.ask(t, a)
		own.askAll(t, a)
		if !strings.Contains(strings.Join(warnings, " "), "a chunk of more than 16 MiB") {
			t.Errorf("warnings %q", warnings)
		}
		for s := range h.others(t, blocksync.LayoutPrometheus) {
			if !got[s] {
				t.Fatalf("a sample of another block is missing: %s", s)
			}
		}
	})
}

// addSymbols adds symbols that no series has.
func (x *lyingIndex) addSymbols(n, size int) {
	for i := range n {
		x.symbols = append(x.symbols, string(rune('w'+i))+strings.Repeat("x", size-len(string(rune('w'+i)))))
	}
}
