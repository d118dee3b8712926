package history

import (
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/history/calls"
)

// A tagWriter turns the counts of calls by tags into samples of the same head. The counts start at 0 with the process: the first
// sample of a series follows a zero sample at the previous round.
type tagWriter struct {
	counts  *calls.TagCounts // nil: none
	tracks  map[tagKey]*[calls.NumTagMetrics]tagTrack
	visited int64 // time of the last committed counts, or of the start: series without a sample were 0 then
	pending []pendingTag
}

type tagKey struct{ tag, value string }

// A tagTrack is the state of one series.
type tagTrack struct {
	ref     storage.SeriesRef // 0: unknown to the head
	sampled bool              // the series has a sample of this process
	written int64             // time of the last committed sample
	value   float64           // of that sample
}

// A pendingTag is a sample of the current commit.
type pendingTag struct {
	*tagTrack
	value float64
}

func newTagWriter(counts *calls.TagCounts, start int64) tagWriter {
	return tagWriter{counts: counts, tracks: make(map[tagKey]*[calls.NumTagMetrics]tagTrack), visited: start}
}

// writeTags appends a sample of each count by tags that has changed, or whose last sample becomes too old, and to the next
// instance, if there is one, its first samples.
func (w *writer) writeTags() error {
	if w.tags.counts == nil {
		return nil
	}
	var first error
	w.tags.counts.Each(func(tag, value string, counts [calls.NumTagMetrics]float64) {
		k := tagKey{tag, value}
		err := w.writeTag(k, counts, max(w.tags.visited, w.prev+1, w.last-maxZeroAge.Milliseconds()))
		if err == nil && w.next != nil {
			err = w.next.writeTag(k, counts, 0)
		}
		if err != nil && first == nil {
			w.counts.failures.Add(1)
			first = fmt.Errorf("append counts of tag %s: %w", tag, err)
		}
	})
	return first
}

// writeTag appends the samples of one value of a tag; start is the time of a zero sample before a first one, 0: none.
func (w *writer) writeTag(k tagKey, counts [calls.NumTagMetrics]float64, start int64) error {
	tracks := w.tags.tracks[k]
	if tracks == nil {
		tracks = new([calls.NumTagMetrics]tagTrack)
		w.tags.tracks[k] = tracks
	}
	for m, n := range counts {
		t := &tracks[m]
		if n == 0 || t.sampled && n == t.value && w.last-t.written < RefreshAge.Milliseconds() {
			continue
		}
		zero := int64(0)
		if !t.sampled && start > 0 {
			zero = min(start, w.last-1)
		}
		ref, err := w.put(t.ref, func() labels.Labels {
			w.labels.SetTag(calls.TagMetrics[m].Name, k.tag, k.value)
			return w.labels.Labels()
		}, zero, n, nil)
		if err != nil {
			return err
		}
		t.ref = ref
		w.tags.pending = append(w.tags.pending, pendingTag{t, n})
	}
	return nil
}

// committed records whether the appended samples were committed.
func (t *tagWriter) committed(done bool, at int64) {
	for _, p := range t.pending {
		if done {
			p.sampled, p.written, p.tagTrack.value = true, at, p.value
		}
	}
	if done && len(t.pending) > 0 {
		t.visited = at
	}
	t.pending = t.pending[:0]
}

// restart continues with a reopened head.
func (t *tagWriter) restart() {
	for _, tracks := range t.tracks {
		for i := range tracks {
			tracks[i].ref, tracks[i].written = 0, 0
		}
	}
	t.pending = t.pending[:0]
}

// tagMetricNames returns the names of the series of counts by tags.
func tagMetricNames() (names []string) {
	for _, m := range calls.TagMetrics {
		names = append(names, m.Name)
	}
	return names
}
