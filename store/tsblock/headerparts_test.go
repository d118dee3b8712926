package tsblock

import (
	"encoding/binary"
	"testing"
)

// headerParts are the numbers and texts of a header's memory part.
type headerParts struct {
	version, symbolBase, symbolEnd, symbolCount uint64
	symbols                                     []uint64 // differences
	names                                       []nameParts
	rest                                        string
}

type nameParts struct {
	name, last string
	runs       []uint64 // differences of their positions
	end        uint64   // after the last run
}

func (p *headerParts) bytes() (b []byte) {
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	text := func(s string) { number(uint64(len(s))); b = append(b, s...) }
	for _, n := range []uint64{p.version, 10, 20, 30, 40, p.symbolBase, p.symbolEnd, p.symbolCount, uint64(len(p.symbols))} {
		number(n)
	}
	for _, n := range p.symbols {
		number(n)
	}
	number(uint64(len(p.names)))
	for _, n := range p.names {
		text(n.name)
		number(5)
		number(uint64(len(n.runs)))
		for _, at := range n.runs {
			text("value")
			number(at)
		}
		text(n.last)
		number(n.end)
	}
	return append(b, p.rest...)
}

// TestHeaderParts parses a header with one part changed to an edge of its range, or beyond it.
func TestHeaderParts(t *testing.T) {
	const pages = 1000
	for _, c := range []struct {
		name   string
		change func(p *headerParts)
		ok     bool
	}{
		{"unchanged", func(*headerParts) {}, true},
		{"more behind it", func(p *headerParts) { p.rest = "x" }, false},
		{"no names", func(p *headerParts) { p.names = nil }, true},
		{"a name without runs", func(p *headerParts) { p.names[0].runs = nil }, false},
		{"equal names", func(p *headerParts) { p.names[1].name = p.names[0].name }, false},
		{"descending names", func(p *headerParts) { p.names[1].name = "A" }, false},
		{"symbols end with the pages", func(p *headerParts) { p.symbolEnd, p.names = pages, nil }, true},
		{"symbols end beyond the pages", func(p *headerParts) { p.symbolEnd, p.names = pages+1, nil }, false},
		{"a symbol at the end", func(p *headerParts) { p.symbols[1] = p.symbolEnd - p.symbols[0] }, true},
		{"a symbol beyond the end", func(p *headerParts) { p.symbols[1] = p.symbolEnd - p.symbols[0] + 1 }, false},
		{"one symbol less", func(p *headerParts) { p.symbolCount = sampleEvery }, false},
		{"the most symbols", func(p *headerParts) { p.symbolCount = 2 * sampleEvery }, true},
		{"one symbol more", func(p *headerParts) { p.symbolCount = 2*sampleEvery + 1 }, false},
		{"version 1 with symbols", func(p *headerParts) { p.version = 1 }, false},
		{"version 1", func(p *headerParts) { p.version, p.symbols = 1, nil }, true},
		{"a run at the symbols' end", func(p *headerParts) { p.names[0].runs[0] = p.symbolEnd }, true},
		{"a run within the symbols", func(p *headerParts) { p.names[0].runs[0] = p.symbolEnd - 1 }, false},
		{"a run at the end", func(p *headerParts) { p.names[0].runs, p.names[0].end = []uint64{pages}, 0 }, true},
		{"a run beyond the end", func(p *headerParts) { p.names[0].runs, p.names[0].end = []uint64{pages + 1}, 0 }, false},
		{"an empty run", func(p *headerParts) { p.names[0].end = 0 }, true},
		{"a name that ends with the pages", func(p *headerParts) { p.names[1].end = pages - 500 }, true},
		{"a name that ends beyond the pages", func(p *headerParts) { p.names[1].end = pages - 500 + 1 }, false},
		{"a huge number", func(p *headerParts) { p.symbolBase = 1 << 62 }, false},
		{"the greatest number", func(p *headerParts) { p.symbolBase = 1<<62 - 1 }, true},
	} {
		p := &headerParts{
			version: 2, symbolBase: 50, symbolEnd: 200, symbolCount: sampleEvery + 1, symbols: []uint64{60, 40},
			names: []nameParts{{name: "a", last: "z", runs: []uint64{300, 50}, end: 10}, {name: "b", last: "y", runs: []uint64{500}, end: 100}},
		}
		c.change(p)
		h, err := parseHeader(p.bytes(), pages)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (h.version != int(p.version) || len(h.names) != len(p.names) || len(h.symbols) != len(p.symbols)) {
			t.Errorf("%s: %+v", c.name, h)
		}
		for n := range p.bytes() {
			if !c.ok {
				break
			}
			if _, err := parseHeader(p.bytes()[:n], pages); err == nil {
				t.Errorf("%s: the first %d bytes are a header", c.name, n)
			}
		}
	}
}
