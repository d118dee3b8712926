package querylog

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
)

// A Record is what the gateway tells of one statement. It is a value on the session, filled
// in place and used again; its []byte fields are views that need to be valid only during
// Log. Zero fields are left out of the line.
type Record struct {
	Start     time.Time     // when the command had arrived; wall and monotonic clock
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
	NormalizedCut bool     // Normalized is only its beginning

	// Text is the statement as it came, or its beginning; TextBytes its true length in
	// bytes when that is more than len(Text).
	Text      []byte
	TextBytes int

	// Binds and BindNames are the Values and Names of the statement's
	// mysqlwire.StmtParams.
	Binds     []mysqlwire.BinaryValue
	BindNames [][]byte

	RowsReturned uint64
	RowsAffected uint64
	BytesIn      uint64 // of the command, packet headers included
	BytesOut     uint64 // of the response, packet headers included
	Warnings     uint16
	Results      uint32 // responses to the command; written when there is more than one

	ErrorNumber uint16 // MySQL's; 0 means that the statement succeeded
	SQLState    string // 5 characters
	ErrorText   []byte
	Server      sqldigest.ServerKind // whose error it is, for the templates of its text
	ErrorOwn    bool                 // the gateway's error, whose text is of no server's template

	PlanCached    bool
	TransactionID uint64 // the gateway's own number of the open transaction
	StatementName []byte // of PREPARE, EXECUTE and DEALLOCATE PREPARE in SQL
	StatementID   uint32 // of COM_STMT_PREPARE and the commands on what it made

	Tags []Tag // sqlcommenter's

	Rule       string // that refused the statement, or would have as a dry run
	RuleAction string // block, read-only, deny or dry-run

	PinnedReason string // why the session keeps its backend connection

	scratch [64]byte // for FieldValue
}

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

// FieldValue answers a field by its name, for filters. It does not allocate.
func (r *Record) FieldValue(name string) Value {
	switch name {
	case "kind":
		return text(view(kindStatement))
	case "total_ns":
		return Value{Number: float64(r.Total)}
	case "plan_ns":
		return Value{Number: float64(r.Plan)}
	case "backend_ns":
		return Value{Number: float64(r.Upstream)}
	case "first_byte_ns":
		return Value{Number: float64(r.FirstByte)}
	case "connection_id":
		return Value{Number: float64(r.ConnectionID)}
	case "user":
		return text(view(r.User))
	case "schema":
		return text(view(r.Schema))
	case "backend":
		return text(view(r.Backend))
	case "command":
		return text(view(r.Command.String()))
	case "statement_type":
		return text(view(r.StatementType))
	case "client":
		if !r.Client.IsValid() {
			return Value{}
		}
		return text(r.Client.AppendTo(r.scratch[:0]))
	case "digest":
		return text(hex.AppendEncode(r.scratch[:0], r.Digest[:]))
	case "normalized":
		return text(r.Normalized)
	case "text":
		return text(r.Text)
	case "rows_returned":
		return Value{Number: float64(r.RowsReturned)}
	case "rows_affected":
		return Value{Number: float64(r.RowsAffected)}
	case "bytes_in":
		return Value{Number: float64(r.BytesIn)}
	case "bytes_out":
		return Value{Number: float64(r.BytesOut)}
	case "warnings":
		return Value{Number: float64(r.Warnings)}
	case "error_number":
		return Value{Number: float64(r.ErrorNumber)}
	case "sqlstate":
		return text(view(r.SQLState))
	case "error_text":
		return text(r.ErrorText)
	case "results":
		return Value{Number: float64(r.Results)}
	case "plan_cached":
		return text(strconv.AppendBool(r.scratch[:0], r.PlanCached))
	case "transaction_id":
		return Value{Number: float64(r.TransactionID)}
	case "statement_id":
		return Value{Number: float64(r.StatementID)}
	case "statement_name":
		return text(r.StatementName)
	case "rule":
		return text(view(r.Rule))
	case "rule_action":
		return text(view(r.RuleAction))
	case "pinned_reason":
		return text(view(r.PinnedReason))
	}
	return Value{}
}

func text(b []byte) Value { return Value{Text: b, IsText: true} }

// filterFields are the names that FieldValue knows.
var filterFields = [...]string{
	"kind", "total_ns", "plan_ns", "backend_ns", "first_byte_ns", "connection_id", "user", "client",
	"schema", "backend", "command", "statement_type", "digest", "normalized", "text", "rows_returned",
	"rows_affected", "bytes_in", "bytes_out", "warnings", "error_number", "sqlstate",
	"error_text", "results", "plan_cached", "transaction_id", "statement_id", "statement_name", "rule", "rule_action", "pinned_reason",
}

// AppendFields writes r's fields to l. It does not allocate when l's buffer has room.
func (r *Record) AppendFields(l *Line) {
	l.timeAt(&keyStart, r.Start)
	l.timeAt(&keyEnd, r.Start.Add(r.Total))
	l.durationAt(&keyTotal, r.Total)
	if r.Plan != 0 {
		l.durationAt(&keyPlan, r.Plan)
	}
	if r.Upstream != 0 {
		l.durationAt(&keyUpstream, r.Upstream)
	}
	if r.FirstByte != 0 {
		l.durationAt(&keyFirstByte, r.FirstByte)
	}
	if r.User != "" {
		l.stringAt(&keyUser, r.User)
	}
	if r.Client.IsValid() {
		l.addrAt(&keyClient, r.Client)
	}
	l.uintAt(&keyConnection, r.ConnectionID)
	if r.Schema != "" {
		l.stringAt(&keySchema, r.Schema)
	}
	if r.Backend != "" {
		l.stringAt(&keyBackend, r.Backend)
	}
	l.command(r.Command)
	if r.StatementType != "" {
		l.stringAt(&keyStatementType, r.StatementType)
	}
	if r.Digest != ([16]byte{}) {
		l.hexAt(&keyDigest, r.Digest[:])
	}
	r.appendTexts(l)
	if r.RowsReturned != 0 {
		l.uintAt(&keyRowsReturned, r.RowsReturned)
	}
	if r.RowsAffected != 0 {
		l.uintAt(&keyRowsAffected, r.RowsAffected)
	}
	l.uintAt(&keyBytesIn, r.BytesIn)
	l.uintAt(&keyBytesOut, r.BytesOut)
	if r.Warnings != 0 {
		l.Uint("warnings", uint64(r.Warnings))
	}
	if r.Results > 1 {
		l.Uint("results", uint64(r.Results))
	}
	if r.ErrorNumber != 0 {
		r.appendError(l)
	}
	l.boolAt(&keyPlanCached, r.PlanCached)
	if r.TransactionID != 0 {
		l.uintAt(&keyTransaction, r.TransactionID)
	}
	if len(r.StatementName) != 0 && l.Redaction != RedactAll {
		l.Bytes("statement_name", r.StatementName)
	}
	if r.StatementID != 0 {
		l.Uint("statement_id", uint64(r.StatementID))
	}
	if r.RuleAction != "" {
		l.String("rule", r.Rule)
		l.String("rule_action", r.RuleAction)
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
		l.SQL("normalized", r.Normalized, 0)
		if r.NormalizedCut {
			l.Bool("normalized_cut", true)
		}
	}
	if l.OriginalText && len(r.Text) != 0 && l.Redaction == RedactNone {
		l.SQL("text", r.Text, r.TextBytes)
	}
	if len(r.Binds) != 0 {
		l.Binds("binds", r.Binds, r.BindNames)
	}
	if len(r.Tags) != 0 {
		l.Tags("tags", r.Tags)
	}
}

func (r *Record) appendError(l *Line) {
	l.Uint("error_number", uint64(r.ErrorNumber))
	if r.SQLState != "" {
		l.String("sqlstate", r.SQLState)
	}
	if len(r.ErrorText) != 0 && l.Redaction != RedactAll {
		number := r.ErrorNumber
		if r.ErrorOwn {
			number = 0
		}
		l.errorText("error_text", r.Server, number, r.ErrorText)
	}
}
