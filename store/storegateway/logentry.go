package storegateway

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/querylog"
)

// A LogEntry is the query log's entry of one request, of any of the gateway's protocols. It can be reused
// after Reset.
type LogEntry struct {
	Start time.Time     // arrival of the request; wall and monotonic clock
	Total time.Duration // from Start to the end of the response
	Wait  time.Duration // time in the admission queue

	Endpoint string // "Series", "LabelNames", … of the StoreAPI; query_range, … of the HTTP API
	Tenant   string
	Client   netip.AddrPort

	MinTime, MaxTime int64 // milliseconds, inclusive; both 0: no range
	Ranged           bool  // MinTime and MaxTime are set

	Stats    QueryStats
	Series   uint64 // series, names or values in the response
	Chunks   uint64
	BytesOut uint64 // bytes of the response, before compression

	// Samples are those that PromQL's engine read, and SamplesPeak the most in its memory at once. Spans have them,
	// the log does not.
	Samples, SamplesPeak int64

	Code   string // OK, or the class of the error in the terms of gRPC and of the HTTP API
	Failed bool   // the request failed

	matchers []byte // matchers or expression of the request
	err      []byte // text of the error
	shape    []byte // matchers or expression without values
	digest   [16]byte
	scratch  [64]byte // for FieldValue
}

var (
	_ querylog.Entry      = (*LogEntry)(nil)
	_ querylog.Filterable = (*LogEntry)(nil)
)

// kindStore is the kind of a LogEntry's line.
const kindStore = "store"

// Reset clears e and keeps its buffers.
func (e *LogEntry) Reset() {
	*e = LogEntry{matchers: e.matchers[:0], shape: e.shape[:0], err: e.err[:0]}
}

// CodeOK is the Code of a request that was served.
const CodeOK = "OK"

// SetRange records the time range of the request, in milliseconds, both inclusive.
func (e *LogEntry) SetRange(mint, maxt int64) { e.MinTime, e.MaxTime, e.Ranged = mint, maxt, true }

// SetMatchers sets the text of the request to a selector. It does not allocate once e's buffers have room,
// except for matchers whose value must be escaped.
func (e *LogEntry) SetMatchers(ms []*labels.Matcher) {
	e.matchers = append(e.matchers[:0], '{')
	e.shape = append(e.shape[:0], '{')
	for i, m := range ms {
		if i > 0 {
			e.matchers = append(e.matchers, ',')
			e.shape = append(e.shape, ',')
		}
		e.matchers = appendName(e.matchers, m.Name)
		e.matchers = append(e.matchers, m.Type.String()...)
		e.matchers = strconv.AppendQuote(e.matchers, m.Value)
		e.shape = appendName(e.shape, m.Name)
		e.shape = append(e.shape, m.Type.String()...)
		if m.Name == model.MetricNameLabel {
			e.shape = strconv.AppendQuote(e.shape, m.Value) // the value is kept, as a table's name is in a digest
		} else {
			e.shape = append(e.shape, `"?"`...)
		}
	}
	e.matchers = append(e.matchers, '}')
	e.shape = append(e.shape, '}')
	e.setDigest()
}

// setText sets the text of the request to an expression or several selectors.
func (e *LogEntry) setText(text string) {
	e.matchers = append(e.matchers[:0], text...)
	e.shape = appendWithoutStrings(e.shape[:0], text)
	e.setDigest()
}

// SetError sets the error of the request and its class.
func (e *LogEntry) SetError(code string, err error) {
	e.Code, e.Failed = code, true
	e.err = append(e.err[:0], err.Error()...)
}

// setDigest computes the digest, which is equal for requests that differ only in values.
func (e *LogEntry) setDigest() {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(e.shape)
	binary.LittleEndian.PutUint64(e.digest[:8], d.Sum64())
	_, _ = d.WriteString(e.Endpoint)
	binary.LittleEndian.PutUint64(e.digest[8:], d.Sum64())
}

// appendName appends a label's name, quoted if PromQL requires it.
func appendName(b []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return strconv.AppendQuote(b, name)
		}
	}
	return append(b, name...)
}

// appendWithoutStrings appends an expression with each string replaced by "?".
func appendWithoutStrings(b []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '"' && c != '\'' && c != '`' {
			b = append(b, c)
			continue
		}
		b = append(b, `"?"`...)
		for i++; i < len(text) && text[i] != c; i++ {
			if text[i] == '\\' && c != '`' {
				i++
			}
		}
	}
	return b
}

// Kind returns "store".
func (e *LogEntry) Kind() string { return kindStore }

// Facts returns the properties of e by which the log samples.
func (e *LogEntry) Facts() querylog.Facts {
	origin := uint64(e.Client.Port())
	return querylog.Facts{
		End: e.Start.Add(e.Total), Total: e.Total, Rows: e.Series, Failed: e.Failed,
		Digest: e.digest, Origin: origin,
	}
}

// appendMatchers appends the text of the request as far as the redaction permits.
func (e *LogEntry) appendMatchers(l *querylog.Line) {
	switch l.Redaction {
	case querylog.RedactNone:
		l.SQL("matchers", e.matchers, 0)
	case querylog.RedactLiterals:
		l.SQL("matchers", e.shape, 0)
	}
}
