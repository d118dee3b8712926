package storegateway_test

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"maps"
	"math"
	"regexp"
	"slices"
	"testing"
)

// A fileField is a field of a block's file, as the documents of Prometheus' formats (index.md, chunks.md, tombstones.md)
// name it, or a value of meta.json.
type fileField struct {
	kind     string
	from, to int
	sealed   fileSpan // the part with the checksum that covers the field; empty: none
}

// A fileSpan is a part of a file. A checksum follows it.
type fileSpan struct{ from, to int }

// A fieldReader lists the fields of a file.
type fieldReader struct {
	text   []byte
	at     int
	sealed fileSpan
	all    []fileField
}

// field adds a field of n bytes.
func (r *fieldReader) field(kind string, n int) []byte {
	r.all = append(r.all, fileField{kind, r.at, r.at + n, r.sealed})
	r.at += n
	return r.text[r.at-n : r.at]
}

func (r *fieldReader) uint32(kind string) int { return int(binary.BigEndian.Uint32(r.field(kind, 4))) }

func (r *fieldReader) varint(kind string) int {
	v, n := binary.Uvarint(r.text[r.at:])
	r.field(kind, n)
	return int(v)
}

func (r *fieldReader) checksum() {
	r.sealed = fileSpan{}
	r.field("checksum", 4)
}

// indexFields lists the fields of an index of version 2. It skips the sections that readers ignore: label indices and
// their offset table.
func indexFields(text []byte) []fileField {
	r := &fieldReader{text: text}
	toc := len(text) - 6*8 - 4
	offset := func(i int) int { return int(binary.BigEndian.Uint64(text[toc+8*i:])) }
	r.field("magic", 4)
	r.field("version", 1)
	r.at = offset(0)
	size := r.uint32("length of the symbols")
	r.sealed = fileSpan{r.at, r.at + size}
	for range r.uint32("number of symbols") {
		r.field("symbol", r.varint("length of a symbol"))
	}
	r.checksum()
	for r.at = offset(1); ; {
		r.at = (r.at + 15) &^ 15
		if n, width := binary.Uvarint(text[r.at:]); r.at+width+int(n)+4 > offset(2) || n == 0 {
			break
		}
		size := r.varint("length of a series")
		r.sealed = fileSpan{r.at, r.at + size}
		for range r.varint("number of labels") {
			r.varint("symbol of a label's name")
			r.varint("symbol of a label's value")
		}
		for n := range r.varint("number of chunks") {
			if n == 0 {
				r.varint("first time of the first chunk")
			} else {
				r.varint("first time of a chunk")
			}
			r.varint("last time of a chunk")
			if n == 0 {
				r.varint("reference of the first chunk")
			} else {
				r.varint("reference of a chunk")
			}
		}
		r.checksum()
	}
	for r.at = (offset(4) + 3) &^ 3; r.at+12 <= offset(3); r.at = (r.at + 3) &^ 3 { // up to the table of label indices
		size := r.uint32("length of postings")
		r.sealed = fileSpan{r.at, r.at + size}
		for range r.uint32("number of postings") {
			r.uint32("posting")
		}
		r.checksum()
	}
	r.at = offset(5)
	size = r.uint32("length of the postings table")
	r.sealed = fileSpan{r.at, r.at + size}
	for range r.uint32("number of entries of the postings table") {
		r.field("number of strings of an entry", 1)
		r.field("name of an entry", r.varint("length of an entry's name"))
		r.field("value of an entry", r.varint("length of an entry's value"))
		r.varint("offset of postings")
	}
	r.checksum()
	r.at, r.sealed = toc, fileSpan{toc, toc + 6*8}
	for _, section := range []string{"symbols", "series", "label indices", "label offset table", "postings", "postings table"} {
		r.field("offset of "+section, 8)
	}
	r.checksum()
	return r.all
}

// chunkFields lists the fields of a chunk file.
func chunkFields(text []byte) []fileField {
	r := &fieldReader{text: text}
	r.field("magic", 4)
	r.field("version", 1)
	r.field("padding", 3)
	for r.at < len(text) {
		size := r.varint("length of a chunk")
		r.sealed = fileSpan{r.at, r.at + 1 + size}
		r.field("encoding of a chunk", 1)
		r.field("number of samples", 2)
		r.field("start of a chunk's data", min(12, size-2))
		r.field("rest of a chunk's data", r.sealed.to-r.at)
		r.checksum()
	}
	return r.all
}

// tombstoneFields lists the fields of a tombstones file.
func tombstoneFields(text []byte) []fileField {
	r := &fieldReader{text: text}
	r.field("magic", 4)
	r.field("version", 1)
	for r.sealed = (fileSpan{5, len(text) - 4}); r.at < len(text)-4; {
		r.varint("series of a deletion")
		r.varint("first time of a deletion")
		r.varint("last time of a deletion")
	}
	r.checksum()
	return r.all
}

// metaFields lists the values of a meta.json.
func metaFields(t *testing.T, text []byte) (all []fileField) {
	t.Helper()
	values := regexp.MustCompile(`"(\w+)":\s*("[^"]*"|-?[0-9]+)`)
	for _, m := range values.FindAllSubmatchIndex(text, -1) {
		all = append(all, fileField{kind: string(text[m[2]:m[3]]), from: m[4], to: m[5]})
	}
	var m any
	if err := json.Unmarshal(text, &m); err != nil || len(all) < 10 {
		t.Fatal(len(all), err)
	}
	return all
}

// fieldsOf lists the fields of a file by its name in the block.
func fieldsOf(t *testing.T, name string, text []byte) []fileField {
	t.Helper()
	switch name {
	case indexName:
		return indexFields(text)
	case tombstonesName:
		return tombstoneFields(text)
	case metaName:
		return metaFields(t, text)
	}
	return chunkFields(text)
}

// changedField returns a text with a change of a field. With seal, its checksum is right.
func changedField(text []byte, f fileField, change string, seal bool) []byte {
	text = slices.Clone(text)
	b := text[f.from:f.to]
	switch change {
	case "a bit":
		b[len(b)-1] ^= 1
	case "another bit":
		b[0] ^= 0x40
	case "zeros":
		clear(b)
	case "huge":
		for i := range b {
			b[i] = 0xff
		}
	case "half":
		for i := range b {
			b[i] >>= 1
		}
	case "digits":
		for i := range b {
			if b[i] >= '0' && b[i] <= '9' {
				b[i] = '9'
			}
		}
	case "zero": // a number
		for i := range b[:len(b)-1] {
			b[i] = 0x80
		}
		b[len(b)-1] = 0
	case "far before": // a distance, of a negative one
		distance, _ := binary.Uvarint(b)
		copy(b, binary.AppendUvarint(nil, distance-1e6))
	case "negative": // the number does not end
		b[len(b)-1] |= 0x80
	case "file ends":
		return text[:f.from]
	}
	if seal && f.sealed.to > 0 {
		binary.BigEndian.PutUint32(text[f.sealed.to:], crc32.Checksum(text[f.sealed.from:f.sealed.to], crc32.MakeTable(crc32.Castagnoli)))
	}
	return text
}

// fieldChanges are the changes of changedField.
var fieldChanges = []string{"a bit", "another bit", "zeros", "huge", "half", "digits", "file ends"}

// TestFieldReaders checks that the lists of fields cover the files of a block, except padding and sections that readers
// ignore.
func TestFieldReaders(t *testing.T) {
	h := newHostileBlocks(t, 1)
	kinds := make(map[string]bool)
	for _, name := range hostileNames {
		text := h.files[h.blocks[1]+"/"+name]
		covered := 0
		for _, f := range fieldsOf(t, name, text) {
			covered += f.to - f.from
			kinds[name+": "+f.kind] = true
		}
		if least := len(text) * map[string]int{metaName: 20}[name] / 100; covered < least || name != metaName && name != indexName && covered != len(text) || name == indexName && covered < len(text)/2 {
			t.Errorf("%s: %d of %d bytes are covered", name, covered, len(text))
		}
	}
	for _, kind := range []string{"index: reference of a chunk", "index: offset of postings", "index: posting", "chunks/000001: number of samples", "meta.json: maxTime", "tombstones: last time of a deletion"} {
		if !kinds[kind] {
			t.Errorf("no field %q: %s", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

// referTo returns an index in which the first chunk of a series is in the chunk file of a number from 0. Its reference has
// ten bytes in place of other fields of the entry, which keeps its length.
func referTo(t *testing.T, index []byte, fields []fileField, file uint64) []byte {
	t.Helper()
	for i, f := range fields {
		if f.kind != "reference of the first chunk" {
			continue
		}
		reference, width := binary.Uvarint(index[f.from:])
		number := binary.AppendUvarint(nil, file<<32|reference&math.MaxUint32)
		chunks := slices.IndexFunc(fields[:i], func(g fileField) bool { return g.kind == "number of chunks" && g.sealed == f.sealed })
		if f.from+len(number) > f.sealed.to || width != f.to-f.from {
			continue // a series of one chunk
		}
		text := slices.Clone(index)
		copy(text[f.from:], number)
		text[fields[chunks].from] = 1
		binary.BigEndian.PutUint32(text[f.sealed.to:], crc32.Checksum(text[f.sealed.from:f.sealed.to], crc32.MakeTable(crc32.Castagnoli)))
		return text
	}
	t.Fatal("no series has room for a long reference")
	return nil
}
