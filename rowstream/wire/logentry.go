package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/rowstream/rowpb"
	"github.com/taredb/tare/sqldigest"
)

// A LogEntry is what the query log tells of one call of a Service.
type LogEntry struct {
	Start time.Time     // wall and monotonic clock
	Total time.Duration // from Start to the end of the call; of a snapshot, as long as it was open

	Call   string // the method of rowpb.Rows, such as "read" or "follow"
	Table  string // with its schema; of follow all tables, joined by commas; empty for a snapshot
	Chunk  int    // its number; of cut, read, sum and sumrows
	Client netip.AddrPort

	From, Upto string // positions of the log: of follow, what is told of it begins and ends there
	Changes    uint64 // of rows, sent; of follow

	Rows     uint64 // sent; of sum: summed up
	RowsRead uint64 // with those that a plan held back
	Bytes    uint64 // of the rows that were sent, of follow: of the changes' images
	BytesOut uint64 // the same as they were sent, packed or not

	Code   string // OK, or the error's class as gRPC names it
	Number uint16 // of the server's error, if it was one
	Err    string // why the call failed

	Server  sqldigest.ServerKind // that sent the error
	context int                  // bytes of Err before the server's message

	scratch [64]byte // for FieldValue
}

var (
	_ querylog.Entry      = (*LogEntry)(nil)
	_ querylog.Filterable = (*LogEntry)(nil)
)

// kindRows is the kind of a LogEntry's line.
const kindRows = "rowstream"

// A call is one call of a service that is being answered.
type call struct {
	s     *Service
	entry *LogEntry
	quiet bool // it is logged only when it fails
}

// begin notes a call. t is nil when it is not about one table.
func (s *Service) begin(ctx context.Context, name string, t *rowpb.Table) *call {
	e := &LogEntry{Start: time.Now(), Call: name}
	if t != nil {
		e.Table = t.GetSchema() + "." + t.GetName()
	}
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(*net.TCPAddr); ok {
			e.Client = a.AddrPort()
		}
	}
	return &call{s: s, entry: e}
}

// end logs the call and answers the error as gRPC sends it.
func (c *call) end(err error) error {
	e := c.entry
	e.Total = time.Since(e.Start)
	e.Code = codes.OK.String()
	sent := statusOf(err)
	if err != nil {
		e.Code, e.Err = status.Code(sent).String(), err.Error()
		var refused *mysqlconn.ServerError
		if errors.As(err, &refused) {
			e.setServerError(refused)
		}
	}
	if c.s.o.Log != nil && (err != nil || !c.quiet) {
		c.s.o.Log.LogEntry(e)
	}
	return sent
}

// setServerError sets the fields of the server's error that Err ends in. An Err that does not is redacted whole.
func (e *LogEntry) setServerError(s *mysqlconn.ServerError) {
	e.Number = uint16(s.Number)
	if s.Version != "" {
		e.Server = sqldigest.ParseServer(s.Version).Kind
	}
	if context, ok := strings.CutSuffix(e.Err, s.Message); ok {
		e.context = len(context)
	}
}

// mark logs what a call that goes on has done so far, and begins to count anew.
func (c *call) mark() {
	_ = c.end(nil)
	e := c.entry
	*e = LogEntry{Start: e.Start.Add(e.Total), Call: e.Call, Table: e.Table, Client: e.Client, From: e.Upto, Upto: e.Upto}
}

// Kind is "rowstream".
func (e *LogEntry) Kind() string { return kindRows }

// Facts is what sampling needs to know of e.
func (e *LogEntry) Facts() querylog.Facts {
	return querylog.Facts{
		End: e.Start.Add(e.Total), Total: e.Total, Rows: e.Rows, Failed: e.failed(),
		Digest: e.digest(), Origin: uint64(e.Client.Port()),
	}
}

func (e *LogEntry) failed() bool { return e.Err != "" }

// digest identifies calls of one kind about one table.
func (e *LogEntry) digest() [16]byte {
	sum := sha256.Sum256([]byte(e.Call + " " + e.Table))
	return [16]byte(sum[:16])
}

// AppendFields writes e's fields to l.
func (e *LogEntry) AppendFields(l *querylog.Line) {
	l.Time("start", e.Start)
	l.Time("end", e.Start.Add(e.Total))
	l.Duration("total_ns", e.Total)
	l.String("call", e.Call)
	if e.Client.IsValid() {
		l.Addr("client", e.Client)
	}
	if e.Table != "" {
		l.String("table", e.Table)
	}
	switch e.Call {
	case "cut":
		l.Int("chunk", int64(e.Chunk))
	case "sum":
		l.Int("chunk", int64(e.Chunk))
		l.Uint("rows", e.Rows)
	case "read", "sumrows":
		l.Int("chunk", int64(e.Chunk))
		l.Uint("rows", e.Rows)
		l.Uint("rows_read", e.RowsRead)
		l.Uint("bytes", e.Bytes)
		l.Uint("bytes_out", e.BytesOut)
	case "follow":
		l.String("from", e.From)
		l.String("upto", e.Upto)
		l.Uint("changes", e.Changes)
		l.Uint("bytes", e.Bytes)
		l.Uint("bytes_out", e.BytesOut)
	}
	l.String("code", e.Code)
	if e.Number != 0 {
		l.Uint("error_number", uint64(e.Number))
	}
	switch {
	case !e.failed() || l.Redaction == querylog.RedactAll:
	case e.Number != 0:
		l.ServerErrorText("error_text", e.Server, e.Number, []byte(e.Err), e.context)
	default:
		l.ErrorText("error_text", []byte(e.Err))
	}
}

// FieldValue answers a field by its name, for filters.
func (e *LogEntry) FieldValue(name string) querylog.Value {
	text := func(s string) querylog.Value { return querylog.Value{Text: []byte(s), IsText: true} }
	number := func(n uint64) querylog.Value { return querylog.Value{Number: float64(n)} }
	switch name {
	case "kind":
		return text(kindRows)
	case "total_ns":
		return number(uint64(e.Total))
	case "call":
		return text(e.Call)
	case "client":
		if !e.Client.IsValid() {
			return querylog.Value{}
		}
		return querylog.Value{Text: e.Client.AppendTo(e.scratch[:0]), IsText: true}
	case "table":
		return text(e.Table)
	case "chunk":
		return number(uint64(e.Chunk))
	case "digest":
		d := e.digest()
		return querylog.Value{Text: hex.AppendEncode(e.scratch[:0], d[:]), IsText: true}
	case "from":
		return text(e.From)
	case "upto":
		return text(e.Upto)
	case "changes":
		return number(e.Changes)
	case "rows":
		return number(e.Rows)
	case "rows_read":
		return number(e.RowsRead)
	case "bytes":
		return number(e.Bytes)
	case "bytes_out":
		return number(e.BytesOut)
	case "code":
		return text(e.Code)
	case "error_number":
		return number(uint64(e.Number))
	case "error_text":
		return text(e.Err)
	}
	return querylog.Value{}
}

// LogFields are the names that FieldValue knows.
func LogFields() []string {
	return []string{
		"kind", "total_ns", "call", "client", "table", "chunk", "from", "upto", "changes", "rows", "rows_read", "bytes", "bytes_out",
		"code", "error_number", "error_text",
	}
}
