package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A killed server may leave a log file that ends within a transaction: within an event, which the server
// refuses to send, or between two events, after which the next file starts normally. At its restart the
// server rolled that transaction back, unless its commit is in the log. Its rows must not be applied, nor
// counted for the next transaction. The rollback is proven by the GTIDs before the next file, which MariaDB
// writes at its start. MySQL truncates its last file to complete transactions at its restart.

// gtidList processes the GTIDs before a log file, which end a group that the previous file has left open.
func (r *logReader) gtidList(e *event) error {
	if !r.open || r.openFile == r.file || e.flags&eventArtificial != 0 {
		return nil
	}
	const head, each = 4, 16
	var before gtids
	if len(e.body) < head {
		return r.unknown("a list of GTIDs", errShortEvent)
	}
	n := int(binary.LittleEndian.Uint32(e.body) & (1<<28 - 1))
	if len(e.body) < head+n*each {
		return r.unknown("a list of GTIDs", errShortEvent)
	}
	for b := e.body[head : head+n*each]; len(b) > 0; b = b[each:] {
		t := mariaGTID{domain: binary.LittleEndian.Uint32(b), server: binary.LittleEndian.Uint32(b[4:]), sequence: binary.LittleEndian.Uint64(b[8:])}
		before.mode, before.maria = mariaGTIDs, append(before.maria, t)
	}
	return r.cutOff(&before)
}

// noEnd returns an error if a group starts although the previous one has not ended and has rows.
func (r *logReader) noEnd() error {
	if !r.open || r.rows == 0 {
		return nil
	}
	return r.stop(StopRolledBack, "", fmt.Sprintf("a transaction in %s has no end there, and the log does not say whether the source rolled it back", r.openFile),
		"copy the tables again (option restart)", nil)
}

// cutOff drops the open group, whose end is missing from the log; before are the GTIDs that the source counts
// as committed.
func (r *logReader) cutOff(before *gtids) error {
	switch {
	case r.open && before.contains(&r.pending):
		return r.stop(StopUnknown, "", fmt.Sprintf("a transaction in %s has no end there, and the source counts it as committed", r.openFile),
			"copy the tables again (option restart)", nil)
	case r.handed > 0:
		return r.stop(StopRolledBack, "", fmt.Sprintf("a transaction in %s was cut off when the source was killed, which rolled it back; it is larger than a batch, and a part of it was applied", r.openFile),
			"copy the tables again (option restart)", nil)
	}
	r.xas.drop()
	cut(r.batch, r.first)
	r.open, r.single, r.ours, r.pending = false, false, false, pendingGTID{}
	r.scanned(false)
	r.rows, r.skip, r.savepoints = 0, 0, r.savepoints[:0]
	r.beats.open = false
	return nil
}

// isCut reports whether an error of a server means that its log ends within an event.
func isCut(e *mysqlconn.ServerError) bool {
	return e.Number == errReadingLog && strings.Contains(e.Error(), "truncated in the middle of event")
}

// skipCut continues with the file after one that ends within an event, once it is proven that no committed
// transaction is lost.
func (c *changes) skipCut(ctx context.Context, e *mysqlconn.ServerError) error {
	file := c.r.file
	unproven := func(what string) error {
		return c.r.stop(StopLogGone, "", fmt.Sprintf("the log file %s ends within an event: %s", file, what), "copy the tables again (option restart)", e)
	}
	conn, err := session.Connect(ctx, c.d.Config())
	if err != nil {
		return nil //nolint:nilerr // it is tried again after the connection was made again
	}
	defer func() { _ = conn.Close() }()
	files, err := logFiles(ctx, conn)
	if err != nil {
		return unproven(err.Error())
	}
	i := slices.IndexFunc(files, func(f logFile) bool { return f.name == file })
	if i < 0 || i+1 == len(files) {
		return unproven("there is no later one")
	}
	next := files[i+1].name
	if c.r.gtids.mode != mariaGTIDs || c.r.beats.await != "" {
		return unproven("without GTIDs of MariaDB it cannot be proven that the source rolled back what is cut off")
	}
	text, err := gtidAt(ctx, conn, Position{File: next, Offset: logStart})
	if err != nil {
		return unproven(err.Error())
	}
	before, err := parseGTIDs(text)
	if err != nil {
		return unproven(err.Error())
	}
	if !before.sameMaria(&c.r.gtids) {
		return unproven(fmt.Sprintf("the next one starts after %q, and the events read end with %q", text, c.r.gtids.String()))
	}
	if err := c.r.cutOff(&before); err != nil {
		return err
	}
	c.r.uptoFile, c.r.uptoOffset, c.r.moved = next, logStart, true
	c.after = Position{File: next, Offset: logStart}
	return nil
}

// logStart is the offset of the first event in a log file.
const logStart = 4

// sameMaria reports whether two positions have the same last transaction of each domain.
func (g *gtids) sameMaria(h *gtids) bool {
	return len(g.maria) == len(h.maria) && !slices.ContainsFunc(g.maria, func(t mariaGTID) bool {
		return !slices.ContainsFunc(h.maria, func(u mariaGTID) bool { return t.domain == u.domain && t.sequence == u.sequence })
	})
}
