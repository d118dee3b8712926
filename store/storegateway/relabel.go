package storegateway

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/store/tsblock"
)

// A relabeling changes the labels of a block's series before they are merged: it adds the block's external
// labels, which override labels of the same name, and drops the labels that the request omits.
//
// Adding labels that no series has can break the order of series in one way only. Series are ordered by their
// label lists, and the order of two lists that differ at some position stays the same. But if one list is a
// prefix of the other, {a="1"} and {a="1",c="1"}, an external d="1" moves the shorter one behind. The lists
// with that prefix follow it directly, so a stream only has to delay it until they have passed: see stream.
type relabeling struct {
	external []tsblock.Label // sorted by name
	without  []string        // sorted
	last     string          // greatest name in external; "" if it is empty
}

// newRelabeling returns the relabeling of a block's series, or nil if it changes nothing.
func newRelabeling(external labels.Labels, without []string) *relabeling {
	if external.IsEmpty() && len(without) == 0 {
		return nil
	}
	r := &relabeling{without: slices.Sorted(slices.Values(without))}
	external.Range(func(l labels.Label) {
		if !r.drops(l.Name) {
			r.external = append(r.external, tsblock.Label{Name: l.Name, Value: l.Value})
			r.last = l.Name
		}
	})
	if len(r.external) == 0 && len(r.without) == 0 {
		return nil
	}
	return r
}

func (r *relabeling) drops(name string) bool {
	_, found := slices.BinarySearch(r.without, name)
	return found
}

// breaksOrder reports whether series with labels of these names may change their order in a way that stream
// cannot repair: when a label is dropped or replaced.
func (r *relabeling) breaksOrder(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return r.drops(name) || slices.ContainsFunc(r.external, func(l tsblock.Label) bool { return l.Name == name })
	})
}

// appendTo appends the labels of a series whose own labels in the block are own. It does not allocate if dst
// has room.
func (r *relabeling) appendTo(dst, own []tsblock.Label) []tsblock.Label {
	add := r.external
	for _, l := range own {
		for len(add) > 0 && add[0].Name < l.Name {
			dst = append(dst, add[0])
			add = add[1:]
		}
		if len(add) > 0 && add[0].Name == l.Name || len(r.without) > 0 && r.drops(l.Name) {
			continue
		}
		dst = append(dst, l)
	}
	return append(dst, add...)
}

// overtakes reports whether the series with labels b, which comes after a in the block, comes before a once the
// external labels are added.
func (r *relabeling) overtakes(a, b []tsblock.Label) bool {
	n := len(a)
	return len(b) > n && b[n].Name < r.last && slices.Equal(a, b[:n])
}

// CompareLabels orders label lists as Prometheus does: by the first name or value that differs, and a prefix
// before the longer list.
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
