package tsblock

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
)

// checkEvery is the number of values between two checks of the context.
const checkEvery = 1024

// errAllPostings reports that the matcher of all series is combined with others.
var errAllPostings = errors.New("the matcher of all series is combined with others")

// Postings returns the series that all matchers match, as Prometheus' PostingsForMatchers does: a label that
// a series does not have is the empty string; no matchers match nothing; and the matcher of an empty name and
// value matches everything.
//
// The matchers of one name are one condition on its values. If the condition requires the label, the lists of
// the values that satisfy it are intersected with the others, the cheapest first; otherwise the lists of the
// values that violate it are subtracted. Lists are charged before they are read.
func (r *Reader) Postings(ctx context.Context, ms ...*labels.Matcher) (*Postings, error) {
	if _, err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if len(ms) == 0 {
		return &Postings{}, nil
	}
	if len(ms) == 1 && ms[0].Name == "" && ms[0].Value == "" {
		r.scratch.known.reset()
		return r.allPostings(ctx)
	}
	if p, err := r.known(ms); p != nil || err != nil {
		return p, err
	}
	p, err := r.selectPostings(ctx, ms)
	if err != nil {
		return nil, err
	}
	return r.recordPostings(p)
}

// selectPostings finds the series that all matchers match.
func (r *Reader) selectPostings(ctx context.Context, ms []*labels.Matcher) (*Postings, error) {
	r.scratch.ranges = r.scratch.ranges[:0]
	var place [8]selection
	selections := place[:0]
	for i, m := range ms {
		if m.Name == "" && m.Value == "" {
			return nil, errAllPostings
		}
		if slices.ContainsFunc(ms[:i], func(o *labels.Matcher) bool { return o.Name == m.Name }) {
			continue
		}
		s, any, err := r.selectValues(ctx, m.Name, ms[i:])
		if err != nil {
			return nil, err
		}
		if s.subtract && !any {
			continue // nothing to subtract
		}
		if !any {
			return &Postings{}, nil
		}
		selections = append(selections, s)
	}
	slices.SortFunc(selections, func(a, b selection) int {
		switch {
		case a.subtract != b.subtract && b.subtract:
			return -1
		case a.subtract != b.subtract:
			return 1
		}
		return cmp.Compare(a.bytes, b.bytes)
	})
	return r.combine(ctx, selections)
}

// combine reads the selections, those to intersect first, and stops when the result is empty.
func (r *Reader) combine(ctx context.Context, selections []selection) (*Postings, error) {
	p := &Postings{most: -1}
	var sets, less []stream
	for i := range selections {
		s := &selections[i]
		if s.subtract && sets == nil {
			all, err := r.allPostings(ctx)
			if err != nil || all.root == nil {
				return all, err
			}
			sets, p.most = append(sets, all.root), all.most
		}
		refs, err := r.expand(ctx, s)
		if err != nil {
			return nil, err
		}
		switch {
		case s.subtract:
			less = append(less, &list{refs})
		case len(refs) == 0:
			return &Postings{}, nil
		default:
			sets = append(sets, &list{refs})
			if p.most < 0 || len(refs) < p.most {
				p.most = len(refs)
			}
		}
	}
	if sets == nil { // every matcher matches everything
		return r.allPostings(ctx)
	}
	p.root = sets[0]
	if len(sets) > 1 {
		p.root = &intersection{sets}
	}
	if len(less) > 0 {
		p.root = &difference{p.root, less}
	}
	return p, nil
}

// allPostings returns all series of the block.
func (r *Reader) allPostings(ctx context.Context) (*Postings, error) {
	n := r.head.name("")
	if n == nil {
		return &Postings{}, nil
	}
	from := len(r.scratch.ranges)
	s := selection{from: from, to: from}
	if err := r.lookUp(ctx, &s, n, []string{""}, func(string) bool { return true }); err != nil {
		return nil, err
	}
	refs, err := r.expand(ctx, &s)
	r.scratch.ranges = r.scratch.ranges[:from]
	if err != nil || len(refs) == 0 {
		return &Postings{}, err
	}
	return &Postings{root: &list{refs}, most: len(refs)}, nil
}

// A condition is the conjunction of the matchers of one label name.
type condition struct {
	name     string
	ms       []*labels.Matcher // of any name: those of other names are skipped
	required bool              // the label must be present
}

// matches reports whether all matchers of the name match.
func (c *condition) matches(value string) bool {
	for _, m := range c.ms {
		if m.Name == c.name && !m.Matches(value) {
			return false
		}
	}
	return true
}

// matchesNonempty reports whether m matches every nonempty string.
func matchesNonempty(m *labels.Matcher) bool {
	switch m.Type {
	case labels.MatchRegexp:
		return m.Value == ".*" || m.Value == ".+"
	case labels.MatchNotEqual, labels.MatchNotRegexp:
		return m.Value == ""
	}
	return false
}

// selectValues selects the lists of a label name for the matchers of that name among ms. any is false if
// there are no such lists.
func (r *Reader) selectValues(ctx context.Context, name string, ms []*labels.Matcher) (s selection, any bool, err error) {
	s.from = len(r.scratch.ranges)
	s.to = s.from
	c := condition{name: name, ms: ms}
	all := true // every value satisfies the condition
	for _, m := range ms {
		if m.Name == name {
			if m.Type == labels.MatchNotRegexp && m.Value == ".*" {
				return s, false, nil // no value satisfies the condition
			}
			c.required = c.required || !m.Matches("")
			all = all && matchesNonempty(m)
		}
	}
	s.subtract = !c.required
	n := r.head.name(name)
	if n == nil || s.subtract && all {
		return s, false, nil
	}
	wanted := c.matches
	if s.subtract {
		wanted = func(value string) bool { return !c.matches(value) }
	}
	if all {
		wanted = nil
	}
	if values, ok := c.values(s.subtract); ok {
		err = r.lookUp(ctx, &s, n, values, wanted)
	} else {
		err = r.scan(ctx, &s, n, c.prefix(s.subtract), wanted)
	}
	return s, s.lists > 0, err
}

// values returns a superset of the selected values if the matchers enumerate them: the values of an equality,
// or of a regular expression that is a set; with subtract, the values of negations of these.
func (c *condition) values(subtract bool) ([]string, bool) {
	var values []string
	for _, m := range c.ms {
		if m.Name != c.name {
			continue
		}
		var some []string
		switch {
		case m.Type == labels.MatchEqual && !subtract, m.Type == labels.MatchNotEqual && subtract:
			some = []string{m.Value}
		case m.Type == labels.MatchRegexp && !subtract, m.Type == labels.MatchNotRegexp && subtract:
			if some = m.SetMatches(); len(some) == 0 {
				some = nil
			}
		}
		switch {
		case some == nil && subtract:
			return nil, false // this matcher subtracts other values
		case some == nil:
		case subtract:
			values = append(values, some...)
		default:
			return some, true // the other matchers are tested on these values
		}
	}
	return values, values != nil
}

// prefix returns a prefix of all selected values.
func (c *condition) prefix(subtract bool) string {
	longest, of := "", 0
	for _, m := range c.ms {
		if m.Name != c.name {
			continue
		}
		of++
		if p := m.Prefix(); len(p) > len(longest) && (m.Type == labels.MatchRegexp && !subtract || m.Type == labels.MatchNotRegexp && subtract) {
			longest = p
		}
	}
	if subtract && of > 1 {
		return "" // the other matchers subtract other values
	}
	return longest
}

// lookUp selects the lists of those of the values that exist and for which wanted returns true. It sorts a
// copy of values, which may belong to a matcher.
func (r *Reader) lookUp(ctx context.Context, s *selection, n *labelName, values []string, wanted func(string) bool) error {
	if !slices.IsSorted(values) {
		values = slices.Clone(values)
		slices.Sort(values)
	}
	v := valueSearch{name: n, run: -1}
	defer r.scratch.local.reset()
	for i, value := range values {
		if i > 0 && values[i-1] == value || wanted != nil && !wanted(value) {
			continue
		}
		found, err := v.find(ctx, r, value)
		if err == nil && found {
			err = r.choose(s, v.table.off, v.table.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A valueSearch finds values of a label in ascending order.
type valueSearch struct {
	name  *labelName
	table tableWalk
	run   int  // current run of the walk; -1 before the first
	have  bool // the walk is at a value: the last one searched for, or a greater one
}

// find reports whether the value exists, and then positions table at it.
func (v *valueSearch) find(ctx context.Context, r *Reader, value string) (bool, error) {
	if value > v.name.last {
		return false, nil
	}
	switch run := v.name.run(value); {
	case run < 0:
		return false, nil
	case v.run < 0:
		v.table, v.run = r.walkTable(v.name, run, slab.Postings, pageSize), run
	case run != v.run:
		v.table.jump(v.name, run)
		v.run, v.have = run, false
	}
	for !v.have || string(v.table.value) < value {
		var err error
		if v.have, err = v.table.next(ctx); err != nil || !v.have {
			return false, err
		}
	}
	return string(v.table.value) == value, nil
}

// scan selects the lists of the values with a prefix for which wanted returns true, or all if wanted is nil.
func (r *Reader) scan(ctx context.Context, s *selection, n *labelName, prefix string, wanted func(string) bool) error {
	return r.eachValue(ctx, n, prefix, slab.Postings, func(value string, off, size int64) (bool, error) {
		if wanted != nil && !wanted(value) {
			return true, nil
		}
		return true, r.choose(s, off, size)
	})
}
