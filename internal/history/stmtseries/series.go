package stmtseries

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A Metric is the name of a series: that of a stmtstats.Counter up to Errors, or Info.
type Metric int

// The metrics that differ from those of other counters, and Info.
const (
	Queries  = Metric(stmtstats.Calls)
	Duration = Metric(stmtstats.Nanos)  // a native histogram; the others are floats
	Errors   = Metric(stmtstats.Errors) // one series per class
	Info     = Errors + 1               // one series per digest

	NumMetrics = int(Info) + 1

	// PerKey is the number of series of a Key.
	PerKey = stmtstats.NumCounters
)

// Metrics of a Key.
var (
	// Counters are the counters; the sum of the durations is that of the histograms.
	Counters = slices.DeleteFunc(ofKey(), func(m Metric) bool { return m == Duration })

	OfKey = ofKey()
)

func ofKey() (all []Metric) {
	for m := range Info {
		all = append(all, m)
	}
	return all
}

// String returns the name of the metric.
func (m Metric) String() string {
	if m == Info {
		return "tare_digest_info"
	}
	return m.counter().Info().Metric
}

// Help describes the metric.
func (m Metric) Help() string {
	if m == Info {
		return "1; text of a digest, with ? for its literals."
	}
	return m.counter().Info().Help
}

// counter returns the counter of a metric, of Errors that of the first class.
func (m Metric) counter() stmtstats.Counter { return stmtstats.Counter(m) }

// Labels returns the names of the labels of the metric's series, besides those that all series have.
func (m Metric) Labels() []string {
	switch m {
	case Info:
		return []string{LabelDigest, LabelText}
	case Errors:
		return []string{LabelDigest, LabelSchema, LabelUser, LabelBackend, LabelClass}
	}
	return []string{LabelDigest, LabelSchema, LabelUser, LabelBackend}
}

// Counter returns the counter of a series: not of Duration or Info. The class is that of Errors, and 0 for others.
func (m Metric) Counter(class stmtstats.ErrorClass) stmtstats.Counter {
	if m == Duration || m == Info {
		panic("BUG: stmtseries: " + m.String() + " counts nothing")
	}
	return m.counter() + stmtstats.Counter(class)
}

// Of returns the metric of a Key's series with a number, which is that of its counter.
func Of(number int) Metric { return min(Metric(number), Errors) }

// Names of labels.
const (
	LabelDigest  = "digest"
	LabelSchema  = "schema"
	LabelUser    = "user"
	LabelBackend = "backend"
	LabelClass   = "class"
	LabelText    = "text"

	// LabelTag and LabelValue are those of counts by sqlcommenter tags.
	LabelTag   = "tag"
	LabelValue = "value"
)

// IsReserved reports whether a label has a meaning for a Labeller or PromQL.
func IsReserved(name string) bool {
	switch name {
	case LabelDigest, LabelSchema, LabelUser, LabelBackend, LabelClass, LabelText:
		return true
	}
	return strings.HasPrefix(name, "__")
}

// A Labeller builds the labels of series.
type Labeller struct {
	common  [][2]string // of all series
	builder labels.ScratchBuilder

	digest [16]byte
	hex    string // of digest, which consecutive series share; "": none
}

// NewLabeller returns a Labeller of series that all have these labels.
func NewLabeller(common map[string]string) *Labeller {
	l := &Labeller{builder: labels.NewScratchBuilder(len(common) + 6)}
	for _, name := range slices.Sorted(maps.Keys(common)) {
		l.common = append(l.common, [2]string{name, common[name]})
	}
	return l
}

// SetSeries sets the labels of one of a Key's series. Empty ones are left out, which to PromQL is the same.
func (l *Labeller) SetSeries(kind stmtstats.Kind, k *stmtstats.Key, number int) {
	l.reset(Of(number))
	digest := kind.String()
	if kind == stmtstats.Tracked {
		if l.hex == "" || l.digest != k.Digest {
			l.digest, l.hex = k.Digest, hex.EncodeToString(k.Digest[:])
		}
		digest = l.hex
	}
	l.add(LabelDigest, digest)
	l.add(LabelSchema, k.Schema)
	l.add(LabelUser, k.User)
	l.add(LabelBackend, k.Backend)
	if number >= int(Errors) {
		l.add(LabelClass, stmtstats.Counter(number).Class().String())
	}
	l.builder.Sort()
}

// MaxLabelText is the maximum length of a text in a label, in bytes: receivers of remote write reject longer values, those of
// Mimir from 2,048 bytes on.
const MaxLabelText = 2047

// SetInfo sets the labels of the series that has a digest's text, or its beginning if it is longer than MaxLabelText.
func (l *Labeller) SetInfo(digest [16]byte, text string) {
	l.reset(Info)
	l.add(LabelDigest, hex.EncodeToString(digest[:]))
	if end := MaxLabelText; len(text) > end {
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	l.add(LabelText, text)
	l.builder.Sort()
}

// SetTag sets the labels of a series of counts by a tag.
func (l *Labeller) SetTag(metric, tag, value string) {
	l.resetTo(metric)
	l.add(LabelTag, tag)
	l.add(LabelValue, value)
	l.builder.Sort()
}

func (l *Labeller) reset(m Metric) { l.resetTo(m.String()) }

func (l *Labeller) resetTo(metric string) {
	l.builder.Reset()
	l.builder.Add(promlabel.MetricNameLabel, metric)
	for _, c := range l.common {
		l.builder.Add(c[0], c[1])
	}
}

// add replaces bytes that are not UTF-8: names of schemas and users are bytes from clients.
func (l *Labeller) add(name, value string) {
	if value != "" {
		l.builder.Add(name, strings.ToValidUTF8(value, "\uFFFD"))
	}
}

// Labels returns the labels that were set.
func (l *Labeller) Labels() labels.Labels { return l.builder.Labels() }

// Overwrite sets ls to the labels. It does not allocate if ls has enough capacity.
func (l *Labeller) Overwrite(ls *labels.Labels) { l.builder.Overwrite(ls) }

// ParseDigest parses the value of LabelDigest of a Key.
func ParseDigest(text string) (digest [16]byte, err error) {
	if len(text) == hex.EncodedLen(len(digest)) {
		if _, err := hex.Decode(digest[:], []byte(text)); err == nil {
			return digest, nil
		}
	}
	return digest, fmt.Errorf("digest %q: want %d hexadecimal digits", text, hex.EncodedLen(len(digest)))
}
