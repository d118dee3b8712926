package storegateway

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/tsblock"
)

// A relabeling is what the series of a block gain and lose before they are merged: the block's
// external labels, which win over a series' own of the same name, and the labels that the request
// wants to be without.
//
// Adding labels that no series has can break the order of series in one way alone. Series are
// ordered as their lists of labels are, and two lists that differ at some place go on to do so.
// But where one list is the beginning of the other, {a="1"} and {a="1",c="1"}, an
// external d="1" puts the shorter one behind. Those that begin with it follow it in a row, so a
// stream only has to hold it back until they are through: see stream.
type relabeling struct {
	external []tsblock.Label // sorted by name
	without  []string        // sorted
	last     string          // the greatest name in external; "" when there are none
}

// newRelabeling returns what becomes of a block's series; nil when they stay as they are.
func newRelabeling(external labels.Labels, without []string) *relabeling {
	if external.IsEmpty() && len(without) == 0 {
		return nil
	}
	r := &relabeling{without: slices.Sorted(slices.Values(without))}
	external.Range(func(l labels.Label) {
		if !r.loses(l.Name) {
			r.external = append(r.external, tsblock.Label{Name: l.Name, Value: l.Value})
			r.last = l.Name
		}
	})
	if len(r.external) == 0 && len(r.without) == 0 {
		return nil
	}
	return r
}

func (r *relabeling) loses(name string) bool {
	_, found := slices.BinarySearch(r.without, name)
	return found
}

// shuffles reports whether series with labels of these names may come into another order than
// stream can put right: when one of them is dropped or replaced.
func (r *relabeling) shuffles(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return r.loses(name) || slices.ContainsFunc(r.external, func(l tsblock.Label) bool { return l.Name == name })
	})
}

// appendTo appends the labels that a series with its own labels has. It does not allocate when
// dst has room.
func (r *relabeling) appendTo(dst, own []tsblock.Label) []tsblock.Label {
	add := r.external
	for _, l := range own {
		for len(add) > 0 && add[0].Name < l.Name {
			dst = append(dst, add[0])
			add = add[1:]
		}
		if len(add) > 0 && add[0].Name == l.Name || len(r.without) > 0 && r.loses(l.Name) {
			continue
		}
		dst = append(dst, l)
	}
	return append(dst, add...)
}

// follows reports whether the series with the labels b, which comes after a in the block, comes
// before a once the external labels are added.
func (r *relabeling) follows(a, b []tsblock.Label) bool {
	n := len(a)
	return len(b) > n && b[n].Name < r.last && slices.Equal(a, b[:n])
}

// CompareLabels orders label lists as Prometheus does: by the first name or value that differs,
// and a list before those that begin with it.
func CompareLabels(a, b []tsblock.Label) int {
	for i := range min(len(a), len(b)) {
		x, y := &a[i], &b[i]
		if x.Name != y.Name {
			return strings.Compare(x.Name, y.Name)
		}
		if x.Value != y.Value {
			return strings.Compare(x.Value, y.Value)
		}
	}
	return len(a) - len(b)
}
