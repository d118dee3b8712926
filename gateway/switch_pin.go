package gateway

import (
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/mysql/sqlplan"
)

// A pin is the reason why a session cannot move to another server: part of its state exists only in the
// server. It lasts until the session is reset.
type pin struct {
	Reason string
	Digest sqldigest.Digest // of the statement that caused it; zero if none
	Since  time.Time
}

func (p *pin) Error() string {
	if p.Digest == (sqldigest.Digest{}) {
		return p.Reason
	}
	return fmt.Sprintf("%s (statement with digest %s)", p.Reason, p.Digest)
}

// trackFailed pins the session if a failed statement may have left state before it failed.
func (s *session) trackFailed() {
	if s.srv.opts.Standby == nil || s.resp.Errno == uint16(mysqlwire.ErrnoSyntax) && s.resp.Results == 1 {
		return
	}
	effects := s.plan.Effects()
	if s.resp.Results == 1 {
		effects &^= replayedEffects // a single statement set nothing
	}
	if effects.Any(statefulEffects) {
		s.track(effects)
	}
}

const lockedTables = "locked tables"

// effectPins are the effects that pin a session, with the state they leave in the server.
var effectPins = []struct {
	effect sqlplan.Effect
	reason string
}{
	{sqlplan.EffectTempTable, "a temporary table"},
	{sqlplan.EffectTableLocks, lockedTables},
	{sqlplan.EffectNamedLock, "a lock by name (GET_LOCK)"},
	{sqlplan.EffectXA, "an XA transaction"},
	{sqlplan.EffectPrepare, "a statement prepared by PREPARE … FROM"},
	{sqlplan.EffectHandler, "an open HANDLER"},
	{sqlplan.EffectFunction, "a stored function was called, which may have left something"},
	{sqlplan.EffectUnknown, "a procedure was called, or a statement that is not understood: it may have left something"},
}

// statefulEffects leave state in the session that has to be replayed on another server, or that pins.
const statefulEffects = sqlplan.EffectTempTable | sqlplan.EffectTableLocks | sqlplan.EffectNamedLock | sqlplan.EffectXA |
	sqlplan.EffectPrepare | sqlplan.EffectHandler | sqlplan.EffectFunction | sqlplan.EffectUnknown | replayedEffects

// replayedEffects are those of SET, whose text is kept for replay.
const replayedEffects = sqlplan.EffectSessionVar | sqlplan.EffectSQLMode | sqlplan.EffectCharset | sqlplan.EffectAutocommit |
	sqlplan.EffectTxMode | sqlplan.EffectUserVarWrite | sqlplan.EffectRole

// pinSession pins the session; the first reason is kept.
func (s *session) pinSession(reason string) {
	s.rec.PinnedReason = reason
	if s.pin.Load() == nil {
		s.pin.Store(&pin{Reason: reason, Digest: s.rec.Digest, Since: time.Now()})
	}
}

// track records the effects of the current statement on its session, if there is a server to switch to. It
// does not allocate for a SET that is kept already.
func (s *session) track(effects sqlplan.Effect) {
	if s.srv.opts.Standby == nil {
		return
	}
	if s.plan.Type() == sqlplan.TypeUnlock {
		if p := s.pin.Load(); p != nil && p.Reason == lockedTables {
			s.pin.Store(nil)
		}
		return
	}
	if s.plan.Type() == sqlplan.TypeSet && s.resp.Results == 1 && s.resp.Errno == 0 && s.keepSet(effects) {
		return
	}
	for _, p := range effectPins {
		if effects.Has(p.effect) {
			s.pinSession(p.reason)
			return
		}
	}
	if effects.Any(replayedEffects) {
		s.pinSession("session or user variables that were set otherwise than by a SET that can be said again")
	}
}

// keepSet keeps the text of a SET and reports whether replaying it restores the state.
func (s *session) keepSet(effects sqlplan.Effect) bool {
	if s.msg.cmd != mysqlwire.ComQuery || !s.msg.whole {
		return false
	}
	switch s.sets.judge(s.rec.Text, s.modes.mode, effects) {
	case setNothing:
		return true
	case setNext:
		s.nextOnly = true
		return true
	case setKept:
		if s.sets.keep(s.rec.Text) {
			return true
		}
		s.pinSession(fmt.Sprintf("more than %d bytes of SET statements", maxSets))
		return true
	}
	return false
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
