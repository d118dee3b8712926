package activeseries

import (
	"bytes"
	"hash/maphash"
	"slices"
)

const uniqueSegments = 16

// A hashSet is a set of hashes of items within a budget of bytes. Its segments grow one by one, so that
// little of the set is duplicated during a growth.
type hashSet struct {
	seed     maphash.Seed
	allowed  int64 // in bytes
	used     int64 // bytes of the segments
	segments [uniqueSegments]hashSegment
}

// A hashSegment is a table with linear probing, at most three quarters full.
type hashSegment struct {
	slots []uint64 // the length is a power of two; 0: free
	n     int
}

func newHashSet(allowed int64) *hashSet {
	return &hashSet{seed: maphash.MakeSeed(), allowed: allowed}
}

// hash returns the hash of an item, regardless of the order and the escaping of its labels and of white
// space. It is never 0. It does not allocate for an item in canonical form; others are rewritten in form's
// memory. It may be called concurrently, with one form per caller.
func (s *hashSet) hash(item []byte, form *canonicalForm) uint64 {
	if !isCanonical(item) {
		item = form.of(item)
	}
	return max(maphash.Bytes(s.seed, item), 1)
}

// isCanonical reports whether an item has no white space and no escapes, and its labels are sorted by name
// without duplicates.
func isCanonical(item []byte) bool {
	if bytes.IndexByte(item, '\\') >= 0 {
		return false
	}
	if len(item) == len("{}") {
		return true
	}
	var last []byte
	for i := 1; ; i++ {
		if item[i] != '"' {
			return false
		}
		end := closing(item, i+1)
		name := item[i:end]
		if i > 1 && bytes.Compare(last, name) >= 0 || item[end] != ':' || item[end+1] != '"' {
			return false
		}
		last = name
		if i = closing(item, end+2); item[i] != ',' {
			return item[i] == '}'
		}
	}
}

// A canonicalForm rewrites items such that equal labels have equal bytes.
type canonicalForm struct {
	labels []canonicalLabel
	text   []byte
}

// A canonicalLabel is a label whose strings are in canonical form.
type canonicalLabel struct{ name, value []byte }

// of returns the item's canonical form, valid until the next call.
func (f *canonicalForm) of(item []byte) []byte {
	f.labels = f.labels[:0]
	for name, value := range Labels(item) {
		f.labels = append(f.labels, canonicalLabel{canonicalString(name), canonicalString(value)})
	}
	// Names are compared with their quotes, as in isCanonical.
	slices.SortStableFunc(f.labels, func(a, b canonicalLabel) int { return bytes.Compare(a.name, b.name) })
	f.text = append(f.text[:0], '{')
	for i, l := range f.labels {
		if i > 0 {
			f.text = append(f.text, ',')
		}
		f.text = append(append(append(f.text, l.name...), ':'), l.value...)
	}
	f.text = append(f.text, '}')
	return f.text
}

// canonicalString returns a JSON string with only the required escapes.
func canonicalString(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	return appendQuoted(nil, unquote(quoted))
}

// add adds h and reports whether it is new.
func (s *hashSet) add(h uint64) (bool, error) {
	g := &s.segments[h>>60]
	if 4*(g.n+1) > 3*len(g.slots) {
		if err := s.grow(g); err != nil {
			return false, err
		}
	}
	return g.add(h), nil
}

func (g *hashSegment) add(h uint64) bool {
	mask := uint64(len(g.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch g.slots[i] {
		case h:
			return false
		case 0:
			g.slots[i] = h
			g.n++
			return true
		}
	}
}

// grow doubles a segment. Meanwhile the old one counts too.
func (s *hashSet) grow(g *hashSegment) error {
	slots := max(64, 2*len(g.slots))
	if s.used+int64(slots)*8 > s.allowed {
		return &BudgetError{What: "duplicates", Allowed: s.allowed}
	}
	s.used += int64(slots-len(g.slots)) * 8
	larger := hashSegment{slots: make([]uint64, slots)}
	for _, h := range g.slots {
		if h != 0 {
			larger.add(h)
		}
	}
	*g = larger
	return nil
}
