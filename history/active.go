package history

import (
	"fmt"
	"iter"
	"math/bits"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Active answers which of a table's series are active: those of Keys that were called lately, under
// the names and labels that an Archive gives them. It is safe for concurrent use, and keeps
// nothing between questions.
type Active struct {
	table  *Table
	labels map[string]string
	idle   time.Duration
}

// NewActive makes an Active. The labels are on every series, as those of ArchiveOptions; a series is
// active for as long as idle after the last call.
func NewActive(t *Table, labels map[string]string, idle time.Duration) (*Active, error) {
	if err := ValidateLabels(labels); err != nil {
		return nil, fmt.Errorf("active series: %w", err)
	}
	if idle <= 0 {
		return nil, fmt.Errorf("active series: idle time %v is not positive", idle)
	}
	return &Active{table: t, labels: labels, idle: idle}, nil
}

// seriesInfo is the bit of an activeKey for the series that has the digest's text, beside those of
// seriesPerKey.
const seriesInfo = seriesPerKey

// An activeKey is a Key some of whose series are wanted.
type activeKey struct {
	Key
	kind   Kind
	wanted uint32 // a bit for each of its series
	text   string // with seriesInfo
}

// ActiveSeries are the series that keep wants. The labels that keep is given and that are yielded are valid until the
// next ones. The table is read once, before the first series is yielded, and is not
// held while they are: what is noted meanwhile is some 100 bytes for each Key with a series that
// is wanted, and its text if that is.
func (a *Active) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		l := newLabeller(a.labels)
		var ls labels.Labels
		for _, k := range a.read(l, keep) {
			for wanted := k.wanted; wanted != 0; wanted &= wanted - 1 {
				if series := bits.TrailingZeros32(wanted); series == seriesInfo {
					l.addInfo(k.Digest, k.text)
				} else {
					l.addSeries(k.kind, &k.Key, series)
				}
				l.overwrite(&ls)
				if !yield(ls) {
					return
				}
			}
		}
	}
}

// read notes which series are wanted.
func (a *Active) read(l *labeller, keep func(labels.Labels) bool) []activeKey {
	var keys []activeKey
	var ls labels.Labels
	told := make(map[[16]byte]struct{}) // digests whose text is a series already
	oldest := a.table.opts.Now().Add(-a.idle)
	err := a.table.Each(func(s *Sample) error {
		if s.Calls == 0 || s.Last.Before(oldest) {
			return nil
		}
		k := activeKey{Key: s.Key, kind: s.Kind}
		for series := range seriesPerKey {
			if !s.has(series) {
				continue
			}
			l.addSeries(s.Kind, &s.Key, series)
			if l.overwrite(&ls); keep(ls) {
				k.wanted |= 1 << series
			}
		}
		if s.Kind == Tracked && s.Text != "" {
			l.addInfo(s.Digest, s.Text)
			if l.overwrite(&ls); keep(ls) {
				if _, known := told[s.Digest]; !known {
					told[s.Digest] = struct{}{}
					k.wanted |= 1 << seriesInfo
					k.text = s.Text
				}
			}
		}
		if k.wanted != 0 {
			keys = append(keys, k)
		}
		return nil
	})
	if err != nil {
		return nil // the table was closed
	}
	return keys
}

// has reports whether there is a series of that number: those that were 0 all the time are not
// written.
func (s *Sample) has(series int) bool {
	switch series {
	case seriesQueries, seriesDuration:
		return true
	case seriesRowsSent:
		return s.RowsSent > 0
	case seriesRowsAffected:
		return s.RowsAffected > 0
	case seriesBytesSent:
		return s.BytesSent > 0
	}
	return s.Errors[series-seriesErrors] > 0
}

// overwrite makes ls the labels that were added. It does not allocate where ls has room.
func (l *labeller) overwrite(ls *labels.Labels) {
	l.builder.Sort()
	l.builder.Overwrite(ls)
}
