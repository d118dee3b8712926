package frontend

import (
	"net/http"
	"net/netip"
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

	scratch [64]byte // for FieldValue
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

// appendSelector writes the selector, as far as the redaction permits.
func (r *Record) appendSelector(l *querylog.Line) {
	switch l.Redaction {
	case querylog.RedactNone:
		l.SQL("selector", []byte(r.Selector), 0)
	case querylog.RedactLiterals:
		l.SQL("selector", []byte(r.Masked), 0)
	}
}

// newRecord begins the record of a request.
func newRecord(r *http.Request, e endpoint) *Record {
	rec := &Record{Start: time.Now(), Endpoint: string(e), Tenant: r.Header.Get(tenantHeader), Status: http.StatusOK}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		rec.Client = a
	}
	return rec
}
