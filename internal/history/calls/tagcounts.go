package calls

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/querylog"
)

// Bounds of TagCounts.
const (
	MaxTagKeys   = 8
	MaxTagValues = 1000
	maxTagBytes  = 128 // of a value; longer ones count as OtherTag

	// OtherTag is the value of calls whose value has no room.
	OtherTag = "other"
)

// A TagCounts counts calls by the values of some sqlcommenter tags. Each key keeps a bounded number of values: the first ones
// seen; calls with further ones count as OtherTag, and those without the tag have the value "". It is safe for concurrent use.
type TagCounts struct {
	keys   []tagKey
	values int
}

type tagKey struct {
	name string

	values atomic.Pointer[map[string]*tagCount] // replaced, never changed: each statement reads it
	mu     sync.Mutex                           // of those that replace it
}

type tagCount struct{ calls, errors, nanos atomic.Uint64 }

// NewTagCounts returns counts of the values of keys, at most values of each besides "" and OtherTag.
func NewTagCounts(keys []string, values int) (*TagCounts, error) {
	if len(keys) > MaxTagKeys || values < 1 || values > MaxTagValues {
		return nil, fmt.Errorf("%d values of %d tags: want 1 to %d values of at most %d", values, len(keys), MaxTagValues, MaxTagKeys)
	}
	t := &TagCounts{keys: make([]tagKey, len(keys)), values: values}
	for i, name := range keys {
		if name == "" || len(name) > maxTagBytes || !utf8.ValidString(name) || slices.Contains(keys[:i], name) {
			return nil, errors.New("tags: want different names")
		}
		t.keys[i].name = name
		t.keys[i].values.Store(&map[string]*tagCount{"": {}, OtherTag: {}})
	}
	return t, nil
}

// Observe implements gateway.Observer. It does not allocate for known values.
func (t *TagCounts) Observe(r *querylog.Record) {
	for i := range t.keys {
		k := &t.keys[i]
		var value []byte
		for j := range r.Tags {
			if string(r.Tags[j].Key) == k.name {
				value = r.Tags[j].Value
			}
		}
		c := k.find(value, t.values)
		c.calls.Add(1)
		c.nanos.Add(uint64(max(r.Total, 0)))
		if r.ErrorNumber != 0 {
			c.errors.Add(1)
		}
	}
}

// find returns the count of a value, a new one if there is room.
func (k *tagKey) find(value []byte, most int) *tagCount {
	values := *k.values.Load()
	if c := values[string(value)]; c != nil {
		return c
	}
	if len(values) >= most+2 || len(value) > maxTagBytes || !utf8.Valid(value) {
		return values[OtherTag]
	}
	return k.add(string(value), most)
}

// add adds a value unless another goroutine has, or there is no room any more.
func (k *tagKey) add(value string, most int) *tagCount {
	k.mu.Lock()
	defer k.mu.Unlock()
	values := *k.values.Load()
	if c := values[value]; c != nil {
		return c
	}
	if len(values) >= most+2 {
		return values[OtherTag]
	}
	c := &tagCount{}
	more := maps.Clone(values)
	more[value] = c
	k.values.Store(&more)
	return c
}

// HeapBytes returns the bytes charged for the values.
func (t *TagCounts) HeapBytes() (n int64) {
	for i := range t.keys {
		for value := range *t.keys[i].values.Load() {
			n += 96 + int64(len(value)) // of the map, the count and the text
		}
	}
	return n
}

// NumTagMetrics is the number of counters of a value.
const NumTagMetrics = 3

// TagMetrics are the counters of a value, all with the labels tag and value.
var TagMetrics = [NumTagMetrics]struct{ Name, Help string }{
	{"tare_tag_queries_total", "Calls by the value of a sqlcommenter tag of option tag-labels: \"\" without the tag, other beyond option tag-values."},
	{"tare_tag_query_errors_total", "Failed calls by the value of a tag."},
	{"tare_tag_query_seconds_total", "Execution time by the value of a tag."},
}

// Each visits the counts of each value of each tag, in the order of TagMetrics.
func (t *TagCounts) Each(visit func(tag, value string, counts [NumTagMetrics]float64)) {
	for i := range t.keys {
		k := &t.keys[i]
		for value, c := range *k.values.Load() {
			visit(k.name, value, [NumTagMetrics]float64{float64(c.calls.Load()), float64(c.errors.Load()), float64(c.nanos.Load()) / 1e9})
		}
	}
}

var tagDescs = func() (descs [NumTagMetrics]*prometheus.Desc) { //nolint:gochecknoglobals // a table
	for i, m := range TagMetrics {
		descs[i] = prometheus.NewDesc(m.Name, m.Help, []string{"tag", "value"}, nil)
	}
	return descs
}()

// Describe implements prometheus.Collector.
func (t *TagCounts) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range tagDescs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (t *TagCounts) Collect(ch chan<- prometheus.Metric) {
	t.Each(func(tag, value string, counts [NumTagMetrics]float64) {
		for i, n := range counts {
			ch <- prometheus.MustNewConstMetric(tagDescs[i], prometheus.CounterValue, n, tag, value)
		}
	})
}
