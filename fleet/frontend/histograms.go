package frontend

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/taredb/tare/fleet/activeseries"
)

// A histogramMetric is a metric with active native histograms, of one shard or of all.
type histogramMetric struct {
	Metric     string  `json:"metric"`
	Series     uint64  `json:"series_count"`
	Buckets    uint64  `json:"bucket_count"`
	AvgBuckets float64 `json:"avg_bucket_count"`
	MinBuckets uint64  `json:"min_bucket_count"`
	MaxBuckets uint64  `json:"max_bucket_count"`
}

// add adds the counts of another shard for the same metric.
func (m *histogramMetric) add(o histogramMetric) {
	switch {
	case o.Series == 0:
		return
	case m.Series == 0:
		m.MinBuckets = o.MinBuckets
	default:
		m.MinBuckets = min(m.MinBuckets, o.MinBuckets)
	}
	m.MaxBuckets = max(m.MaxBuckets, o.MaxBuckets)
	m.Series += o.Series
	m.Buckets += o.Buckets
	m.AvgBuckets = float64(m.Buckets) / float64(m.Series)
}

// histogramBytes is the memory of a metric during a merge, besides its name: its value and its map entry.
const histogramBytes = 128

// histogramMerge sums metrics by their name.
type histogramMerge struct {
	metrics map[string]*histogramMetric

	warnings []string // of bodies, with the names of shards
	left     int64    // remaining bytes
	allowed  int64
}

func (m *histogramMerge) add(o histogramMetric) error {
	p := m.metrics[o.Metric]
	if p == nil {
		if m.left -= histogramBytes + int64(len(o.Metric)); m.left < 0 {
			return &activeseries.BudgetError{What: "histograms", Allowed: m.allowed}
		}
		p = &histogramMetric{Metric: o.Metric}
		m.metrics[o.Metric] = p
	}
	p.add(o)
	return nil
}

// warn adds the warnings of a body, up to maxWarnings of the response.
func (m *histogramMerge) warn(name string, texts []string) {
	for _, text := range texts {
		if len(m.warnings) == maxWarnings {
			m.warnings = append(m.warnings, "more warnings were left out")
		}
		if len(m.warnings) > maxWarnings {
			return
		}
		m.warnings = append(m.warnings, name+": "+text)
	}
}

// mergeHistograms returns the merged response of all parts: each metric once, sorted by name; the number of
// metrics; and the warnings of bodies. It closes all bodies.
func (x *exchange) mergeHistograms(responses []*http.Response) ([]byte, int, []string, error) {
	budget := x.f.options.MergeBytes
	m := histogramMerge{metrics: map[string]*histogramMetric{}, left: budget, allowed: budget}
	var fault error
	for _, resp := range responses {
		body := x.decompressed(resp)
		if fault == nil {
			if err := x.readHistograms(body, partName(resp), &m); err != nil {
				fault = nameHistograms(err, resp.Body)
				x.cancel(errDone)
			}
		}
		body.Close()
	}
	if fault != nil {
		return nil, 0, m.warnings, fault
	}
	list := make([]*histogramMetric, 0, len(m.metrics))
	for _, p := range m.metrics {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *histogramMetric) int { return cmp.Compare(a.Metric, b.Metric) })
	result, err := json.Marshal(struct {
		Data     []*histogramMetric `json:"data"`
		Warnings []string           `json:"warnings,omitempty"`
	}{list, m.warnings})
	if err != nil {
		return nil, 0, m.warnings, fmt.Errorf("write metrics with histograms: %w", err)
	}
	if most := x.f.options.ResponseBytes; most > 0 && int64(len(result)) > most {
		return nil, 0, m.warnings, &activeseries.BudgetError{What: "response", Allowed: most}
	}
	return result, len(list), m.warnings, nil
}

func nameHistograms(err error, body io.ReadCloser) error {
	if _, ok := errors.AsType[*activeseries.BudgetError](err); ok {
		return err
	}
	name := "?"
	if pb, ok := body.(*partBody); ok {
		name = pb.part.name
	}
	return &statusError{Code: http.StatusBadGateway, Part: name, Text: err.Error(), err: err}
}

// maxHistogramValue bounds the bytes of a metric, a name or another value of a body, which the decoder buffers.
const maxHistogramValue = 1 << 20

// A valueReader reads a body, and fails within a value that is too long.
type valueReader struct {
	body    io.Reader
	n       int64        // bytes read
	decoded func() int64 // bytes of the values before the current one
}

// Read implements io.Reader.
func (r *valueReader) Read(p []byte) (int, error) {
	if r.n-r.decoded() > maxHistogramValue {
		return 0, fmt.Errorf("a value of more than %d bytes", maxHistogramValue)
	}
	n, err := r.body.Read(p)
	r.n += int64(n)
	return n, err //nolint:wrapcheck // an io.Reader
}

// readHistograms adds the metrics of one body. It reads token by token and does not buffer the body.
func (x *exchange) readHistograms(body io.Reader, name string, m *histogramMerge) error {
	r := &valueReader{body: body}
	d := json.NewDecoder(r)
	r.decoded = d.InputOffset
	defer func() { x.bytesIn.Add(d.InputOffset()) }()
	if err := wantDelim(d, '{'); err != nil {
		return err
	}
	var fields histogramFields
	defer func() { m.warn(name, fields.warnings) }()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return truncated(err)
		}
		if key == "data" {
			if fields.data {
				return errors.New(`a second "data"`)
			}
			fields.data = true
			err = x.readMetrics(d, m)
		} else {
			err = fields.read(d, key)
		}
		if err != nil {
			return err
		}
	}
	if err := wantDelim(d, '}'); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF { // wrapped, it is an error of reading and no end
		return errors.New("bytes after the end of the body")
	}
	switch {
	case fields.failed:
		return fmt.Errorf("reported: %s", fields.text)
	case !fields.data:
		return errors.New(`no "data"`)
	}
	return nil
}

// histogramFields are the fields of a body besides its metrics.
type histogramFields struct {
	data   bool // the field was present
	failed bool
	text   string // text of the error

	warnings []string
}

// read reads the value of a field other than "data".
func (f *histogramFields) read(d *json.Decoder, key json.Token) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return truncated(err)
	}
	name, _ := key.(string)
	if key != "error" && key != "errorType" {
		texts, err := bodyWarnings(name, raw)
		if _, reported := errors.AsType[*activeseries.ReportedError](err); err != nil && !reported {
			return err
		}
		if len(f.warnings) <= maxWarnings { // which the response has at most
			f.warnings = append(f.warnings, texts...)
		}
	}
	if key != "status" && key != "error" {
		return nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return truncated(err)
	}
	switch key {
	case "status":
		f.failed = f.failed || value == "error"
	case "error":
		if value != nil && value != "" {
			f.failed, f.text = true, truncateText(fmt.Sprint(value))
		}
	}
	return nil
}

// readMetrics reads the value of "data": a list of metrics, or null for none.
func (x *exchange) readMetrics(d *json.Decoder, m *histogramMerge) error {
	t, err := d.Token()
	switch {
	case err != nil:
		return truncated(err)
	case t == nil:
		return nil
	case t != json.Delim('['):
		return errors.New(`"data" is neither an array nor null`)
	}
	for d.More() {
		var metric histogramMetric
		if err := d.Decode(&metric); err != nil {
			return truncated(err)
		}
		if metric.Metric == "" || !utf8.ValidString(metric.Metric) {
			return errors.New("a metric without a name")
		}
		x.itemsIn.Add(1)
		if err := m.add(metric); err != nil {
			return err
		}
	}
	return wantDelim(d, ']')
}

func wantDelim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return truncated(err)
	}
	if t != want {
		return fmt.Errorf("want %v at byte %d, not %v", want, d.InputOffset(), t)
	}
	return nil
}

// truncated returns err, with io.EOF replaced by io.ErrUnexpectedEOF.
func truncated(err error) error {
	if err == io.EOF { //nolint:errorlint // as io.Reader says
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("not a list of metrics: %w", err)
}
