package querylog

import (
	"net/netip"
	"time"

	"github.com/taredb/tare/mysqlwire"
)

// A Record is what the gateway tells of one statement. It is a value on the session, filled
// in place and used again; its []byte fields are views that need to be valid only during
// Log. Zero fields are left out of the line.
type Record struct {
	Start     time.Time     // when the command's last byte had arrived; wall and monotonic clock
	Total     time.Duration // from Start to the last byte of the response written
	Plan      time.Duration // digest and plan
	Upstream  time.Duration // from the command sent to the backend to its last byte read
	FirstByte time.Duration // from the command sent to the backend to its first byte read

	ConnectionID uint64 // of the client's connection, as SHOW PROCESSLIST has it
	Client       netip.AddrPort
	User         string
	Schema       string
	Backend      string // the backend's name in the configuration

	Command       mysqlwire.Command
	StatementType string   // "select", "insert", …
	Digest        [16]byte // of Normalized
	Normalized    []byte   // the statement with ? for its literals

	// Text is the statement as it came, or its beginning; TextBytes its true length in
	// bytes when that is more than len(Text).
	Text      []byte
	TextBytes int

	RowsReturned uint64
	RowsAffected uint64
	BytesIn      uint64 // payload bytes of the command
	BytesOut     uint64 // payload bytes of the response
	Warnings     uint16
	Results      uint32 // responses to the command; written when there is more than one

	ErrorNumber uint16 // MySQL's; 0 means that the statement succeeded
	SQLState    string // 5 characters
	ErrorText   []byte

	PlanCached    bool
	TransactionID uint64 // the gateway's own number of the open transaction
	StatementName []byte // of PREPARE … in SQL
	StatementID   uint32 // of COM_STMT_PREPARE

	Tags []Tag // sqlcommenter's

	PinnedReason string // why the session keeps its backend connection
}

// A Tag is one key and value of a sqlcommenter comment, decoded.
type Tag struct{ Key, Value []byte }

// kindStatement is the kind of a Record's line.
const kindStatement = "statement"

// Kind is "statement".
func (r *Record) Kind() string { return kindStatement }

// Facts is what sampling needs to know of r.
func (r *Record) Facts() Facts {
	return Facts{
		End:    r.Start.Add(r.Total),
		Total:  r.Total,
		Rows:   r.RowsReturned,
		Failed: r.ErrorNumber != 0,
		Digest: r.Digest,
		Origin: r.ConnectionID,
	}
}

// AppendFields writes r's fields to l. It does not allocate when l's buffer has room.
func (r *Record) AppendFields(l *Line) {
	l.Time("start", r.Start)
	l.Time("end", r.Start.Add(r.Total))
	l.Duration("total_ns", r.Total)
	if r.Plan != 0 {
		l.Duration("plan_ns", r.Plan)
	}
	if r.Upstream != 0 {
		l.Duration("backend_ns", r.Upstream)
	}
	if r.FirstByte != 0 {
		l.Duration("first_byte_ns", r.FirstByte)
	}
	if r.User != "" {
		l.String("user", r.User)
	}
	if r.Client.IsValid() {
		l.Addr("client", r.Client)
	}
	l.Uint("connection_id", r.ConnectionID)
	if r.Schema != "" {
		l.String("schema", r.Schema)
	}
	if r.Backend != "" {
		l.String("backend", r.Backend)
	}
	l.command(r.Command)
	if r.StatementType != "" {
		l.String("statement_type", r.StatementType)
	}
	if r.Digest != ([16]byte{}) {
		l.Hex("digest", r.Digest[:])
	}
	r.appendTexts(l)
	if r.RowsReturned != 0 {
		l.Uint("rows_returned", r.RowsReturned)
	}
	if r.RowsAffected != 0 {
		l.Uint("rows_affected", r.RowsAffected)
	}
	l.Uint("bytes_in", r.BytesIn)
	l.Uint("bytes_out", r.BytesOut)
	if r.Warnings != 0 {
		l.Uint("warnings", uint64(r.Warnings))
	}
	if r.Results > 1 {
		l.Uint("results", uint64(r.Results))
	}
	if r.ErrorNumber != 0 {
		r.appendError(l)
	}
	l.Bool("plan_cached", r.PlanCached)
	if r.TransactionID != 0 {
		l.Uint("transaction_id", r.TransactionID)
	}
	if len(r.StatementName) != 0 {
		l.Bytes("statement_name", r.StatementName)
	}
	if r.StatementID != 0 {
		l.Uint("statement_id", uint64(r.StatementID))
	}
	if r.PinnedReason != "" {
		l.String("pinned_reason", r.PinnedReason)
	}
}

// appendTexts writes what the client wrote, as far as the redaction lets it show.
func (r *Record) appendTexts(l *Line) {
	if l.Redaction == RedactAll {
		return
	}
	if len(r.Normalized) != 0 {
		l.SQL("normalized", "normalized_bytes", r.Normalized, 0)
	}
	if l.OriginalText && len(r.Text) != 0 && l.Redaction == RedactNone {
		l.SQL("text", "text_bytes", r.Text, r.TextBytes)
	}
}

func (r *Record) appendError(l *Line) {
	l.Uint("error_number", uint64(r.ErrorNumber))
	if r.SQLState != "" {
		l.String("sqlstate", r.SQLState)
	}
	if len(r.ErrorText) != 0 && l.Redaction != RedactAll {
		l.ErrorText("error_text", r.ErrorNumber, r.ErrorText)
	}
}
