package rowstream

import "fmt"

// A Lookup assigns values of a column to shards. It is not changed once a filter uses it.
type Lookup struct {
	Name string // of the table that it was read from, for errors

	shards map[string]int
	null   int // shard of NULL, plus 1; 0: none
	bytes  int
}

// Add adds a value; nil is NULL. It returns an error for one that is assigned already.
func (l *Lookup) Add(value []byte, shard int) error {
	if _, known := l.Shard(value); known {
		return fmt.Errorf("the lookup table %s has the value %s twice", l.Name, shown(value))
	}
	l.bytes += len(value)
	if value == nil {
		l.null = shard + 1
		return nil
	}
	if l.shards == nil {
		l.shards = make(map[string]int)
	}
	l.shards[string(value)] = shard
	return nil
}

// Shard returns the shard of a value; known is false for a value without one. It does not allocate.
func (l *Lookup) Shard(value []byte) (shard int, known bool) {
	if value == nil {
		return l.null - 1, l.null > 0
	}
	shard, known = l.shards[string(value)]
	return shard, known
}

// Len returns the number of values, and Bytes the sum of their lengths.
func (l *Lookup) Len() int {
	n := len(l.shards)
	if l.null > 0 {
		n++
	}
	return n
}

// Bytes returns the sum of the lengths of the values.
func (l *Lookup) Bytes() int { return l.bytes }

// Each calls do with each value, in no order, until do returns false.
func (l *Lookup) Each(do func(value []byte, shard int) bool) {
	if l.null > 0 && !do(nil, l.null-1) {
		return
	}
	for v, shard := range l.shards {
		if !do([]byte(v), shard) {
			return
		}
	}
}

// A LookupError is the error for a row whose value has no shard.
type LookupError struct {
	Table string // the lookup table
	Value string // of the row, as shown
}

// Error implements error.
func (e *LookupError) Error() string {
	return fmt.Sprintf("a row has the value %s, which the lookup table %s assigns to no shard (values are compared byte by byte): add it there, and run the same command again", e.Value, e.Table)
}

// shown returns a value for messages.
func shown(value []byte) string {
	if value == nil {
		return "NULL"
	}
	return fmt.Sprintf("%.100q", value)
}
