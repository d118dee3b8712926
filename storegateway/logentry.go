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

// A LogEntry is what the query log tells of one request, of whichever of the gateway's protocols.
// It is used again for another request; Reset makes it empty.
type LogEntry struct {
	Start time.Time     // the request had arrived; wall and monotonic clock
	Total time.Duration // from Start to the end of the answer
	Wait  time.Duration // for admission

	Endpoint string // "Series", "LabelNames", … of the StoreAPI; query_range, … of the HTTP API
	Tenant   string
	Client   netip.AddrPort

	MinTime, MaxTime int64 // milliseconds, inclusive; both 0: no range
	Ranged           bool  // there is a range

	Stats    QueryStats
	Series   uint64 // series, names or values in the answer
	Chunks   uint64
	BytesOut uint64 // of the answer, before compression

	Code   string // OK, or the error's class as gRPC and the HTTP API name it
	Failed bool   // the request was not answered

	matchers []byte // what was asked for
	err      []byte // why the request failed
	shape    []byte // the same without values
	digest   [16]byte
	scratch  [64]byte // for FieldValue
}

var (
	_ querylog.Entry      = (*LogEntry)(nil)
	_ querylog.Filterable = (*LogEntry)(nil)
)

// kindStore is the kind of a LogEntry's line.
const kindStore = "store"

// Reset empties e and keeps its buffers.
func (e *LogEntry) Reset() {
	*e = LogEntry{matchers: e.matchers[:0], shape: e.shape[:0], err: e.err[:0]}
}

// CodeOK is the Code of a request that was served.
const CodeOK = "OK"

// SetRange records the time range of the request, in milliseconds, both inclusive.
func (e *LogEntry) SetRange(mint, maxt int64) { e.MinTime, e.MaxTime, e.Ranged = mint, maxt, true }

// SetMatchers says what was asked for, as a selector. It does not allocate once e's buffers have
// room, but for matchers whose value has to be quoted in a way of its own.
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
			e.shape = strconv.AppendQuote(e.shape, m.Value) // as a table's name is no literal
		} else {
			e.shape = append(e.shape, `"?"`...)
		}
	}
	e.matchers = append(e.matchers, '}')
	e.shape = append(e.shape, '}')
	e.setDigest()
}

// SetText says what was asked for, as an expression or as several selectors.
func (e *LogEntry) SetText(text string) {
	e.matchers = append(e.matchers[:0], text...)
	e.shape = appendWithoutStrings(e.shape[:0], text)
	e.setDigest()
}

// SetError says why the request failed, and of which class that is.
func (e *LogEntry) SetError(code string, err error) {
	e.Code, e.Failed = code, true
	e.err = append(e.err[:0], err.Error()...)
}

// setDigest identifies requests that differ in values alone.
func (e *LogEntry) setDigest() {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(e.shape)
	binary.LittleEndian.PutUint64(e.digest[:8], d.Sum64())
	_, _ = d.WriteString(e.Endpoint)
	binary.LittleEndian.PutUint64(e.digest[8:], d.Sum64())
}

// appendName writes a label's name, in quotes when PromQL wants it.
func appendName(b []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return strconv.AppendQuote(b, name)
		}
	}
	return append(b, name...)
}

// appendWithoutStrings appends an expression with "?" for each string in it.
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

// Kind is "store".
func (e *LogEntry) Kind() string { return kindStore }

// Facts is what sampling needs to know of e.
func (e *LogEntry) Facts() querylog.Facts {
	origin := uint64(e.Client.Port())
	return querylog.Facts{
		End: e.Start.Add(e.Total), Total: e.Total, Rows: e.Series, Failed: e.Failed,
		Digest: e.digest, Origin: origin,
	}
}

// appendMatchers writes what was requested, as far as the redaction permits.
func (e *LogEntry) appendMatchers(l *querylog.Line) {
	switch l.Redaction {
	case querylog.RedactNone:
		l.SQL("matchers", e.matchers, 0)
	case querylog.RedactLiterals:
		l.SQL("matchers", e.shape, 0)
	}
}
