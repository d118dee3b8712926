package stmtstats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// fuzzTable returns the file of a small table with all features: names in a page, texts, slow calls, an
// evicted Key.
func fuzzTable(f *testing.F, o Options) []byte {
	table := mustOpen(f, o)
	for n := range 4 {
		r := teststmt.Record(n, time.Duration(n)*time.Millisecond)
		if n == 2 {
			r.Backend = "database-with-a-long-name.internal.example.com:3306"
			r.Normalized = bytes.Repeat([]byte("select ? "), 60)
		}
		for range 3 {
			table.Observe(r)
			r.Total *= 100
		}
	}
	table.mu.Lock()
	table.evict(&table.mem.entries[2])
	table.mu.Unlock()
	if err := table.Close(); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(o.Dir, tableName))
	if err != nil {
		f.Fatal(err)
	}
	return content
}

// aligned returns a copy of content that a memory can be placed in.
func aligned(content []byte) []byte {
	raw := heapBytes(make([]uint64, len(content)/8+1))[:len(content)]
	copy(raw, content)
	return raw
}

// resum corrects the checksums of a damaged table, so that the damage must be detected in the values.
func resum(raw []byte) {
	if len(raw) < headerBytes {
		return
	}
	h := (*header)(unsafe.Pointer(unsafe.SliceData(raw)))
	h.sum = h.checksum()
	g, c, err := readHeader(raw)
	if err != nil || !c.current() {
		return
	}
	m := g.place(raw)
	for i := range m.entries {
		e := &m.entries[i]
		var names *page
		if m.has(e.namesPage) {
			names = &m.pages[e.namesPage]
		}
		e.sum = e.checksum(names)
		sumText := func(ref *textRef, limit int) {
			if int(ref.bytes) <= limit {
				text, _ := m.appendText(nil, ref)
				ref.sum = ref.checksum(text)
			}
		}
		sumText(&e.text, MostText)
		for s := range e.slow {
			sumText(&e.slow[s].text, pageText)
			e.slow[s].sum = e.slow[s].checksum()
		}
	}
}

// FuzzReadTable damages the file of a table: patches are offsets with new bytes. The table is refused, or it
// is valid: nothing panics, counting continues, its pages have one owner each, and opening it again returns
// the same.
func FuzzReadTable(f *testing.F) {
	o := Options{Dir: f.TempDir(), MaxDigests: 4, Bytes: leastBytes(4) + 8*pageBytes}
	good := fuzzTable(f, o)
	patch := func(at int, bytes ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(at))
		return append(append(b, byte(len(bytes))), bytes...)
	}
	entries := headerBytes + 2*totalsBytes
	f.Add([]byte{}, len(good), false)
	f.Add(patch(0, 'x'), len(good), false)
	f.Add(patch(8, 3), len(good), true)                                    // another version
	f.Add(patch(28, 1), len(good), true)                                   // fewer entries
	f.Add(patch(entries+entryBytes+3, 3), len(good), true)                 // live and sealed
	f.Add(patch(entries+entryBytes+48, 9), len(good), false)               // a digest
	f.Add(patch(entries+entryBytes+128+8*NumCounters, 1), len(good), true) // another's page
	f.Add([]byte{}, len(good)-1, false)
	f.Add([]byte{}, 10, false)
	f.Fuzz(func(t *testing.T, patches []byte, size int, sums bool) {
		defer alloctest.Bounded(t, 64<<20)()
		content := good[:min(max(size, 0), len(good))]
		raw := aligned(content)
		for len(patches) > 5 {
			at, n := int(binary.LittleEndian.Uint32(patches)), int(patches[4])
			patches = patches[5:]
			n = min(n, len(patches))
			if at < len(raw) {
				copy(raw[at:], patches[:n])
			}
			patches = patches[n:]
		}
		if sums {
			resum(raw)
		}
		before := bytes.Clone(raw)
		mem, err := readTable(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("reading a table has changed it")
		}
		if err != nil {
			return
		}
		defer func() { _ = mem.drop() }()
		open := func(mem *memory) *Table {
			o := Options{MaxDigests: len(mem.entries) - 1, Bytes: 1 << 30, Redaction: querylog.RedactLiterals}
			if err := o.Validate(); err != nil {
				t.Fatal(err)
			}
			table := &Table{opts: o, seed: maphash.MakeSeed()}
			table.resume(mem)
			return table
		}
		sum := func(table *Table) (calls, rows uint64, keys map[uint64]Key) {
			keys = make(map[uint64]Key)
			if err := table.Each(func(s *Sample) error {
				calls, rows, keys[s.ID] = calls+s.Counts[Calls], rows+s.Counts[RowsSent], s.Key
				if native := s.Histogram.Native(); native.Count != s.Counts[Calls] {
					t.Errorf("%d calls, a histogram of %d", s.Counts[Calls], native.Count)
				}
				table.SlowCalls(nil, s.ID)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return calls, rows, keys
		}
		table := open(mem)
		calls, rows, keys := sum(table)
		if calls2, rows2, keys2 := sum(open(mem)); calls2 != calls || rows2 != rows || len(keys2) != len(keys) {
			t.Fatalf("%d calls, %d rows, %d keys; opened once more %d, %d, %d", calls, rows, len(keys), calls2, rows2, len(keys2))
		}
		table = open(mem)
		for n := range 8 {
			table.Observe(teststmt.Record(n, time.Duration(n)*time.Second))
			if n == 4 {
				err := table.Collect(func(*Sample) error { return nil })
				err = errors.Join(err, table.check())
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := table.check(); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := sum(table); got != calls+8 {
			t.Errorf("%d calls and 8 more are %d", calls, got)
		}
	})
}
