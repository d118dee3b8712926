package history

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/stmtstats"
)

// The series of a Key, by their number in an entry. The errors of each class follow.
const (
	seriesQueries = iota
	seriesRowsSent
	seriesRowsAffected
	seriesBytesSent
	seriesDuration
	seriesErrors // and ErrorClasses-1 more

	seriesPerKey = seriesErrors + stmtstats.ErrorClasses
)

// Names of metrics.
const (
	nameQueries      = "tare_queries_total"
	nameRowsSent     = "tare_query_rows_sent_total"
	nameRowsAffected = "tare_query_rows_affected_total"
	nameBytesSent    = "tare_query_bytes_sent_total"
	nameDuration     = "tare_query_duration_seconds"
	nameErrors       = "tare_query_errors_total"
	nameInfo         = "tare_digest_info"
)

// metricNames are all of them.
var metricNames = []string{nameQueries, nameRowsSent, nameRowsAffected, nameBytesSent, nameDuration, nameErrors, nameInfo}

// nameOf returns the metric of a series.
func nameOf(series int) string {
	if series >= seriesErrors {
		return nameErrors
	}
	return metricNames[series]
}

// Names of labels.
const (
	labelDigest  = "digest"
	labelSchema  = "schema"
	labelUser    = "user"
	labelBackend = "backend"
	labelClass   = "class"
	labelText    = "text"
)

// ownLabel says whether a label is one that the history itself gives to series.
func ownLabel(name string) bool {
	switch name {
	case labelDigest, labelSchema, labelUser, labelBackend, labelClass, labelText:
		return true
	}
	return strings.HasPrefix(name, "__")
}

// A labeller makes the labels of series.
type labeller struct {
	common  [][2]string // of all series
	builder labels.ScratchBuilder
}

func newLabeller(common map[string]string) *labeller {
	l := &labeller{builder: labels.NewScratchBuilder(len(common) + 6)}
	for _, name := range slices.Sorted(maps.Keys(common)) {
		l.common = append(l.common, [2]string{name, common[name]})
	}
	return l
}

// series returns the labels of one of a Key's series. Empty ones are left out, which to PromQL is
// the same.
func (l *labeller) series(kind stmtstats.Kind, k *stmtstats.Key, series int) labels.Labels {
	l.addSeries(kind, k, series)
	return l.end()
}

func (l *labeller) addSeries(kind stmtstats.Kind, k *stmtstats.Key, series int) {
	l.begin(nameOf(series))
	digest := kind.String()
	if kind == stmtstats.Tracked {
		digest = hex.EncodeToString(k.Digest[:])
	}
	l.add(labelDigest, digest)
	l.add(labelSchema, k.Schema)
	l.add(labelUser, k.User)
	l.add(labelBackend, k.Backend)
	if series >= seriesErrors {
		l.add(labelClass, stmtstats.ErrorClass(series-seriesErrors).String())
	}
}

// info returns the labels of the series that carries a digest's text.
func (l *labeller) info(digest [16]byte, text string) labels.Labels {
	l.addInfo(digest, text)
	return l.end()
}

func (l *labeller) addInfo(digest [16]byte, text string) {
	l.begin(nameInfo)
	l.add(labelDigest, hex.EncodeToString(digest[:]))
	l.add(labelText, text)
}

func (l *labeller) begin(name string) {
	l.builder.Reset()
	l.builder.Add(promlabel.MetricNameLabel, name)
	for _, c := range l.common {
		l.builder.Add(c[0], c[1])
	}
}

// add takes any text: names of schemas and users are bytes that a client sent.
func (l *labeller) add(name, value string) {
	if value != "" {
		l.builder.Add(name, strings.ToValidUTF8(value, "\uFFFD"))
	}
}

func (l *labeller) end() labels.Labels {
	l.builder.Sort()
	return l.builder.Labels()
}
