package tsblock

import "math"

// Postings are ascending series references: the lists selected by matchers, combined while iterating. They
// are valid until their Reader is closed, and can be iterated once.
type Postings struct {
	root  stream // nil: empty
	at    uint32
	begun bool
	ended bool
	most  int
}

// A stream is a set of references.
type stream interface {
	// seek returns the first reference that is not less than ref. Successive calls must not pass smaller
	// references.
	seek(ref uint32) (uint32, bool)
}

// Next advances to the next reference and reports whether there is one. It does not allocate.
func (p *Postings) Next() bool {
	if !p.begun {
		return p.Seek(0)
	}
	if p.at == math.MaxUint32 {
		p.ended = true
	}
	return !p.ended && p.find(p.at+1)
}

// Seek advances to the first reference that is not less than ref, unless the current one satisfies that, and
// reports whether there is one. It does not allocate.
func (p *Postings) Seek(ref uint32) bool {
	if p.ended || p.begun && p.at >= ref {
		return !p.ended
	}
	p.begun = true
	return p.find(ref)
}

func (p *Postings) find(ref uint32) bool {
	if p.root == nil {
		p.ended = true
		return false
	}
	at, ok := p.root.seek(ref)
	p.at, p.ended = at, !ok
	return ok
}

// At returns the current reference.
func (p *Postings) At() uint32 { return p.at }

// Most returns an upper bound of the number of references.
func (p *Postings) Most() int { return p.most }

// A list is a set of references in memory.
type list struct {
	refs []uint32 // ascending
}

// seek uses galloping search: near references take a few steps, far ones a number logarithmic in their
// distance.
func (l *list) seek(ref uint32) (uint32, bool) {
	refs := l.refs
	if len(refs) == 0 {
		return 0, false
	}
	if refs[0] >= ref {
		return refs[0], true
	}
	// refs[lo] < ref; refs[hi], if it exists, is not.
	lo, hi := 0, 1
	for hi < len(refs) && refs[hi] < ref {
		lo, hi = hi, 2*hi
	}
	hi = min(hi, len(refs))
	for lo+1 < hi {
		if mid := int(uint(lo+hi) >> 1); refs[mid] < ref {
			lo = mid
		} else {
			hi = mid
		}
	}
	l.refs = refs[hi:]
	if len(l.refs) == 0 {
		return 0, false
	}
	return l.refs[0], true
}

// An intersection is the intersection of its sets. The first should be the smallest.
type intersection struct{ sets []stream }

func (x *intersection) seek(ref uint32) (uint32, bool) {
	agreed := 0
	for i := 0; ; i = (i + 1) % len(x.sets) {
		at, ok := x.sets[i].seek(ref)
		if !ok {
			return 0, false
		}
		if at == ref && agreed > 0 {
			agreed++
		} else {
			ref, agreed = at, 1
		}
		if agreed == len(x.sets) {
			return ref, true
		}
	}
}

// A difference is the set from without the sets less.
type difference struct {
	from stream
	less []stream
}

func (d *difference) seek(ref uint32) (uint32, bool) {
next:
	for {
		at, ok := d.from.seek(ref)
		if !ok {
			return 0, false
		}
		for _, l := range d.less {
			if have, ok := l.seek(at); ok && have == at {
				if at == math.MaxUint32 {
					return 0, false
				}
				ref = at + 1
				continue next
			}
		}
		return at, true
	}
}
