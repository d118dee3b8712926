package remotewrite

import (
	"math"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/taredb/tare/store/promapi"
)

// Bounds of a request. Receivers take at least 32 MiB.
const (
	requestSamples = 2000
	requestBytes   = 1 << 20
)

// A request is one message, encoded and not compressed.
type request struct {
	body           []byte
	samples        int // floats
	histograms     int
	oldest, newest int64 // Unix milliseconds
}

// An encoder makes requests of series. It cuts a series only between two requests.
type encoder struct {
	version  Version
	metadata func(metric string) (model.MetricType, string)

	requests []request
	bytes    int // of the finished requests
	current  request

	symbols map[string]uint32 // of the current request
	table   []byte            // the symbols, as fields of the message
	rows    []byte            // the series of the current request, as fields of the message
	refs    []byte            // scratch
	series  []byte            // fields of the current series
	pending request           // counts of the current series
}

func newEncoder(v Version, metadata func(string) (model.MetricType, string)) *encoder {
	e := &encoder{version: v, metadata: metadata, symbols: make(map[string]uint32)}
	e.restart()
	return e
}

// restart starts a request.
func (e *encoder) restart() {
	e.current = request{oldest: math.MaxInt64, newest: math.MinInt64}
	clear(e.symbols)
	e.table, e.rows = e.table[:0], e.rows[:0]
	if e.version == V2 {
		e.symbol("") // the specification has it first
	}
}

// Numbers of fields: of both messages, and of those of 2.0 and 1.0.
const (
	sampleValue, sampleTime = 1, 2

	requestSymbolsV2, requestSeriesV2                                   = 4, 5
	seriesRefsV2, seriesSamplesV2, seriesHistogramsV2, seriesMetadataV2 = 1, 2, 3, 5
	metadataTypeV2, metadataHelpV2                                      = 1, 3

	requestSeriesV1                                     = 1
	seriesLabelsV1, seriesSamplesV1, seriesHistogramsV1 = 1, 2, 4
	labelNameV1, labelValueV1                           = 1, 2
)

// symbol returns the number of a string in the current request.
func (e *encoder) symbol(s string) uint32 {
	if n, ok := e.symbols[s]; ok {
		return n
	}
	n := uint32(len(e.symbols))
	e.symbols[s] = n // strings of labels are valid as long as the querier, which is open as long as requests are made
	e.table = protowire.AppendTag(e.table, requestSymbolsV2, protowire.BytesType)
	e.table = protowire.AppendString(e.table, s)
	return n
}

// float appends a sample to the current series.
func (e *encoder) float(t int64, v float64) {
	n := 1 + 8 + 1 + protowire.SizeVarint(uint64(t))
	e.series = protowire.AppendTag(e.series, seriesSamplesV2, protowire.BytesType) // as in 1.0
	e.series = protowire.AppendVarint(e.series, uint64(n))
	e.series = protowire.AppendTag(e.series, sampleValue, protowire.Fixed64Type)
	e.series = protowire.AppendFixed64(e.series, math.Float64bits(v))
	e.series = protowire.AppendTag(e.series, sampleTime, protowire.VarintType)
	e.series = protowire.AppendVarint(e.series, uint64(t))
	e.pending.samples++
	e.at(t)
}

func (e *encoder) histogramField() protowire.Number {
	if e.version == V1 {
		return seriesHistogramsV1
	}
	return seriesHistogramsV2
}

// histogram appends a sample to the current series.
func (e *encoder) histogram(t int64, h *histogram.Histogram) {
	e.series = promapi.AppendHistogram(e.series, e.histogramField(), t, h)
	e.pending.histograms++
	e.at(t)
}

// floatHistogram appends a sample to the current series.
func (e *encoder) floatHistogram(t int64, h *histogram.FloatHistogram) {
	e.series = promapi.AppendFloatHistogram(e.series, e.histogramField(), t, h)
	e.pending.histograms++
	e.at(t)
}

func (e *encoder) at(t int64) {
	e.pending.oldest, e.pending.newest = min(e.pending.oldest, t), max(e.pending.newest, t)
}

// begin starts a series, without its labels: those take symbols of the request in which the series ends.
func (e *encoder) begin() {
	e.series = e.series[:0]
	e.pending = request{oldest: math.MaxInt64, newest: math.MinInt64}
}

// full reports whether the current series has as many samples as a request takes. The caller ends it, and begins again.
func (e *encoder) full() bool {
	return e.pending.samples+e.pending.histograms >= requestSamples || len(e.series) >= requestBytes
}

// end adds the current series to a request, unless it has no samples.
func (e *encoder) end(ls labels.Labels) {
	n := e.pending.samples + e.pending.histograms
	if n == 0 {
		return
	}
	c := &e.current
	if have := c.samples + c.histograms; have > 0 && (have+n > requestSamples || len(e.rows)+len(e.table)+len(e.series) > requestBytes) {
		e.finish()
	}
	e.refs = e.refs[:0]
	number := protowire.Number(requestSeriesV1)
	if e.version == V1 {
		e.labels(ls)
	} else {
		number = requestSeriesV2
		e.references(ls)
	}
	e.rows = protowire.AppendTag(e.rows, number, protowire.BytesType)
	e.rows = protowire.AppendVarint(e.rows, uint64(len(e.refs)+len(e.series)))
	e.rows = append(append(e.rows, e.refs...), e.series...)
	c.samples += e.pending.samples
	c.histograms += e.pending.histograms
	c.oldest, c.newest = min(c.oldest, e.pending.oldest), max(c.newest, e.pending.newest)
}

// labels sets refs to the labels as fields of 1.0.
func (e *encoder) labels(ls labels.Labels) {
	ls.Range(func(l labels.Label) {
		n := 1 + protowire.SizeBytes(len(l.Name)) + 1 + protowire.SizeBytes(len(l.Value))
		e.refs = protowire.AppendTag(e.refs, seriesLabelsV1, protowire.BytesType)
		e.refs = protowire.AppendVarint(e.refs, uint64(n))
		e.refs = protowire.AppendString(protowire.AppendTag(e.refs, labelNameV1, protowire.BytesType), l.Name)
		e.refs = protowire.AppendString(protowire.AppendTag(e.refs, labelValueV1, protowire.BytesType), l.Value)
	})
}

// references sets refs to the labels and the metadata as fields of 2.0.
func (e *encoder) references(ls labels.Labels) {
	n := 0
	ls.Range(func(l labels.Label) {
		n += protowire.SizeVarint(uint64(e.symbol(l.Name))) + protowire.SizeVarint(uint64(e.symbol(l.Value)))
	})
	e.refs = protowire.AppendTag(e.refs, seriesRefsV2, protowire.BytesType)
	e.refs = protowire.AppendVarint(e.refs, uint64(n))
	ls.Range(func(l labels.Label) {
		e.refs = protowire.AppendVarint(e.refs, uint64(e.symbol(l.Name)))
		e.refs = protowire.AppendVarint(e.refs, uint64(e.symbol(l.Value)))
	})
	if e.metadata == nil {
		return
	}
	kind, help := e.metadata(ls.Get(model.MetricNameLabel))
	var number uint64
	switch kind {
	case model.MetricTypeCounter:
		number = 1
	case model.MetricTypeGauge:
		number = 2
	case model.MetricTypeHistogram:
		number = 3
	default:
		return
	}
	text := uint64(e.symbol(help))
	e.refs = protowire.AppendTag(e.refs, seriesMetadataV2, protowire.BytesType)
	e.refs = protowire.AppendVarint(e.refs, uint64(1+1+1+protowire.SizeVarint(text)))
	e.refs = protowire.AppendVarint(protowire.AppendTag(e.refs, metadataTypeV2, protowire.VarintType), number)
	e.refs = protowire.AppendVarint(protowire.AppendTag(e.refs, metadataHelpV2, protowire.VarintType), text)
}

// finish ends the current request. Its symbols come before the series that refer to them: the order of fields is free,
// but Mimir resolves references as it reads.
func (e *encoder) finish() {
	c := e.current
	if c.samples+c.histograms > 0 {
		c.body = slices.Concat(e.table, e.rows)
		e.requests = append(e.requests, c)
		e.bytes += len(c.body)
	}
	e.restart()
}
