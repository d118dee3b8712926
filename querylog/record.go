package querylog

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Record describes one statement of the gateway. It is a value on the session, filled in place and reused;
// its []byte fields are views that must be valid only during Log. Zero fields are omitted from the line.
type Record struct {
	Start     time.Time     // arrival of the whole command; wall and monotonic clock
	Total     time.Duration // from Start until the last byte of the response is written
	Plan      time.Duration // digest and plan
	Upstream  time.Duration // from sending the command to the backend until its last byte is read
	FirstByte time.Duration // from sending the command to the backend until its first byte is read

	Accounted time.Duration // part of Total that was counted while the statement ran; not logged

	ConnectionID uint64 // of the client's connection, as in SHOW PROCESSLIST

	// Writer identifies the thread or loop that logs the records of this and of other connections, one at a
	// time: they share a buffer that no other writer waits for. 0: the buffer is chosen by ConnectionID.
	Writer uint64

	Client  netip.AddrPort
	User    string
	Schema  string
	Backend string // the backend's name in the configuration

	Command       mysqlwire.Command
	StatementType string   // "select", "insert", …
	Digest        [16]byte // of Normalized
	Normalized    []byte   // the statement with ? for its literals
	NormalizedCut bool     // Normalized is truncated

	// Text is the original statement or a prefix of it; TextBytes is its full length in bytes if that exceeds
	// len(Text).
	Text      []byte
	TextBytes int

	// Binds and BindNames are the Values and Names of the statement's mysqlwire.StmtParams.
	Binds     []mysqlwire.BinaryValue
	BindNames [][]byte

	RowsReturned uint64
	RowsAffected uint64
	BytesIn      uint64 // of the command, packet headers included
	BytesOut     uint64 // of the response, packet headers included
	Warnings     uint16
	Results      uint32 // responses to the command; written if more than one

	ErrorNumber uint16 // MySQL's; 0: the statement succeeded
	SQLState    string // 5 characters
	ErrorText   []byte
	Server      sqldigest.ServerKind // origin of the error, which selects the templates of its text
	ErrorOwn    bool                 // the gateway's error, whose text follows no server's template

	PlanCached    bool
	TransactionID uint64 // the gateway's number of the open transaction
	StatementName []byte // of PREPARE, EXECUTE and DEALLOCATE PREPARE in SQL
	StatementID   uint32 // of COM_STMT_PREPARE and the commands on its statement

	Tags []Tag // from sqlcommenter

	Rule       string // the rule that refused the statement, or would have as a dry run
	RuleAction string // block, read-only, deny or dry-run

	PinnedReason string // reason why the session keeps its backend connection

	scratch [64]byte // for FieldValue
}

// kindStatement is the kind of a Record's line.
const kindStatement = "statement"

// Kind returns "statement".
func (r *Record) Kind() string { return kindStatement }

// Facts returns the input of sampling.
func (r *Record) Facts() Facts {
	return Facts{
		End:    r.Start.Add(r.Total),
		Total:  r.Total,
		Rows:   r.RowsReturned,
		Failed: r.ErrorNumber != 0,
		Digest: r.Digest,
		Origin: cmp.Or(r.Writer, r.ConnectionID),
	}
}

// templateNumber returns the error number whose templates apply to the text; 0 if none do.
func (r *Record) templateNumber() uint16 {
	if r.ErrorOwn {
		return 0
	}
	return r.ErrorNumber
}
