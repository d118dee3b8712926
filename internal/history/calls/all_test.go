package calls

import (
	"testing"
	"time"
)

// TestAll has the calls of all statements at the edges of ranges, and none of slots and intervals that are not in use.
func TestAll(t *testing.T) {
	s := newSample(t, 3)
	count := func(from, to time.Time) (n int) {
		for digest, c := range s.All(from, to) {
			if digest == [16]byte{} || c.End.Before(from) || !c.End.Before(to) {
				t.Errorf("a call of %x at %v, of %v to %v", digest, c.End, from, to)
			}
			n++
		}
		return n
	}
	start := noon.Truncate(interval)
	if n := count(time.Unix(0, 0), start.Add(interval)); n != 0 {
		t.Errorf("%d calls of an empty sample", n)
	}
	for i, at := range []time.Time{start, start.Add(interval - 1), start.Add(interval), start.Add(2 * interval)} {
		s.Observe(called(i+1, at))
	}
	for _, c := range []struct {
		from, to time.Duration
		want     int
	}{
		{0, 3 * interval, 4},
		{0, interval, 2},
		{0, interval + 1, 3},
		{1, interval, 1},
		{interval - 1, interval, 1},
		{interval, interval + 1, 1},
		{1, 2, 0},
		{2 * interval, 3 * interval, 1},
		{-time.Hour, 3*interval - 1, 4},
		{interval, interval, 0},
	} {
		if got := count(start.Add(c.from), start.Add(c.to)); got != c.want {
			t.Errorf("%v to %v: %d calls, want %d", c.from, c.to, got, c.want)
		}
	}
	// The sample covers three intervals: those before the end of the range that it covers are not read.
	if got := count(start, start.Add(6*interval)); got != 0 {
		t.Errorf("%d calls of intervals that others would replace", got)
	}
	n := 0
	for range s.All(start, start.Add(3*interval)) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d calls after the first one", n)
	}
}

// TestTagRoom adds values after another goroutine may have taken the room: the room is not exceeded.
func TestTagRoom(t *testing.T) {
	c, err := NewTagCounts([]string{"route"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	k := &c.keys[0]
	a, b := k.add("a", 2), k.add("b", 2)
	other := (*k.values.Load())[OtherTag]
	if a == b || a == other || b == other {
		t.Error("there is no room")
	}
	if k.add("a", 2) != a || k.add("c", 2) != other || k.find([]byte("c"), 2) != other || k.find([]byte("b"), 2) != b {
		t.Error("the room is exceeded, or a value has two counts")
	}
}
