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

	"github.com/taredb/tare/history/rollup"
	"github.com/taredb/tare/history/stmtstats"
)

// A Metric is the name of a series.
type Metric int

// The metrics of a Key, and Info.
const (
	Queries Metric = iota
	RowsSent
	RowsAffected
	BytesSent
	Duration // a native histogram; the others are floats
	Errors   // one series per class
	Info     // one series per digest

	NumMetrics = int(iota)

	// PerKey is the number of series of a Key.
	PerKey = int(Errors) + stmtstats.ErrorClasses
)

var metrics = [NumMetrics]struct{ name, help string }{
	Queries:      {"tare_queries_total", "Finished statements."},
	RowsSent:     {"tare_query_rows_sent_total", "Rows sent to clients."},
	RowsAffected: {"tare_query_rows_affected_total", "Rows changed."},
	BytesSent:    {"tare_query_bytes_sent_total", "Bytes of the responses, packet headers included."},
	Duration:     {"tare_query_duration_seconds", "Statement durations, schema 5: quantiles within 2.2 %."},
	Errors:       {"tare_query_errors_total", "Failed statements, by class of error."},
	Info:         {"tare_digest_info", "1; text of a digest, with ? for its literals."},
}

// Metrics of a Key.
var (
	// Counters are the counters; the sum of the durations is that of the histograms.
	Counters = []Metric{Queries, RowsSent, RowsAffected, BytesSent, Errors}

	OfKey = append(Counters[:len(Counters):len(Counters)], Duration)
)

// String returns the name of the metric.
func (m Metric) String() string { return metrics[m].name }

// Help describes the metric.
func (m Metric) Help() string { return metrics[m].help }

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

// Count returns the field of a counter: not of Duration or Info.
func (m Metric) Count(c *rollup.Counts, class stmtstats.ErrorClass) *uint64 {
	switch m {
	case Queries:
		return &c.Calls
	case RowsSent:
		return &c.RowsSent
	case RowsAffected:
		return &c.RowsAffected
	case BytesSent:
		return &c.BytesSent
	case Errors:
		return &c.Errors[class]
	}
	panic("BUG: stmtseries: " + m.String() + " counts nothing")
}

// Of returns the metric of a Key's series with a number.
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
		l.add(LabelClass, stmtstats.ErrorClass(number-int(Errors)).String())
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
