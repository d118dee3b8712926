package stmtstats

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// ownersTable returns a table with three Keys, of which the second has its names in a page, and texts of calls.
func ownersTable(t *testing.T) *Table {
	t.Helper()
	table := mustOpen(t, Options{MaxDigests: 8, Redaction: querylog.RedactNone})
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	for n := range 3 {
		r := teststmt.Record(n, time.Duration(n+1)*time.Millisecond)
		r.Normalized = []byte(strings.Repeat("select ? ", 30*(n+1)))
		if n == 1 {
			r.User = strings.Repeat("u", 100)
		}
		table.Observe(r)
	}
	return table
}

// TestOwners has each inconsistency of a table that was read, with correct checksums: it is refused.
func TestOwners(t *testing.T) {
	table := ownersTable(t)
	g := geometry{len(table.mem.entries), len(table.mem.pages)}
	second := func(m *memory) *entry { // the one with its names in a page
		for i := range m.entries {
			if m.entries[i].namesPage != 0 {
				return &m.entries[i]
			}
		}
		t.Fatal("no names are in a page")
		return nil
	}
	octave := func(e *entry) int {
		for i := range e.octaves {
			if e.octaves[i].Load() != 0 {
				return i
			}
		}
		t.Fatal("no octave has a page")
		return 0
	}
	others := func(m *memory) (a, b *entry) {
		for i := 1; i < len(m.entries); i++ {
			if e := &m.entries[i]; e.state() == gateLive && e.namesPage == 0 {
				if a == nil {
					a = e
				} else {
					return a, e
				}
			}
		}
		t.Fatal("too few entries")
		return nil, nil
	}
	first := func(m *memory) *entry { a, _ := others(m); return a }
	for _, c := range []struct {
		name   string
		change func(m *memory)
		want   string // "": valid
	}{
		{"unchanged", func(*memory) {}, ""},
		{"the strictest redaction", func(m *memory) { m.header.redaction.Store(uint64(querylog.RedactAll)) }, ""},
		{"another redaction", func(m *memory) { m.header.redaction.Store(uint64(querylog.RedactAll) + 1) }, "written with redaction"},
		{"no IDs", func(m *memory) { m.header.nextID.Store(firstID - 1) }, "the next ID is 1"},
		{"too great an ID", func(m *memory) { m.header.nextID.Store(movedSet) }, "the next ID is"},
		{"the greatest ID", func(m *memory) { m.header.nextID.Store(movedSet - 1) }, ""},
		{"an eviction of the next ID", func(m *memory) { m.header.moved.Store(m.header.nextID.Load()) }, "the next ID is"},
		{"an eviction of the last ID", func(m *memory) { m.header.moved.Store(m.header.nextID.Load() - 1) }, ""},
		{"two states", func(m *memory) { first(m).gate.Add(gateSealed) }, "in several states at once"},
		{"sealed", func(m *memory) { first(m).transition(gateLive, gateSealed) }, ""},
		{"Other of another ID", func(m *memory) { m.entries[0].id++ }, "is not the one of untracked digests"},
		{"Other evicted", func(m *memory) { m.entries[0].transition(gateLive, gateGone) }, "is not the one of untracked digests"},
		{"Other with another page", func(m *memory) { m.entries[0].octaves[octaves-1].Add(1) }, "has a page"},
		{"another checksum", func(m *memory) { first(m).sum++ }, "its checksum does not match"},
		{"another name in a page", func(m *memory) { m.pages[second(m).namesPage].bytes()[3]++ }, "its checksum does not match"},
		{"as many bytes of names as there is room for", func(m *memory) {
			e := first(m)
			e.schemaBytes, e.userBytes, e.backBytes = inlineNames, 0, 0
			e.sum = e.checksum(nil)
		}, ""},
		{"a byte more", func(m *memory) {
			e := first(m)
			e.schemaBytes, e.userBytes, e.backBytes = inlineNames, 0, 1
			e.sum = e.checksum(nil)
		}, "bytes of names"},
		{"an ID of another kind", func(m *memory) { e := first(m); e.id = firstID - 1; e.sum = e.checksum(nil) }, "that is not its own"},
		{"an ID that was not given", func(m *memory) { e := first(m); e.id = m.header.nextID.Load(); e.sum = e.checksum(nil) }, "that is not its own"},
		{"the ID of another one", func(m *memory) { a, b := others(m); b.id = a.id; b.sum = b.checksum(nil) }, "that is not its own"},
		{"the Key of another one", func(m *memory) {
			a, b := others(m)
			b.digest, b.schemaBytes, b.userBytes, b.backBytes, b.names = a.digest, a.schemaBytes, a.userBytes, a.backBytes, a.names
			b.sum = b.checksum(nil)
		}, "counts the same as another one"},
		{"the Key of an evicted one", func(m *memory) {
			a, b := others(m)
			b.digest, b.schemaBytes, b.userBytes, b.backBytes, b.names = a.digest, a.schemaBytes, a.userBytes, a.backBytes, a.names
			b.sum = b.checksum(nil)
			a.transition(gateLive, gateGone)
		}, ""},
		{"a page of durations that does not exist", func(m *memory) { e := first(m); e.octaves[octave(e)].Store(uint32(len(m.pages))) }, "has a page"},
		{"a page of durations of another one", func(m *memory) {
			a, b := others(m)
			a.octaves[octave(a)].Store(b.octaves[octave(b)].Load())
		}, "has a page"},
		{"pages of an evicted one", func(m *memory) {
			a, b := others(m)
			a.octaves[octave(a)].Store(b.octaves[octave(b)].Load())
			a.transition(gateLive, gateGone)
		}, ""},
		{"the text of another one", func(m *memory) { a, b := others(m); a.text = b.text }, "has a page"},
		{"a text that is incomplete", func(m *memory) { a, b := others(m); a.text = b.text; a.text.sum++ }, ""},
		{"a page of names that is another's", func(m *memory) {
			e := second(m)
			e.namesPage = 1
			e.sum = e.checksum(&m.pages[1])
		}, "has a page"},
		{"a slow call with the text of another one", func(m *memory) {
			a, b := others(m)
			a.slow[0] = slowRef{start: 1, nanos: 1, text: b.text}
			a.slow[0].text.bytes = pageText // of its first page
			text, _ := m.appendText(nil, &a.slow[0].text)
			a.slow[0].text.sum = a.slow[0].text.checksum(text)
			a.slow[0].sum = a.slow[0].checksum()
		}, "has a page"},
		{"a slow call that is incomplete", func(m *memory) {
			a, b := others(m)
			a.slow[0] = slowRef{start: 1, nanos: 1, text: b.text}
			a.slow[0].sum = a.slow[0].checksum() + 1
		}, ""},
	} {
		m := g.place(aligned(table.mem.raw))
		c.change(m)
		_, err := m.owned()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestCheck has each inconsistency between a table and its lists of free entries and pages found.
func TestCheck(t *testing.T) {
	table := ownersTable(t)
	for _, c := range []struct {
		name         string
		change, back func()
		want         string
	}{
		{"consistent", func() {}, func() {}, ""},
		{"a page in use is free", func() { table.pages.numbers = append(table.pages.numbers, 1) }, func() { table.pages.numbers = table.pages.numbers[:len(table.pages.numbers)-1] }, "page 1 has an owner and is free"},
		{"a page is lost", func() { table.pages.numbers = table.pages.numbers[:len(table.pages.numbers)-1] }, func() { table.pages.numbers = table.pages.numbers[:len(table.pages.numbers)+1] }, "is lost"},
		{"one lives less", func() { table.live++ }, func() { table.live-- }, "are said to live"},
		{"one is unused twice", func() { table.unused = append(table.unused, table.unused[0]) }, func() { table.unused = table.unused[:len(table.unused)-1] }, "are said to live"},
		{"one is lost", func() { table.unused = table.unused[:len(table.unused)-1] }, func() { table.unused = table.unused[:len(table.unused)+1] }, "are said to live"},
		{"the table is refused", func() { table.mem.entries[0].id++ }, func() { table.mem.entries[0].id-- }, "is not the one of untracked digests"},
	} {
		c.change()
		err := table.check()
		c.back()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestHeader has each field of a header that is refused, on both sides of its bounds.
func TestHeader(t *testing.T) {
	g := geometry{entries: 2, pages: fixedPages}
	for _, c := range []struct {
		name   string
		g      geometry
		change func(h *header)
		extra  int // bytes
		want   string
	}{
		{"the least", g, func(*header) {}, 0, ""},
		{"one entry", geometry{1, fixedPages}, func(*header) {}, 0, "bytes for 1 entries"},
		{"too few pages", geometry{2, fixedPages - 1}, func(*header) {}, 0, "bytes for 2 entries"},
		{"a byte more", g, func(*header) {}, 1, "bytes for 2 entries"},
		{"a byte less", g, func(*header) {}, -1, "bytes for 2 entries"},
		{"another magic", g, func(h *header) { h.magic[7]++ }, 0, "not a digest table"},
		{"another byte order", g, func(h *header) { h.order++ }, 0, "another byte order"},
		{"a later version", g, func(h *header) { h.version = version + 1 }, 0, "of version 3"},
		{"no version", g, func(h *header) { h.version = 0 }, 0, "of version 0"},
		{"another checksum", g, func(h *header) { h.sum++ }, 0, "checksum does not match"},
		{"other octaves", g, func(h *header) { h.octaves++; h.sum = h.checksum() }, 0, "octaves"},
	} {
		size := c.g.bytes()
		raw := aligned(make([]byte, size+8))
		c.g.format(raw, querylog.RedactNone)
		c.change((*header)(unsafe.Pointer(unsafe.SliceData(raw))))
		got, _, err := readHeader(raw[:size+int64(c.extra)])
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got != c.g {
			t.Errorf("%s: %+v, %v, want %q", c.name, got, err, c.want)
		}
	}
	if _, _, err := readHeader(make([]byte, headerBytes-1)); err == nil {
		t.Error("a part of a header is read")
	}
}
