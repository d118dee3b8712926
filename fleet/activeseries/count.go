package activeseries

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// CountLabel is the label with the number of series in an item of a Source of counts. In other sources it has
// no special meaning.
const CountLabel = "__count__"

// countBytes is the memory of a value in a counter besides its text: a map entry of a string and a pointer at
// a load of 7/16 to 7/8, and the number that it points to.
const countBytes = 64

// A counter counts the items of one worker by the value of a label.
type counter struct {
	label  string
	budget *budget
	values map[string]*int64
}

// A budget is a number of bytes that several counters share.
type budget struct {
	what    string
	allowed int64
	used    atomic.Int64
}

func (b *budget) reserve(n int64) error {
	if b.used.Add(n) > b.allowed {
		return &BudgetError{What: b.what, Allowed: b.allowed}
	}
	return nil
}

func newCounter(label string, b *budget) *counter {
	return &counter{label: label, budget: b, values: map[string]*int64{}}
}

// add counts an item: as one series or, in a source of counts, as the number that it contains. It does not
// allocate for known values without escapes.
func (c *counter) add(item []byte, counts bool) error {
	var value []byte // an item without the label counts under ""
	count := int64(1)
	for name, v := range Labels(item) {
		switch string(unescaped(name)) {
		case c.label:
			value = unescaped(v)
		case CountLabel:
			if !counts {
				continue
			}
			if k, ok := parseCount(unescaped(v)); ok {
				count = k
			}
		}
	}
	return c.addValue(value, count)
}

func (c *counter) addValue(value []byte, count int64) error {
	p := c.values[string(value)]
	if p == nil {
		if err := c.budget.reserve(countBytes + int64(len(value))); err != nil {
			return err
		}
		p = new(int64)
		c.values[string(value)] = p
	}
	*p = saturatingAdd(*p, count)
	return nil
}

// parseCount parses a decimal number without sign.
func parseCount(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// merge adds the counts of other, which has the same budget, and empties it.
func (c *counter) merge(other *counter) {
	if len(c.values) == 0 {
		c.values, other.values = other.values, nil
		return
	}
	for value, n := range other.values {
		if p := c.values[value]; p != nil {
			*p = saturatingAdd(*p, *n)
			c.budget.used.Add(-countBytes - int64(len(value)))
		} else {
			c.values[value] = n
		}
	}
	other.values = nil
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// A valueCount is a value of the label and its number of series.
type valueCount struct {
	value string
	count int64
}

// largest returns the limit largest counts in descending order, values with equal counts in ascending order.
// It returns all if limit is 0.
func (c *counter) largest(limit int) []valueCount {
	list := make([]valueCount, 0, len(c.values))
	for value, n := range c.values {
		list = append(list, valueCount{value, *n})
	}
	slices.SortFunc(list, func(a, b valueCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.value, b.value))
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit:limit]
	}
	return list
}

// appendItem appends the count as an item with its comma.
func (v valueCount) appendItem(dst []byte, label string) []byte {
	dst = append(dst, ',', '{')
	dst = appendQuoted(dst, label)
	dst = append(dst, ':')
	dst = appendQuoted(dst, v.value)
	dst = append(dst, `,"`+CountLabel+`":"`...)
	dst = strconv.AppendInt(dst, v.count, 10)
	return append(dst, '"', '}')
}

// appendQuoted appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range text { // U+FFFD for invalid UTF-8
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		case r < 0x80:
			dst = append(dst, byte(r))
		default:
			dst = append(dst, string(r)...)
		}
	}
	return append(dst, '"')
}
