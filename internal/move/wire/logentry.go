package wire

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// A LogEntry is the record of one call of a Service in the query log.
type LogEntry struct {
	Start time.Time     // wall and monotonic clock
	Total time.Duration // from Start to the end of the call; of a snapshot, while it was open

	Call   string // the method of rowpb.Rows, such as "read" or "follow"
	Table  string // with its schema; of follow all tables, joined by commas; empty for a snapshot
	Chunk  int    // number of the chunk; of cut, read, sum and sumrows
	Client netip.AddrPort

	From, Upto string // positions of the log: of follow, the range of this record
	Changes    uint64 // of rows, sent; of follow

	Rows     uint64 // sent; of sum: included in the checksum
	RowsRead uint64 // including those that a plan excludes
	Bytes    uint64 // of the rows sent; of follow: of the changes' images
	BytesOut uint64 // likewise as sent, possibly compressed

	Code   string // OK, or the gRPC code of the error
	Number uint16 // of the server's error, if it was one
	Err    string // why the call failed

	Server  sqldigest.ServerKind // that returned the error
	context int                  // bytes of Err before the server's message

	scratch [64]byte // for FieldValue
}

var (
	_ querylog.Entry      = (*LogEntry)(nil)
	_ querylog.Filterable = (*LogEntry)(nil)
)

// kindRows is the kind of a LogEntry's line.
const kindRows = "rowstream"

// A call is a call of a service in progress.
type call struct {
	s     *Service
	entry *LogEntry
	quiet bool // it is logged only if it fails
}

// startCall starts the record of a call. t is nil if the call does not concern one table.
func (s *Service) startCall(ctx context.Context, name string, t *rowpb.Table) *call {
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

// finish logs the call and returns the error as gRPC sends it.
func (c *call) finish(err error) error {
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

// setServerError sets the fields of the server's error at the end of Err. If Err does not end in it, all of
// Err is redacted.
func (e *LogEntry) setServerError(s *mysqlconn.ServerError) {
	e.Number = uint16(s.Number)
	if s.Version != "" {
		e.Server = sqldigest.ParseServer(s.Version).Kind
	}
	if context, ok := strings.CutSuffix(e.Err, s.Message); ok {
		e.context = len(context)
	}
}

// mark logs a call in progress so far, and restarts its counts.
func (c *call) mark() {
	_ = c.finish(nil)
	e := c.entry
	*e = LogEntry{Start: e.Start.Add(e.Total), Call: e.Call, Table: e.Table, Client: e.Client, From: e.Upto, Upto: e.Upto}
}

// Kind returns "rowstream".
func (e *LogEntry) Kind() string { return kindRows }

// Facts returns the facts of e for sampling.
func (e *LogEntry) Facts() querylog.Facts {
	return querylog.Facts{
		End: e.Start.Add(e.Total), Total: e.Total, Rows: e.Rows, Failed: e.failed(),
		Digest: e.digest(), Origin: uint64(e.Client.Port()),
	}
}

func (e *LogEntry) failed() bool { return e.Err != "" }

// digest returns an identifier of the calls of one kind for one table.
func (e *LogEntry) digest() [16]byte {
	sum := sha256.Sum256([]byte(e.Call + " " + e.Table))
	return [16]byte(sum[:16])
}

// hasChunk, hasRows, sendsRows and follows report which fields the call has.
func (e *LogEntry) hasChunk() bool { return e.Call == "cut" || e.hasRows() }

func (e *LogEntry) hasRows() bool { return e.Call == "sum" || e.sendsRows() }

func (e *LogEntry) sendsRows() bool { return e.Call == "read" || e.Call == "sumrows" }

func (e *LogEntry) follows() bool { return e.Call == "follow" }

// appendError writes the error's text, as far as the redaction permits.
func (e *LogEntry) appendError(l *querylog.Line) {
	if e.Number == 0 {
		l.ErrorText("error_text", []byte(e.Err))
		return
	}
	l.ServerErrorText("error_text", e.Server, e.Number, []byte(e.Err), e.context)
}
