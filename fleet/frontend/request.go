package frontend

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/fleet/activeseries"
)

const (
	shardingHeader = "Sharding-Control"
	tenantHeader   = "X-Scope-OrgID"

	// countHeader marks a response that contains counts by this label instead of series.
	countHeader = "Tare-Count-By"

	// errorTrailer contains an error that occurred after the status was sent.
	errorTrailer = "Tare-Error"

	maxForm = 1 << 20 // bytes of a request's form
)

// passedHeaders are passed from the client to the downstreams: the tenant and the trace.
var passedHeaders = [...]string{tenantHeader, "Traceparent", "Tracestate"}

// An endpoint is a kind of request.
type endpoint string

const (
	seriesEndpoint     endpoint = "active_series"
	histogramsEndpoint endpoint = "active_native_histogram_metrics"
)

const apiPath = "/api/v1/cardinality/"

// A request is a client's request.
type request struct {
	endpoint endpoint
	selector selector
	shards   int    // 1 does not split
	limit    int    // 0: all
	countBy  string // "": series, not counts
	others   url.Values
	header   http.Header // passed to the downstreams

	encoding Encoding // of the response
}

// parseRequest parses a client's request.
func (f *Frontend) parseRequest(w http.ResponseWriter, r *http.Request, e endpoint) (request, error) {
	q := request{endpoint: e, header: http.Header{}}
	for _, name := range passedHeaders {
		if v := r.Header.Values(name); len(v) > 0 {
			q.header[http.CanonicalHeaderKey(name)] = v
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return q, &statusError{Code: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the form has more than the %d bytes allowed", maxForm)}
		}
		return q, badRequest(fmt.Errorf("read the form: %w", err))
	}
	var err error
	if q.encoding, err = negotiate(r.Header); err != nil {
		return q, err
	}
	q.others = url.Values{}
	for name, values := range r.Form {
		switch name {
		case "selector", "limit", "count_by":
		default:
			q.others[name] = values
		}
	}
	if err := q.parseForm(r.Form); err != nil {
		return q, badRequest(err)
	}
	if q.shards, err = f.shardsOf(r.Header); err != nil {
		return q, badRequest(err)
	}
	if q.selector.sharded {
		q.shards = 1
	}
	if q.shards > 1 || q.selector.sharded || r.Header.Get(shardingHeader) != "" {
		// A downstream that splits again would request shards of shards, which have no series.
		q.header.Set(shardingHeader, "0")
	}
	return q, nil
}

// parseForm parses the parameters that this frontend interprets.
func (q *request) parseForm(form url.Values) (err error) {
	switch selectors := form["selector"]; len(selectors) {
	case 0:
		return errors.New(`selector is missing: say which series, such as selector={job="api"}`)
	case 1:
		if q.selector, err = parseSelector(selectors[0]); err != nil {
			return err
		}
	default:
		return fmt.Errorf("want one selector, not %d: request each separately, or all with a regular expression, such as {job=~\"a|b\"}", len(selectors))
	}
	limit, err := single(form, "limit")
	if err != nil {
		return err
	}
	if limit != "" {
		n, err := strconv.ParseUint(limit, 10, 31)
		if err != nil {
			return fmt.Errorf("limit: want a number of items, or 0 for all, not %q", limit)
		}
		q.limit = int(n)
	}
	if q.countBy, err = single(form, "count_by"); err != nil {
		return err
	}
	switch {
	case !utf8.ValidString(q.countBy):
		return fmt.Errorf("count_by: %q is no label: want UTF-8", q.countBy)
	case q.countBy == "" && form.Has("count_by"):
		return errors.New("count_by: want a label, such as job")
	case q.countBy == activeseries.CountLabel:
		return fmt.Errorf("count_by: %s is the name of the counts: want another label", q.countBy)
	case q.endpoint != seriesEndpoint && (q.limit != 0 || q.countBy != ""):
		return fmt.Errorf("limit and count_by have no meaning for %s", q.endpoint)
	}
	return nil
}

// single returns the value of a parameter that may be given once.
func single(form url.Values, name string) (string, error) {
	if n := len(form[name]); n > 1 {
		return "", fmt.Errorf("want one %s, not %d", name, n)
	}
	return form.Get(name), nil
}

// shardsOf returns the number of shards of a request; 1 does not split it.
func (f *Frontend) shardsOf(h http.Header) (int, error) {
	text := strings.TrimSpace(h.Get(shardingHeader))
	if text == "" {
		return f.options.Shards, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s: want a number of shards, not %q", shardingHeader, text)
	}
	if most := f.options.MaxShards; most > 0 && n > uint64(most) {
		return 0, fmt.Errorf("shard count %d exceeds allowed maximum (%d)", n, most)
	}
	return max(int(n), 1), nil
}

// negotiate chooses the encoding of the response, which is JSON.
func negotiate(h http.Header) (Encoding, error) {
	if !acceptsJSON(h) {
		return "", &statusError{Code: http.StatusNotAcceptable, Text: "the response is " + jsonType + ", which Accept does not permit"}
	}
	e, ok := chooseEncoding(h)
	if !ok {
		return "", &statusError{Code: http.StatusNotAcceptable, Text: fmt.Sprintf(
			"the response is available as %s, %s, %s or uncompressed: Accept-Encoding permits none of these", Snappy, Zstd, Gzip)}
	}
	return e, nil
}
