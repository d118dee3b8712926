package frontend

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/taredb/tare/querylog"
)

// kindFrontend is the kind of a Record's line.
const kindFrontend = "frontend"

// A Record is what the query log tells of one request.
type Record struct {
	Start     time.Time     // the request had arrived; wall and monotonic clock
	Total     time.Duration // from Start to the end of the answer
	FirstByte time.Duration // from Start until the headers of all shards had come; 0: they had not

	Endpoint string
	Client   netip.AddrPort
	Tenant   string
	Selector string // as PromQL
	Masked   string // Selector with ? for the values of labels
	CountBy  string
	Limit    int

	Shards   int   // that the request was split into
	Asked    int64 // requests downstream, retries included
	Retries  int64
	ItemsIn  int64 // of all shards
	ItemsOut int64 // in the answer
	BytesIn  int64 // of all shards' bodies, decompressed
	BytesOut int64 // of the answer, compressed

	Encoding Encoding // of the answer
	Decoder  string
	Compared bool // bodies were decoded by both decoders
	Limited  bool // the answer was cut to the limit

	Status    int    // that the client got, 499 when it had left
	Late      bool   // the error came after the status had gone out
	ErrorText string // "" when the request succeeded
}

var (
	_ querylog.Entry      = (*Record)(nil)
	_ querylog.Filterable = (*Record)(nil)
)

// Kind is "frontend".
func (r *Record) Kind() string { return kindFrontend }

// Facts is what sampling needs to know of r.
func (r *Record) Facts() querylog.Facts {
	return querylog.Facts{
		End: r.Start.Add(r.Total), Total: r.Total, Rows: uint64(r.ItemsOut),
		Failed: r.ErrorText != "", Digest: digestOf(r.Endpoint, r.Masked), Origin: uint64(r.Client.Port()),
	}
}

// AppendFields writes r's fields to l.
func (r *Record) AppendFields(l *querylog.Line) {
	l.Time("start", r.Start)
	l.Time("end", r.Start.Add(r.Total))
	l.Duration("total_ns", r.Total)
	if r.FirstByte != 0 {
		l.Duration("first_byte_ns", r.FirstByte)
	}
	l.String("endpoint", r.Endpoint)
	if r.Client.IsValid() {
		l.Addr("client", r.Client)
	}
	if r.Tenant != "" {
		l.String("tenant", r.Tenant)
	}
	switch {
	case r.Selector == "":
	case l.Redaction == querylog.RedactNone:
		l.SQL("selector", []byte(r.Selector), 0)
	case l.Redaction == querylog.RedactLiterals:
		l.SQL("selector", []byte(r.Masked), 0)
	}
	if r.CountBy != "" && l.Redaction != querylog.RedactAll {
		l.String("count_by", r.CountBy)
	}
	if r.Limit != 0 {
		l.Int("limit", int64(r.Limit))
	}
	l.Int("shards", int64(r.Shards))
	l.Int("requests", r.Asked)
	if r.Retries != 0 {
		l.Int("retries", r.Retries)
	}
	l.Int("items_in", r.ItemsIn)
	l.Int("items_out", r.ItemsOut)
	l.Int("bytes_in", r.BytesIn)
	l.Int("bytes_out", r.BytesOut)
	if r.Encoding != Identity {
		l.String("encoding", string(r.Encoding))
	}
	l.String("decoder", r.Decoder)
	if r.Compared {
		l.Bool("compared", true)
	}
	if r.Limited {
		l.Bool("limited", true)
	}
	l.Int("status", int64(r.Status))
	if r.ErrorText != "" {
		l.Bool("late", r.Late)
		// What a downstream or a parser says may repeat the selector's values.
		if l.Redaction == querylog.RedactNone {
			l.String("error_text", r.ErrorText)
		}
	}
}

// logFields are the names that FieldValue knows.
var logFields = [...]string{
	"kind", "endpoint", "tenant", "client", "selector", "count_by", "encoding", "decoder", "error_text",
	"total_ns", "first_byte_ns", "limit", "shards", "requests", "retries", "items_in", "items_out",
	"bytes_in", "bytes_out", "status",
}

// LogFields are the fields that a filter of the query log may name.
func LogFields() []string { return slices.Clone(logFields[:]) }

// FieldValue answers a field by its name, for filters.
func (r *Record) FieldValue(name string) querylog.Value {
	text := func(s string) querylog.Value { return querylog.Value{Text: []byte(s), IsText: true} }
	number := func(n int64) querylog.Value { return querylog.Value{Number: float64(n)} }
	switch name {
	case "kind":
		return text(kindFrontend)
	case "endpoint":
		return text(r.Endpoint)
	case "tenant":
		return text(r.Tenant)
	case "client":
		if !r.Client.IsValid() {
			return querylog.Value{}
		}
		return text(r.Client.String())
	case "selector":
		return text(r.Selector)
	case "count_by":
		return text(r.CountBy)
	case "encoding":
		return text(string(r.Encoding))
	case "decoder":
		return text(r.Decoder)
	case "error_text":
		return text(r.ErrorText)
	case "total_ns":
		return number(int64(r.Total))
	case "first_byte_ns":
		return number(int64(r.FirstByte))
	case "limit":
		return number(int64(r.Limit))
	case "shards":
		return number(int64(r.Shards))
	case "requests":
		return number(r.Asked)
	case "retries":
		return number(r.Retries)
	case "items_in":
		return number(r.ItemsIn)
	case "items_out":
		return number(r.ItemsOut)
	case "bytes_in":
		return number(r.BytesIn)
	case "bytes_out":
		return number(r.BytesOut)
	case "status":
		return number(int64(r.Status))
	}
	return querylog.Value{}
}

// newRecord begins the record of a request.
func newRecord(r *http.Request, e endpoint) *Record {
	rec := &Record{Start: time.Now(), Endpoint: string(e), Tenant: r.Header.Get(tenantHeader), Status: http.StatusOK}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		rec.Client = a
	}
	return rec
}
