package tsblock

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
)

// textHeader is the size of a string header.
const textHeader = 16

// A collection is a list of texts that are returned: copies, charged to the query until the reader is closed.
type collection struct {
	reader *Reader
	known  []string // sorted; omitted from texts
	next   int      // in known, behind the last one found
	omit   int      // texts that were omitted
	texts  []string
}

// has reports whether a text is known. In ascending order, known texts are found without a search.
func (c *collection) has(text string) bool {
	if c.next < len(c.known) && c.known[c.next] == text {
		c.next++
		return true
	}
	i, ok := slices.BinarySearch(c.known, text)
	if ok {
		c.next = i + 1
	}
	return ok
}

// full reports whether there are as many texts as limit, known ones included.
func (c *collection) full(limit int) bool { return limit > 0 && len(c.texts)+c.omit >= limit }

func (c *collection) add(text string) error {
	if c.has(text) {
		c.omit++
		return nil
	}
	if err := c.reader.account.reserve(slab.Values, int64(len(text))+2*textHeader); err != nil {
		return err
	}
	c.texts = append(c.texts, strings.Clone(text))
	return nil
}

// LabelNames returns the sorted names of the labels of the series that all matchers match; without matchers,
// all names. limit bounds their number; 0 is no limit. The names are copies, charged to the query until the
// reader is closed.
func (r *Reader) LabelNames(ctx context.Context, limit int, ms ...*labels.Matcher) ([]string, error) {
	h, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	c := collection{reader: r}
	if len(ms) == 0 {
		for i := range h.names {
			if n := &h.names[i]; n.name != "" && (limit <= 0 || len(c.texts) < limit) {
				if err := c.add(n.name); err != nil {
					return nil, err
				}
			}
		}
		return c.texts, nil
	}
	p, err := r.Postings(ctx, ms...)
	if err != nil {
		return nil, err
	}
	err = r.collect(ctx, &c, p, func(slots []uint32, take func(symbol uint32) error) error {
		for i := 0; i < len(slots); i += 2 {
			if err := take(slots[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return limited(c.texts, limit), nil
}

// limited sorts texts, removes duplicates, and cuts the result at limit.
func limited(texts []string, limit int) []string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if limit > 0 && len(texts) > limit {
		texts = texts[:limit]
	}
	return texts
}

// collect reads the symbols of all series of p, calls pick to take some of each, and collects their texts.
func (r *Reader) collect(ctx context.Context, c *collection, p *Postings, pick func(slots []uint32, take func(uint32) error) error) error {
	s := r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, SkipChunks: true})
	set := &r.scratch.symbols
	set.reset()
	take := func(symbol uint32) error {
		_, err := set.slot(r, symbol)
		return err
	}
	if err := s.each(ctx, func() error { return pick(r.scratch.slots, take) }); err != nil {
		return err
	}
	return r.resolveSymbols(ctx, set, func(text []byte) (string, error) { return "", c.add(view(text)) })
}

// LabelValues returns the sorted values of a label in the series that all matchers match; without matchers,
// all values. limit bounds their number; 0 is no limit. The values are copies, charged to the query until the
// reader is closed.
func (r *Reader) LabelValues(ctx context.Context, name string, limit int, ms ...*labels.Matcher) ([]string, error) {
	return r.MoreLabelValues(ctx, name, nil, limit, ms...)
}

// MoreLabelValues is LabelValues without known values, which are sorted: where many blocks have the same values, each is
// copied once, and matchers are evaluated in blocks with unknown values alone. Together with known ones the result has
// the first values up to limit.
func (r *Reader) MoreLabelValues(ctx context.Context, name string, known []string, limit int, ms ...*labels.Matcher) ([]string, error) {
	h, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	n := h.name(name)
	if n == nil || name == "" {
		return nil, nil
	}
	others := slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name != name })
	own := condition{name: name, ms: ms}
	c := collection{reader: r, known: known}
	if !others {
		err := r.eachValue(ctx, n, own.prefix(false), slab.Values, func(value string, _, _ int64) (bool, error) {
			if !own.matches(value) {
				return true, nil
			}
			if err := c.add(value); err != nil {
				return false, err
			}
			return !c.full(limit), nil
		})
		return c.texts, err
	}
	if len(known) > 0 {
		unknown := false
		err := r.eachValue(ctx, n, own.prefix(false), slab.Values, func(value string, _, _ int64) (bool, error) {
			unknown = own.matches(value) && !c.has(value)
			return !unknown, nil
		})
		if err != nil || !unknown {
			return nil, err
		}
		c.next = 0
	}
	p, err := r.Postings(ctx, ms...)
	if err != nil || p.root == nil {
		return nil, err
	}
	// Read either the series or the lists of all values, whichever is less.
	if int64(p.most)*entryGuess < 4*int64(r.block.meta.Stats.NumSeries)+2*listFrame*int64(n.values) {
		return r.valuesOfSeries(ctx, &c, name, limit, p)
	}
	return r.valuesOfLists(ctx, &c, n, limit, p, own)
}

// valuesOfSeries collects the values of a label from the entries of series.
func (r *Reader) valuesOfSeries(ctx context.Context, c *collection, name string, limit int, p *Postings) ([]string, error) {
	// A name may have several symbols in an index; cache whether a symbol is the name.
	is := map[uint32]bool{}
	var one symbolSet
	err := r.collect(ctx, c, p, func(slots []uint32, take func(uint32) error) error {
		for i := 0; i < len(slots); i += 2 {
			its, known := is[slots[i]]
			if !known {
				one.reset()
				if _, err := one.slot(r, slots[i]); err != nil {
					return err
				}
				err := r.resolveSymbols(ctx, &one, func(text []byte) (string, error) {
					its = string(text) == name
					return "", nil
				})
				if err != nil {
					return err
				}
				is[slots[i]] = its
			}
			if its {
				return take(slots[i+1])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return limited(c.texts, limit), nil
}

// valuesOfLists collects the values of a label whose lists intersect p.
func (r *Reader) valuesOfLists(ctx context.Context, c *collection, n *labelName, limit int, p *Postings, own condition) ([]string, error) {
	buffer, err := r.alloc(slab.Postings, p.most*4)
	if err != nil {
		return nil, err
	}
	refs := refsIn(buffer)
	for p.next() {
		refs = append(refs, p.at)
	}
	read := int64(0)
	err = r.eachValue(ctx, n, own.prefix(false), slab.Values, func(value string, off, size int64) (bool, error) {
		if !own.matches(value) {
			return true, nil
		}
		if c.has(value) { // whatever its list has
			c.omit++
			return !c.full(limit), nil
		}
		r.scratch.ranges = r.scratch.ranges[:0]
		var s selection
		if err := r.choose(&s, off, size); err != nil {
			return false, err
		}
		lent := len(r.slabs)
		its, err := r.expand(ctx, &s)
		if err != nil {
			return false, err
		}
		if read += int64(len(its)); read > r.head.mostSeries() {
			return false, r.block.corrupt("index", off, tooManyPostings)
		}
		ok := overlap(its, refs)
		r.freeAfter(slab.Postings, lent)
		if !ok {
			return true, nil
		}
		if err := c.add(value); err != nil {
			return false, err
		}
		return !c.full(limit), nil
	})
	return c.texts, err
}

// overlap reports whether two lists have a reference in common.
func overlap(a, b []uint32) bool {
	x, y := list{a}, list{b}
	for ref, ok := x.seek(0); ok; ref, ok = x.seek(ref) {
		at, ok := y.seek(ref)
		if !ok || at == ref {
			return ok
		}
		ref = at
	}
	return false
}
