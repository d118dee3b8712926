package binlog

import (
	"encoding/binary"
	"errors"
)

// With binlog_alter_two_phase MariaDB logs an ALTER TABLE twice, as separate groups: when it starts, so that
// replicas start too, and when it is committed or rolled back. Rows of other transactions between the two
// have the earlier definition. The definition changes at the commit.

// An alterPhase is the part of an ALTER TABLE that a group is.
type alterPhase uint8

const (
	alterWhole alterPhase = iota // all of it, or another statement
	alterStarts
	alterCommitted
	alterRolledBack
)

// Flags of MariaDB's GTIDs, and of the optional flags after them.
//
// Specification: MariaDB "GTID_EVENT", sql/log_event.h, Gtid_log_event.
const (
	mariaGroupCommit = 2   // the number of a group commit follows
	mariaPreparedXA  = 64  // the first phase of an XA transaction: its identifier follows
	mariaCompletedXA = 128 // the second phase: likewise

	mariaEngines         = 1 // their number follows
	mariaAlterStarts     = 2
	mariaAlterCommitted  = 4
	mariaAlterRolledBack = 8
	mariaKnownExtra      = mariaEngines | mariaAlterStarts | mariaAlterCommitted | mariaAlterRolledBack | 16 // the thread
)

var errMariaFlags = errors.New("it has unknown flags")

// mariaAlter returns the part of an ALTER TABLE that the group of a MariaDB GTID is. ok is false for unknown
// flags. An event without optional flags is padded with zeros.
func mariaAlter(body []byte) (phase alterPhase, ok bool) {
	const flagsAt = 8 + 4
	flags, rest := body[flagsAt], body[flagsAt+1:]
	skip := 0
	if flags&mariaGroupCommit != 0 {
		skip = 8
	}
	if flags&(mariaPreparedXA|mariaCompletedXA) != 0 {
		const head = 4 + 1 + 1 // format, lengths of two texts
		if len(rest) < skip+head {
			return 0, false
		}
		skip += head + int(rest[skip+4]) + int(rest[skip+5])
	}
	if len(rest) <= skip {
		return alterWhole, len(rest) == skip
	}
	extra, rest := rest[skip], rest[skip+1:]
	if extra&^mariaKnownExtra != 0 {
		return 0, false
	}
	switch extra & (mariaAlterStarts | mariaAlterCommitted | mariaAlterRolledBack) {
	case 0:
		return alterWhole, true
	case mariaAlterStarts:
		return alterStarts, true
	case mariaAlterCommitted:
		phase = alterCommitted
	case mariaAlterRolledBack:
		phase = alterRolledBack
	default:
		return 0, false
	}
	if extra&mariaEngines != 0 {
		rest = rest[min(1, len(rest)):]
	}
	return phase, len(rest) >= 8 && binary.LittleEndian.Uint64(rest) != 0 // the number of the group that has started it
}
