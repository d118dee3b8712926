package frontend

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/taredb/tare/querylog"
)

// kindFrontend is the kind of a Record's line.
const kindFrontend = "frontend"

// A Record is the query log's entry of one request.
type record struct {
	Start     time.Time     // arrival of the request; wall and monotonic clock
	Total     time.Duration // from Start to the end of the response
	FirstByte time.Duration // from Start until the headers of all shards had arrived; 0: they did not

	Endpoint string
	Client   netip.AddrPort
	Tenant   string
	Selector string // as PromQL
	Masked   string // Selector with ? for the values of labels
	CountBy  string
	Limit    int

	Shards   int   // number of shards of the request
	Asked    int64 // downstream requests, including retries
	Retries  int64
	ItemsIn  int64 // of all shards
	ItemsOut int64 // in the response
	BytesIn  int64 // of all shards' bodies, decompressed
	BytesOut int64 // of the response, compressed

	Encoding Encoding // of the response
	Decoder  string
	Compared bool // both decoders decoded the bodies
	Limited  bool // the response was cut at the limit

	Status    int    // status sent to the client, or 499 if it had disconnected
	Late      bool   // the error occurred after the status was sent
	ErrorText string // "" if the request succeeded

	scratch [64]byte // for FieldValue
}

var (
	_ querylog.Entry      = (*record)(nil)
	_ querylog.Filterable = (*record)(nil)
)

// Kind returns "frontend".
func (r *record) Kind() string { return kindFrontend }

// Facts returns the properties of r by which the log samples.
func (r *record) Facts() querylog.Facts {
	return querylog.Facts{
		End: r.Start.Add(r.Total), Total: r.Total, Rows: uint64(r.ItemsOut),
		Failed: r.ErrorText != "", Digest: digestOf(r.Endpoint, r.Masked), Origin: uint64(r.Client.Port()),
	}
}

// appendSelector appends the selector as far as the redaction permits.
func (r *record) appendSelector(l *querylog.Line) {
	switch l.Redaction {
	case querylog.RedactNone:
		l.SQL("selector", []byte(r.Selector), 0)
	case querylog.RedactLiterals:
		l.SQL("selector", []byte(r.Masked), 0)
	}
}

// newRecord starts the record of a request.
func newRecord(r *http.Request, e endpoint) *record {
	rec := &record{Start: time.Now(), Endpoint: string(e), Tenant: r.Header.Get(tenantHeader), Status: http.StatusOK}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		rec.Client = a
	}
	return rec
}
