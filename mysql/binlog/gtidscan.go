package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// withGTID adds the GTID at a position, on MariaDB. It leaves the position unchanged if the server has no
// GTID, or if the account may not read the log.
func withGTID(ctx context.Context, cfg mysqlconn.Config, c *mysqlconn.Client, p Position) (_ Position, err error) {
	if p.File == "" || p.GTID != "" || !session.IsMariaDB(c.ServerVersion) {
		return p, nil
	}
	p.GTID, err = gtidAt(ctx, c, p)
	if err == nil && p.GTID == "" {
		p.GTID, err = scanGTID(ctx, cfg, c, p)
	}
	if session.IsUnseen(err) {
		err = nil // file and offset are sufficient
	}
	return p, err
}

// gtidAt queries MariaDB for the GTID at a position, for which the server reads the log file. The result is
// empty before the first transaction, and if the file has an event before the position that is larger than
// max_allowed_packet.
func gtidAt(ctx context.Context, c *mysqlconn.Client, p Position) (gtid string, err error) {
	return session.QueryValue(ctx, c, fmt.Sprintf("SELECT BINLOG_GTID_POS(%s, %d)", session.Literal(p.File), p.Offset))
}

// scanGTID returns the GTID at a position: that at the start of the file, plus the transactions from there
// on. It reads the file up to the position.
func scanGTID(ctx context.Context, cfg mysqlconn.Config, c *mysqlconn.Client, p Position) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("read the GTID at %s from the binary log: %w", p, err)
	}
	start, err := gtidAt(ctx, c, Position{File: p.File, Offset: logStart})
	if err != nil {
		return fail(err)
	}
	known, err := parseGTIDs(start)
	if err != nil {
		return fail(err)
	}
	conn, err := session.Connect(ctx, cfg)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	if err := setForDump(ctx, conn, dumpSettings(DefaultHeartbeat)); err != nil {
		return fail(err)
	}
	id := randomServerID()
	dump := mysqlwire.BinlogDump{ServerID: id, Offset: logStart, File: []byte(p.File)}.AppendTo(nil)
	events, err := conn.DumpBinlog(ctx, mysqlwire.RegisterReplica{ServerID: id, Host: []byte("tare")}, dump)
	if err != nil {
		return fail(err)
	}
	for at := uint64(logStart); at < p.Offset; {
		raw, err := events.Next(ctx, 3*DefaultHeartbeat)
		if err != nil {
			return fail(err)
		}
		var e event
		if err := e.decode(raw, false); err != nil {
			return fail(err)
		}
		if e.kind == eventMariaGTID {
			t, ok := e.mariaGTID()
			if !ok {
				return fail(errShortEvent)
			}
			known.addMaria(t)
		}
		if e.next != 0 && e.flags&eventArtificial == 0 {
			at = offsetAfter(at, e.next)
		}
		events.ReleaseWide()
		if at > p.Offset {
			return fail(fmt.Errorf("an event ends at %d, none at the position", at))
		}
	}
	return known.String(), nil
}

// mariaGTID returns the GTID of the group that the event starts. The server's number is that of the event.
func (e *event) mariaGTID() (mariaGTID, bool) {
	const fixed = 8 + 4 + 1 // sequence, domain, flags
	if len(e.body) < fixed {
		return mariaGTID{}, false
	}
	return mariaGTID{domain: binary.LittleEndian.Uint32(e.body[8:]), server: e.server, sequence: binary.LittleEndian.Uint64(e.body)}, true
}

// offsetAfter returns the first offset at or after at with the given low 32 bits.
func offsetAfter(at uint64, low uint32) uint64 {
	next := at&^math.MaxUint32 | uint64(low)
	if next < at {
		next += 1 << 32
	}
	return next
}
