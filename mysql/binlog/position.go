package binlog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
)

// A Position is a position in a server's binary log, between transactions. The zero value is no position.
type Position struct {
	// GTID identifies all transactions before the position: on MariaDB the last of each domain,
	// "0-1-5,1-2-7"; on MySQL a set, "uuid:1-5,uuid:1-3". It is valid on the server's replicas too. Empty if
	// the server has none.
	GTID string

	// File and Offset, in bytes, are the position on the server itself. File is empty if only the GTID is
	// known.
	File   string
	Offset uint64

	// Heartbeat is the last heartbeat before the position, by which the log proves at a reconnect that it is the
	// same. Empty: none was read.
	Heartbeat string
}

// beatMark precedes the heartbeat in the text of a position.
const beatMark = "beat="

// ParsePosition parses a text of String: "file offset", "file offset gtid=…" or "gtid=…", optionally followed
// by " beat=…". An empty text is the zero position.
func ParsePosition(text string) (Position, error) {
	var p Position
	fields := strings.Fields(text)
	if n := len(fields); n > 1 && strings.HasPrefix(fields[n-1], beatMark) {
		p.Heartbeat = strings.TrimPrefix(fields[n-1], beatMark)
		if _, err := parseMark(p.Heartbeat); err != nil {
			return Position{}, fmt.Errorf("position %q of a binary log: %w", text, err)
		}
		fields = fields[:n-1]
	}
	if n := len(fields); n > 0 && strings.HasPrefix(fields[n-1], session.GTIDMark) {
		p.GTID = strings.TrimPrefix(fields[n-1], session.GTIDMark)
		if p.GTID == "" {
			return Position{}, fmt.Errorf("position %q of a binary log: its GTID is empty", text)
		}
		fields = fields[:n-1]
	}
	switch len(fields) {
	case 0:
		return p, nil
	case 2:
		offset, err := strconv.ParseUint(fields[1], 10, 64)
		if err == nil {
			p.File, p.Offset = fields[0], offset
			return p, nil
		}
	}
	return Position{}, fmt.Errorf("position %q of a binary log is not of the form \"file offset\" or \"file offset gtid=…\"", text)
}

// Place returns the position for messages: without its heartbeat.
func (p Position) Place() string {
	p.Heartbeat = ""
	return p.String()
}

// String returns the position as text that ParsePosition parses.
func (p Position) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + " " + strconv.FormatUint(p.Offset, 10))
	}
	if p.GTID != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(session.GTIDMark + p.GTID)
	}
	if p.Heartbeat != "" && b.Len() > 0 {
		b.WriteString(" " + beatMark + p.Heartbeat)
	}
	return b.String()
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns a negative number if p is before q in the binary log, a positive one if it is after q, and
// 0 if file and offset are equal. Both must have a File, of the same server. Files are compared by number,
// whose digits may increase, not by name.
func (p Position) Compare(q Position) int {
	a, b := fileNumber(p.File), fileNumber(q.File)
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b), cmp.Compare(p.Offset, q.Offset))
}

// Reaches reports whether everything before q is before p. If both have GTIDs, these must agree: after a
// failover the files of p may be another server's, whose numbers cannot be compared.
func (p Position) Reaches(q Position) bool {
	if p.Compare(q) < 0 {
		return false
	}
	a, b, ok := bothGTIDs(p, q)
	return !ok || a.includes(&b)
}

// Before reports whether p is before q in the order of transactions: by their GTIDs if both have them, which
// are valid on all servers, otherwise by Compare. known is false if each has transactions that the other
// lacks.
func (p Position) Before(q Position) (before, known bool) {
	a, b, ok := bothGTIDs(p, q)
	if !ok {
		return p.Compare(q) < 0, true
	}
	switch pq, qp := a.includes(&b), b.includes(&a); {
	case pq && qp:
		return false, true
	default:
		return qp, pq || qp
	}
}

// bothGTIDs returns the GTIDs of two positions if both have GTIDs of the same product.
func bothGTIDs(p, q Position) (a, b gtids, ok bool) {
	a, err1 := parseGTIDs(p.GTID)
	b, err2 := parseGTIDs(q.GTID)
	return a, b, err1 == nil && err2 == nil && a.mode != noGTID && a.mode == b.mode
}

// fileNumber returns the number at the end of a log file's name, without leading zeros.
func fileNumber(file string) string {
	return strings.TrimLeft(file[strings.LastIndexByte(file, '.')+1:], "0")
}
