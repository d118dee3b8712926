package history

import (
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
	"github.com/taredb/tare/tsblock"
)

// Active answers which of a table's series are active: those of Keys that were called lately, under
// the names and labels that an Archive gives them. It is safe for concurrent use.
//
// It keeps what an answer would otherwise have to find out anew for each shard: of each series the hash of its labels,
// of each Key when it was called last. What has changed since the last question is read when the
// next one is asked, by the counts of writes that entries keep anyway: statements pay nothing for it, nobody pays
// for it while nobody asks, and an answer has all that was over when it was asked for.
type Active struct {
	table  *stmtstats.Table
	labels map[string]string
	known  catalog
}

// NewActive makes an Active. The labels are on every series, as those of ArchiveOptions; a series is
// active for as long as idle after the last call, and up to a 1200th of that longer.
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

// ActiveSeries are the series that keep wants. The labels that keep is given and that are yielded are valid until the
// next ones. Which series there are is noted before the first is yielded, in 16 bytes
// for each; neither the table nor other questions wait for who yields slowly.
func (a *Active) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return a.ActiveShard(tsblock.Shard{}, keep)
}

// ActiveShard is ActiveSeries of one shard, by labels.StableHash. Of the other shards' series nothing but
// their hashes is looked at.
func (a *Active) ActiveShard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		l := stmtseries.NewLabeller(a.labels)
		var ls labels.Labels
		var key stmtstats.Key // of the series before, which mostly is the next one's
		var id uint64
		found := false
		told := make(map[[16]byte]struct{}) // digests whose text is a series already
		for _, s := range a.known.noted(shard) {
			number, series := s.place.split()
			if !found || s.id != id {
				if key, found = a.table.KeyAt(number, s.id); !found {
					continue // evicted since
				}
				id = s.id
			}
			if !a.add(l, &key, number, series, id, told) {
				continue
			}
			if l.Overwrite(&ls); !keep(ls) {
				continue
			}
			if series == seriesInfo {
				told[key.Digest] = struct{}{}
			}
			if !yield(ls) {
				return
			}
		}
	}
}

// add gives l the labels of a series. It reports false for a digest's text that is a series already, or is not known any
// more.
func (a *Active) add(l *stmtseries.Labeller, key *stmtstats.Key, number, series int, id uint64, told map[[16]byte]struct{}) bool {
	if series != seriesInfo {
		l.SetSeries(a.known.kind(number), key, series)
		return true
	}
	if _, is := told[key.Digest]; is {
		return false
	}
	text, _ := a.table.TextAt(number, id)
	l.SetInfo(key.Digest, text)
	return text != ""
}

// HeapBytes is what an Active keeps between questions: 12 to 24 bytes a series, and at most 112 for each Key that
// the table has room for; nothing before the first question.
func (a *Active) HeapBytes() int64 { return a.known.bytes() }
