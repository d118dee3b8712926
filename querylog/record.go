package querylog

import (
	"net/netip"
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

// templateNumber returns the number whose template the error's text has; 0 if none has.
func (r *Record) templateNumber() uint16 {
	if r.ErrorOwn {
		return 0
	}
	return r.ErrorNumber
}
