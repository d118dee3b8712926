package gateway

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// A pin is the reason why a session cannot move to another server: part of its state exists only in the
// server. It lasts until what it consists of has ended, or the session is reset.
type pin struct {
	Reason string
	Digest sqldigest.Digest // of the statement that caused it; zero if none
	Since  time.Time

	names   map[string]int // its parts, and how often each was created
	endless bool           // of more than names
}

func (p *pin) Error() string {
	if p.Digest == (sqldigest.Digest{}) {
		return p.Reason
	}
	return fmt.Sprintf("%s (statement with digest %s)", p.Reason, p.Digest)
}

const (
	temporaryTable = "a temporary table"
	lockedTables   = "locked tables"
	xaTransaction  = "an XA transaction"
	functionLeft   = "a stored function was called, which may have left something"
	unknownLeft    = "a procedure was called, or a statement that is not understood: it may have left something"
	lockedInstance = "a backup lock" // of LOCK INSTANCE, which UNLOCK TABLES does not release
)

// effectPins are the effects that pin a session, with the state they leave in the server.
var effectPins = []struct {
	effect sqlplan.Effect
	reason string
	kind   pool.Kind
}{
	{sqlplan.EffectTempTable, temporaryTable, pool.KindTempTable},
	{sqlplan.EffectTableLocks, lockedTables, pool.KindNone},
	{sqlplan.EffectNamedLock, "a lock by name (GET_LOCK)", pool.KindNamedLock},
	{sqlplan.EffectXA, xaTransaction, pool.KindXA},
	{sqlplan.EffectPrepare, "a statement prepared by PREPARE … FROM", pool.KindPrepared},
	{sqlplan.EffectHandler, "an open HANDLER", pool.KindHandler},
	{sqlplan.EffectFunction, functionLeft, pool.KindNone},
	{sqlplan.EffectUnknown, unknownLeft, pool.KindNone},
}

// statefulEffects leave state in the session that has to be replayed on another server, or that pins.
const statefulEffects = sqlplan.EffectTempTable | sqlplan.EffectTableLocks | sqlplan.EffectNamedLock | sqlplan.EffectXA |
	sqlplan.EffectPrepare | sqlplan.EffectHandler | sqlplan.EffectFunction | sqlplan.EffectUnknown | replayedEffects

// replayedEffects are those of SET, whose text is kept for replay.
const replayedEffects = sqlplan.EffectSessionVar | sqlplan.EffectSQLMode | sqlplan.EffectCharset | sqlplan.EffectAutocommit |
	sqlplan.EffectTxMode | sqlplan.EffectUserVarWrite | sqlplan.EffectRole

// A carried is the state of a session that another server has to be brought into if the session moves there, or the reason
// why it cannot move.
type carried struct {
	pin      atomic.Pointer[pin] // the first of pins; other goroutines read it
	pins     []*pin              // one for each reason
	shares   bool                // the session shares connections: what is replayed is not compared
	ended    bool                // the current statement has ended something that pins
	sets     settings            // SET statements
	role     *sqldigest.Digest   // of a statement that has set the role or the resource group
	wasReset bool                // by COM_RESET_CONNECTION
	multi    uint16              // the last COM_SET_OPTION's option, plus 1; 0 if there was none
}

// clear drops the state, and the pin: the user was changed.
func (c *carried) clear() {
	c.pin.Store(nil)
	c.pins = nil
	c.sets.clear()
	c.role = nil
	c.wasReset = false
}

// spoil has the session's shared connection closed after its use if a reset may not restore what the session has left in it: a role, a
// resource group, or on MariaDB a prepared XA transaction, with which statements fail.
func (s *session) spoil() {
	left := func(p *pin) bool {
		switch p.Reason {
		case xaTransaction, functionLeft, unknownLeft, changedReason:
			return true
		}
		return p.endless // EXECUTE
	}
	if s.lease.shared != nil && (s.carried.role != nil || slices.ContainsFunc(s.carried.pins, left)) {
		s.lease.shared.Value.last = true
	}
}

// forgetShared brings the session into the state after its login, and returns its connection. That has been reset, even where
// a reset does not lead to the state after a login and the connection is closed: its locks are free before the client has a response.
func (s *session) forgetShared() error {
	s.transaction.rollBack()
	s.transaction.reset()
	s.spoil()
	s.carried.clear()
	s.statements.clear()
	s.statements.moved = true
	s.lease.insertID, s.lease.unread = 0, false
	if s.lease.shared == nil {
		return nil
	}
	resets := s.lease.shared.Value.login.resets
	s.carried.wasReset = !resets
	err := s.resetShared()
	s.carried.wasReset = false
	switch {
	case err != nil || s.lease.shared == nil:
		return err
	case s.carried.multi != 0 || !resets:
		s.discardShared()
		return nil
	}
	return s.giveBack()
}

// reset records COM_RESET_CONNECTION.
func (c *carried) reset() {
	role := c.role
	c.clear()
	c.wasReset = true
	if c.role = role; role != nil {
		c.pinFor(*role, "a role or a resource group, which COM_RESET_CONNECTION does not restore")
	}
}

// setOption records COM_SET_OPTION.
func (c *carried) setOption(o mysqlwire.Option) { c.multi = uint16(o) + 1 }

// takesSeveral reports whether the connection permits several statements in one text, with the capabilities of its login.
func (c *carried) takesSeveral(caps mysqlwire.Capability) bool {
	switch c.multi {
	case uint16(mysqlwire.OptionMultiStatementsOn) + 1:
		return true
	case uint16(mysqlwire.OptionMultiStatementsOff) + 1:
		return false
	}
	return caps.Has(mysqlwire.CapMultiStatements)
}

// pinSession pins the session of the current statement.
func (c *carried) pinSession(q *query, reason string) {
	q.rec.PinnedReason = reason
	c.pinFor(q.rec.Digest, reason)
}

// pinFor pins the session of an earlier statement.
func (c *carried) pinFor(statement sqldigest.Digest, reason string) {
	for _, p := range c.pins {
		if p.Reason == reason {
			return
		}
	}
	c.pins = append(c.pins, &pin{Reason: reason, Digest: statement, Since: time.Now()})
	c.pin.Store(c.pins[0])
}

// cause records what the current statement does with the causes of a pin.
func (c *carried) cause(q *query, reason string, kind pool.Kind, cause pool.Cause) {
	if cause.Kind != kind {
		cause = pool.Cause{Kind: kind}
	}
	if cause.Kind == pool.KindTempTable && !strings.Contains(cause.Name, ".") {
		cause.Name = q.rec.Schema + "." + cause.Name
	}
	i := slices.IndexFunc(c.pins, func(p *pin) bool { return p.Reason == reason })
	switch cause.Does {
	case pool.DoesUse:
		return
	case pool.DoesEnd, pool.DoesEndAll:
		if i < 0 || q.resp.Errno != 0 || c.pins[i].endless && cause.Does != pool.DoesEndAll {
			return
		}
		c.ended = true
		p := c.pins[i]
		if p.names[cause.Name]--; p.names[cause.Name] <= 0 {
			delete(p.names, cause.Name)
		}
		if len(p.names) == 0 || cause.Does == pool.DoesEndAll {
			c.unpin(reason)
		}
		return
	}
	c.pinSession(q, reason)
	if i < 0 {
		i = len(c.pins) - 1
	}
	p := c.pins[i]
	if p.names == nil {
		p.names = make(map[string]int)
	}
	switch cause.Does {
	case pool.DoesAnything:
		p.endless = true
	case pool.DoesCreate:
		p.names[cause.Name] = 1
	case pool.DoesAdd:
		p.names[cause.Name]++
	}
}

// changesTables records a statement that may have dropped or renamed a temporary table, though it does not say so.
func (c *carried) changesTables(q *query, mode sqldigest.Mode) {
	if !slices.ContainsFunc(c.pins, func(p *pin) bool { return p.Reason == temporaryTable }) {
		return
	}
	if cause := q.cause(mode); cause.Kind == pool.KindTempTable || q.plan.Type() == sqlplan.TypeMulti {
		c.cause(q, temporaryTable, pool.KindTempTable, cause)
	}
}

// cause returns what the statement does with the causes of pins.
func (q *query) cause(mode sqldigest.Mode) pool.Cause {
	if q.msg.cmd != mysqlwire.ComQuery || !q.msg.whole || q.resp.Results > 1 {
		return pool.Cause{}
	}
	return pool.CauseOf(q.rec.Text, mode)
}

// unpin ends a pin. Those for other reasons stay.
func (c *carried) unpin(reason string) {
	c.pins = slices.DeleteFunc(c.pins, func(p *pin) bool { return p.Reason == reason })
	if len(c.pins) == 0 {
		c.pin.Store(nil)
		return
	}
	c.pin.Store(c.pins[0])
}

// track records the effects of the current statement. It reports whether they concern the next transaction only. It
// does not allocate for a SET that is kept already.
func (c *carried) track(q *query, mode sqldigest.Mode, effects sqlplan.Effect) (next bool) {
	if q.plan.Type() == sqlplan.TypeUnlock {
		c.unpin(lockReason(q.rec.Text, mode))
		return false
	}
	if effects.Has(sqlplan.EffectRole) {
		digest := sqldigest.Digest(q.rec.Digest)
		c.role = &digest
	}
	if q.plan.Type() == sqlplan.TypeSet && q.resp.Results == 1 && q.resp.Errno == 0 && q.msg.cmd == mysqlwire.ComQuery && q.msg.whole {
		switch c.sets.judge(q.rec.Text, mode, effects) {
		case setNothing:
			return false
		case setNext:
			return true
		case setKept:
			if c.shares && !pool.Movable(q.rec.Text, mode) {
				c.pinSession(q, "user variables, or session variables that were set otherwise than to plain values")
				return false
			}
			if !c.sets.keep(q.rec.Text, effects) {
				c.pinSession(q, fmt.Sprintf("more than %d bytes of SET statements", maxSets))
			}
			return false
		}
	}
	leaves, cause := false, q.cause(mode)
	if cause.Kind == pool.KindNamedLock && cause.Does != pool.DoesAnything {
		effects &^= sqlplan.EffectFunction // that of the lock
	}
	for _, p := range effectPins {
		if effects.Has(p.effect) {
			leaves = true
			reason := p.reason
			if reason == lockedTables {
				reason = lockReason(q.rec.Text, mode)
			}
			if p.kind == pool.KindNone {
				c.pinSession(q, reason)
			} else {
				c.cause(q, reason, p.kind, cause)
			}
		}
	}
	if !leaves && effects.Any(replayedEffects) {
		c.pinSession(q, "session or user variables that were set otherwise than by a SET that can be said again")
	}
	return false
}

// lockReason returns the reason for the pin that a LOCK starts and an UNLOCK ends.
func lockReason(sql []byte, mode sqldigest.Mode) string {
	var l sqldigest.Lexer
	l.Reset(sql, mode)
	l.NextSignificant()
	if t := l.NextSignificant(); bytes.EqualFold(sql[t.Start:t.End], []byte("INSTANCE")) {
		return lockedInstance
	}
	return lockedTables
}

// replay brings another connection into the state.
func (c *carried) replay(ctx context.Context, to *mysqlconn.Client, schema string) error {
	if c.wasReset {
		if err := to.Send(ctx, []byte{byte(mysqlwire.ComResetConnection)}); err != nil {
			return err
		}
	}
	if schema != "" {
		if err := useSchema(ctx, to, schema); err != nil {
			return err
		}
	}
	for sql := range c.sets.all() {
		if _, err := to.Exec(ctx, string(sql)); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	if c.multi == 0 {
		return nil
	}
	option := mysqlwire.SetOption{Option: mysqlwire.Option(c.multi - 1)}
	return to.Send(ctx, option.AppendTo(nil))
}

// A PinnedSession is a session that a switch would have to close.
type PinnedSession struct {
	Connection uint32    `json:"connection"`
	User       string    `json:"user"`
	Client     string    `json:"client"`
	Reason     string    `json:"reason"`
	Digest     string    `json:"digest,omitempty"` // of the statement that caused it
	Since      time.Time `json:"since,omitzero"`
}

// A PinnedError lists the sessions that would have to be closed for a switch.
type PinnedError struct {
	Sessions []PinnedSession
}

func (e *PinnedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sessions cannot be taken along", len(e.Sessions))
	for i, p := range e.Sessions {
		if i == 3 {
			b.WriteString("; …")
			break
		}
		fmt.Fprintf(&b, "; connection %d of user %q: %s", p.Connection, p.User, p.Reason)
	}
	b.WriteString(`: wait until they end, or let the switch close them ("pinned": "close")`)
	return b.String()
}

// maxSets bounds the kept SET statements of a session, in bytes.
const maxSets = 16 << 10

// settings are the distinct SET statements of a session, ordered by their most recent execution. Replayed in
// order they bring a new connection into the session's state.
type settings struct {
	text []byte
	ends []int32 // of each statement in text
	user bool    // one of them assigns user variables, whose values depend on the modes that those before it set

	reads   []bool // each: it decides how later statements are read
	reading uint64 // hash of those
}

// all yields the statements, as views.
func (s *settings) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := int32(0)
		for _, end := range s.ends {
			if !yield(s.text[at:end:end]) {
				return
			}
			at = end
		}
	}
}

// decisive yields the statements that decide how later ones are read, as views.
func (s *settings) decisive() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := 0
		for sql := range s.all() {
			if s.reads[i] && !yield(sql) {
				return
			}
			i++
		}
	}
}

// rehash updates reading.
func (s *settings) rehash() {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	s.reading = 0
	for sql := range s.decisive() {
		s.reading = (s.reading ^ offset) * prime
		for _, b := range sql {
			s.reading = (s.reading ^ uint64(b)) * prime
		}
	}
}

// keep appends a statement, and removes an equal earlier one, unless it sets modes that a statement since then depends on. It reports
// whether there was room. It does not allocate for an equal one that it removes.
func (s *settings) keep(sql []byte, effects sqlplan.Effect) bool {
	at := int32(0)
	reads := effects.Any(sqlplan.EffectCharset | sqlplan.EffectSQLMode)
	stays := s.user && reads
	s.user = s.user || effects.Has(sqlplan.EffectUserVarWrite)
	for i, end := range s.ends {
		if stays && i < len(s.ends)-1 || !bytes.Equal(s.text[at:end], sql) {
			at = end
			continue
		}
		if i == len(s.ends)-1 {
			return true
		}
		n := end - at
		copy(s.text[at:], s.text[end:])
		copy(s.text[len(s.text)-int(n):], sql)
		copy(s.ends[i:], s.ends[i+1:])
		for k := i; k < len(s.ends)-1; k++ {
			s.ends[k] -= n
		}
		s.ends[len(s.ends)-1] = int32(len(s.text))
		copy(s.reads[i:], s.reads[i+1:])
		s.reads[len(s.reads)-1] = reads
		s.rehash()
		return true
	}
	if len(s.text)+len(sql) > maxSets {
		return false
	}
	s.text = append(s.text, sql...)
	s.ends, s.reads = append(s.ends, int32(len(s.text))), append(s.reads, reads)
	if reads {
		s.rehash()
	}
	return true
}

func (s *settings) clear() { *s = settings{} }

// equal reports whether the statements are the same, in the same order.
func (s *settings) equal(t *settings) bool {
	return len(s.ends) == len(t.ends) && bytes.Equal(s.text, t.text)
}

// copy makes the statements those of t.
func (s *settings) copy(t *settings) {
	s.text, s.ends, s.reads = append(s.text[:0], t.text...), append(s.ends[:0], t.ends...), append(s.reads[:0], t.reads...)
	s.reading = t.reading
}

// after returns the number of leading statements that are those of t; full: t has others.
func (s *settings) after(t *settings) (n int, full bool) {
	if len(t.ends) > len(s.ends) || !bytes.HasPrefix(s.text, t.text) {
		return 0, true
	}
	for i, end := range t.ends {
		if s.ends[i] != end {
			return 0, true
		}
	}
	return len(t.ends), false
}

// A setKind is the treatment of a SET statement.
type setKind uint8

const (
	setPins    setKind = iota // repeating it may have another effect
	setNothing                // it does not affect the session
	setNext                   // it affects the next transaction only
	setKept                   // it is replayed
)

// judge returns the treatment of a successful SET statement with these effects. System variables may be set
// from any expression, since their values are compared afterwards; user variables only from literals, since
// theirs are not.
func (s *settings) judge(sql []byte, m sqldigest.Mode, effects sqlplan.Effect) setKind {
	const others = ^(replayedEffects | sqlplan.EffectGlobalVar | sqlplan.EffectImplicitCommit | sqlplan.EffectInsertID)
	session := effects.Any(replayedEffects)
	switch {
	case effects&others != 0:
		return setPins
	case effects.Has(sqlplan.EffectGlobalVar):
		if session {
			return setPins
		}
		return setNothing
	case !session:
		return setNothing
	}
	var l sqldigest.Lexer
	l.Reset(sql, m)
	user := effects.Has(sqlplan.EffectUserVarWrite)
	assigned := false // the previous token was an assignment
	for n := 0; ; n++ {
		t := l.NextSignificant()
		word := sql[t.Start:t.End]
		value := assigned
		assigned = false
		switch t.Kind {
		case sqldigest.KindEOF:
			return setKept
		case sqldigest.KindParam, sqldigest.KindExecOpen:
			return setPins
		case sqldigest.KindOperator:
			assigned = bytes.Equal(word, []byte("=")) || bytes.Equal(word, []byte(":="))
			if user && (word[0] == '(' || value && word[0] == '@') {
				return setPins
			}
		case sqldigest.KindKeyword, sqldigest.KindIdent:
			switch {
			case n == 1 && isAny(word, "TRANSACTION"):
				return setNext
			case isAny(word, "INSERT_ID", "GTID_NEXT", "GTID_SEQ_NO"):
				return setPins // used up by a statement
			case user && value && !isAny(word, "TRUE", "FALSE", "NULL", "DEFAULT", "ON", "OFF"):
				return setPins
			}
		}
	}
}

// A transaction is the unit of work that a session has open. Times are since the server's start.
type transaction struct {
	number uint64           // 0 outside a transaction
	since  time.Duration    // the start of its first statement
	waits  time.Duration    // the end of its last statement
	last   sqldigest.Digest // of its last statement; zero if that was unreadable

	longOpen bool // a value was sent in pieces and not executed with yet
	nextOnly bool // SET TRANSACTION was executed for the next transaction only
}

// note records that the statement of r has finished at a time, with the server's status. It numbers the transaction, from
// the statement that started it to the one that ended it. It does not allocate.
func (t *transaction) note(st mysqlwire.Status, r *querylog.Record, now, started time.Time, numbers *atomic.Uint64) {
	open := st.Has(mysqlwire.StatusInTrans)
	if open && t.number == 0 {
		t.number = numbers.Add(1)
		t.since = r.Start.Sub(started)
		t.nextOnly = false
	}
	if open {
		t.waits, t.last = now.Sub(started), r.Digest
	}
	r.TransactionID = t.number
	if !open {
		t.number = 0
	}
}

// hide forgets the last statement's digest.
func (t *transaction) hide() { t.last = sqldigest.Digest{} }

// rollBack records that the server has rolled back.
func (t *transaction) rollBack() { t.number = 0 }

// reset records that the server has reset the session.
func (t *transaction) reset() { t.longOpen, t.nextOnly = false, false }

// sendsLong records whether a value was sent in pieces that no statement was executed with.
func (t *transaction) sendsLong(open bool) { t.longOpen = open }

// startsNext records that a SET TRANSACTION was executed for the next transaction.
func (t *transaction) startsNext() { t.nextOnly = true }

// continues reports whether the next command continues an open unit of work: a transaction, the pieces of a long
// value, or the transaction that SET TRANSACTION prepared.
func (t *transaction) continues(st mysqlwire.Status) bool {
	return st.Has(mysqlwire.StatusInTrans) || t.longOpen || t.nextOnly
}
