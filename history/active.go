package history

import (
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/store/tsblock"
)

// An Active lists the active series of a table: those of Keys called recently, with the names and labels that
// an Archive gives them. It is safe for concurrent use.
//
// It keeps what a response would otherwise compute again for each shard: the hash of each series' labels, and
// the time of each Key's last call. Changes since the previous request are read at the next request, by the
// write counts that entries keep in any case. Statements pay nothing for it, nothing is done between
// requests, and a response includes all calls that finished before the request.
type Active struct {
	table  *stmtstats.Table
	labels map[string]string
	known  catalog
}

// NewActive returns an Active. The labels are on every series, as those of ArchiveOptions. A series is active
// for idle after the last call, and up to 1/1200 of that longer.
func NewActive(t *stmtstats.Table, labels map[string]string, idle time.Duration) (*Active, error) {
	if err := ValidateLabels(labels); err != nil {
		return nil, fmt.Errorf("active series: %w", err)
	}
	if idle <= 0 {
		return nil, fmt.Errorf("active series: idle time %v is not positive", idle)
	}
	return &Active{table: t, labels: labels, known: newCatalog(t, labels, idle)}, nil
}

// Labels returns the labels that all series have.
func (a *Active) Labels() map[string]string { return a.labels }

// ActiveSeries returns the series that keep accepts. The labels passed to keep and yielded are valid until
// the next ones. The series are determined before the first is yielded, in 16 bytes per series, so that a
// slow consumer blocks neither the table nor other requests.
func (a *Active) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return a.ActiveShard(tsblock.Shard{}, keep)
}

// ActiveShard is ActiveSeries of one shard, by labels.StableHash. Of other shards' series only the hashes are
// read.
func (a *Active) ActiveShard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		l := stmtseries.NewLabeller(a.labels)
		var ls labels.Labels
		var key stmtstats.Key // of the previous series; most consecutive series share it
		var id uint64
		found := false
		reported := make(map[[16]byte]struct{}) // digests whose text was yielded as a series
		for _, s := range a.known.active(shard) {
			number, series := s.place.split()
			if !found || s.id != id {
				if key, found = a.table.KeyAt(number, s.id); !found {
					continue // evicted since
				}
				id = s.id
			}
			if !a.add(l, &key, number, series, id, reported) {
				continue
			}
			if l.Overwrite(&ls); !keep(ls) {
				continue
			}
			if series == seriesInfo {
				reported[key.Digest] = struct{}{}
			}
			if !yield(ls) {
				return
			}
		}
	}
}

// add sets l to the labels of a series. It reports false for a digest's text that was yielded already, or is
// no longer known.
func (a *Active) add(l *stmtseries.Labeller, key *stmtstats.Key, number, series int, id uint64, reported map[[16]byte]struct{}) bool {
	if series != seriesInfo {
		l.SetSeries(a.known.kind(number), key, series)
		return true
	}
	if _, is := reported[key.Digest]; is {
		return false
	}
	text, _ := a.table.TextAt(number, id)
	l.SetInfo(key.Digest, text)
	return text != ""
}

// HeapBytes returns the bytes that an Active keeps between requests: 12 to 24 per series, and at most 112 per
// Key that the table has room for; 0 before the first request.
func (a *Active) HeapBytes() int64 { return a.known.bytes() }
