package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// An Activity is what a session does.
type Activity uint8

// The activities. Those from ActivityPaused on are of a session within a command.
const (
	ActivityLogin       Activity = iota
	ActivityIdle                 // waits for a command
	ActivityTransaction          // waits for a command in an open transaction
	ActivityReplication          // reads the binary log
	ActivityPaused               // its command waits for the end of a pause
	ActivityPool                 // its command waits for a shared connection
	ActivityBackend              // waits for the backend
	ActivitySending              // relays a response: bytes arrived within the last second
	ActivityClient               // waits for the client, which sends the rest of a command or does not read the response
)

var activityNames = [...]string{
	ActivityLogin: "login", ActivityIdle: "idle", ActivityTransaction: "idle-in-transaction", ActivityReplication: "replication",
	ActivityPaused: "paused", ActivityPool: "waiting-for-connection", ActivityBackend: "waiting-for-backend", ActivitySending: "sending", ActivityClient: "waiting-for-client",
}

// String returns the activity's name in the API and in labels.
func (a Activity) String() string { return activityNames[a] }

// sendingFor is the maximum time since the last bytes of a response for ActivitySending.
const sendingFor = time.Second

// A Running is a statement in flight.
type Running struct {
	// Record is the statement's, as far as it is known: all that is set before its response. It is valid during the call.
	Record  *querylog.Record
	Unknown bool          // the finished record will have no digest and no texts, and those of this one must not be used
	Age     time.Duration // since Record.Start
	Session uint64        // number in this process
	Command uint32        // number in the session
}

// InFlight calls visit for each statement in flight, while its session is suspended: visit may change the record, and must
// not block. The calls are not concurrent. A pass costs the loops less than a microsecond per session.
func (s *Server) InFlight(visit func(r Running)) {
	now := time.Now()
	s.inspect(func(ses *session, w netloop.Suspension) {
		if !ses.isRunning() {
			return
		}
		undigested := ses.rec.Digest == sqldigest.Digest{}
		if undigested && ses.sent.IsZero() {
			return // its text is not complete yet
		}
		visit(Running{&ses.rec, ses.unreadable || undigested, now.Sub(ses.rec.Start), ses.number, ses.commands.Load()})
	})
}

// A SessionInfo is a session at one time. Times are zero, and numbers 0, where there is none.
type SessionInfo struct {
	Number     uint64 // in this process, from 1
	Command    uint32 // number of its current or last command
	Connection uint32 // the backend's id
	User       string
	Client     netip.AddrPort // zero: by a Unix socket
	Schema     string
	Backend    string // address
	Pinned     string // why it keeps a shared connection between its commands; "": it does not, or has its own
	Activity   Activity

	Name          string           // of the command in flight, such as "Query"
	Since         time.Time        // when the command arrived, or the session started to wait in a transaction
	Digest        sqldigest.Digest // of the statement in flight, or of the last one in the open transaction
	StatementType string
	Text          string // normalized, of the first Texts sessions of the list
	TextCut       bool
	Unreadable    bool      // the gateway does not know where the text's strings end: it is not shown
	Rows          uint64    // sent so far
	Transaction   time.Time // start of the open transaction
}

// InCommand reports whether the session executes a command.
func (i *SessionInfo) InCommand() bool { return i.Activity >= ActivityPaused }

// Busy are the sessions within a command or a transaction, those that keep a shared connection while they are idle, and counts of all.
type Busy struct {
	At       time.Time
	Counts   [len(activityNames)]int // by Activity
	Sessions []SessionInfo           // those within a command, then the others; the oldest first
	Dropped  int                     // sessions that are not in the list because of its limit
	// Longest are the sessions with the longest transactions, the oldest first, whatever they do: at most longestListed.
	Longest []SessionInfo
	// Start of the oldest command and of the oldest transaction; zero: none.
	OldestCommand, OldestTransaction time.Time
}

// longestListed bounds Busy.Longest.
const longestListed = 20

// Busy returns at most limit sessions. Commands younger than age are only counted. Its
// memory depends on limit, not on the number of sessions.
func (s *Server) Busy(limit int, age time.Duration) Busy {
	b := Busy{At: time.Now()}
	tasks := s.inspect(func(ses *session, w netloop.Suspension) { b.add(ses.info(w, b.At), limit, age) })
	b.Counts[ActivityLogin] += max(s.Sessions()-tasks, 0)
	b.finish(limit)
	s.addTexts(b.Sessions, b.Longest)
	return b
}

// add counts a session, and lists it if it is one of the oldest.
func (b *Busy) add(i SessionInfo, limit int, age time.Duration) {
	b.Counts[i.Activity]++
	b.OldestTransaction = earlier(b.OldestTransaction, i.Transaction)
	if i.InCommand() {
		b.OldestCommand = earlier(b.OldestCommand, i.Since)
	}
	if limit <= 0 {
		return
	}
	if i.InCommand() && b.At.Sub(i.Since) >= age || i.Activity == ActivityTransaction || i.Activity == ActivityIdle && i.Pinned != "" {
		b.Sessions = append(b.Sessions, i)
		if len(b.Sessions) >= 2*limit+longestListed {
			b.cut(limit)
		}
	}
	if !i.Transaction.IsZero() {
		if b.Longest = append(b.Longest, i); len(b.Longest) >= 2*longestListed {
			b.cutLongest(min(limit, longestListed))
		}
	}
}

func (b *Busy) finish(limit int) {
	b.cut(max(limit, 0))
	b.cutLongest(min(max(limit, 0), longestListed))
}

// cut keeps the first sessions.
func (b *Busy) cut(limit int) {
	slices.SortFunc(b.Sessions, func(x, y SessionInfo) int {
		if x.InCommand() != y.InCommand() {
			return cmp.Compare(y.Activity, x.Activity)
		}
		return cmp.Or(x.oldest().Compare(y.oldest()), cmp.Compare(x.Number, y.Number))
	})
	if n := len(b.Sessions); n > limit {
		b.Dropped += n - limit
		clear(b.Sessions[limit:])
		b.Sessions = b.Sessions[:limit]
	}
}

// cutLongest keeps the longest transactions.
func (b *Busy) cutLongest(limit int) {
	slices.SortFunc(b.Longest, func(x, y SessionInfo) int {
		return cmp.Or(x.Transaction.Compare(y.Transaction), cmp.Compare(x.Number, y.Number))
	})
	if len(b.Longest) > limit {
		clear(b.Longest[limit:])
		b.Longest = b.Longest[:limit]
	}
}

// oldest returns the start of what the session is listed for.
func (i *SessionInfo) oldest() time.Time {
	if i.Transaction.IsZero() || i.InCommand() {
		return i.Since
	}
	return i.Transaction
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// maxShownText is the maximum length of a text in the list of sessions, in bytes: texts of the list are copied at once.
const maxShownText = 16 << 10

// addTexts adds the texts of the statements that are still in flight.
func (s *Server) addTexts(lists ...[]SessionInfo) {
	at := make(map[uint64][]*SessionInfo)
	for _, list := range lists {
		for i := range list {
			if list[i].InCommand() {
				at[list[i].Number] = append(at[list[i].Number], &list[i])
			}
		}
	}
	if len(at) == 0 {
		return
	}
	s.inspectSome(func(ses *session) bool { return at[ses.number] != nil }, func(ses *session, _ netloop.Suspension) {
		if !ses.isRunning() || ses.unreadable {
			return
		}
		normalized := ses.rec.Normalized
		text, cut := string(normalized[:min(len(normalized), maxShownText)]), ses.rec.NormalizedCut || len(normalized) > maxShownText
		for _, i := range at[ses.number] {
			if ses.commands.Load() == i.Command {
				i.Text, i.TextCut = text, cut
			}
		}
	})
}

// inspect calls visit for the sessions that are logged in, and returns their number.
func (s *Server) inspect(visit func(*session, netloop.Suspension)) int {
	return s.inspectSome(func(*session) bool { return true }, visit)
}

func (s *Server) inspectSome(of func(*session) bool, visit func(*session, netloop.Suspension)) int {
	sessions, tasks := s.registry.tasks(of)
	s.loops.Inspect(tasks, func(i int, w netloop.Suspension) { visit(sessions[i], w) })
	return len(tasks)
}

// tasks returns sessions after their login, with their tasks.
func (r *registry) tasks(of func(*session) bool) (sessions []*session, tasks []*netloop.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		if t := ses.served.Load(); t != nil && of(ses) {
			sessions, tasks = append(sessions, ses), append(tasks, t)
		}
	}
	return sessions, tasks
}

// isRunning reports whether the record is of a command in flight. It is called while the session is suspended, as info is.
func (x *relayer) isRunning() bool {
	return x.inCommand() && x.rec.Start.Equal(x.msg.start)
}

// inCommand reports whether a command has arrived and its response is not finished.
func (x *relayer) inCommand() bool {
	if x.query == nil || x.msg.start.IsZero() {
		return false
	}
	switch x.phase.Load() {
	case phaseBusy:
		return true
	case phasePaused:
		return x.msg.size > 0
	}
	return false
}

// info returns the session's state without its text.
func (s *session) info(w netloop.Suspension, now time.Time) SessionInfo {
	i := SessionInfo{
		Number: s.number, Command: s.commands.Load(), Connection: s.backendID(), User: s.modes.user, Client: s.remote, Schema: s.modes.schema,
		Activity: s.activity(w, now),
	}
	if s.to != nil {
		i.Backend = s.to.Addr
	}
	i.Pinned = s.pinReason()
	if s.transaction.number != 0 {
		i.Transaction = s.srv.started.Add(s.transaction.since)
	}
	switch {
	case i.InCommand():
		i.Since, i.Name = s.msg.start, s.msg.cmd.String()
		if s.isRunning() {
			i.Rows, i.Unreadable, i.StatementType = s.resp.Rows, s.unreadable, s.rec.StatementType
			if !s.unreadable {
				i.Digest = s.rec.Digest
			}
		}
	case i.Activity == ActivityTransaction:
		i.Digest, i.Since = s.transaction.last, s.srv.started.Add(s.transaction.waits)
	case i.Activity == ActivityIdle && i.Pinned != "":
		if p := s.carried.pin.Load(); p != nil {
			i.Digest, i.Since = p.Digest, p.Since
		}
	}
	return i
}

func (s *session) activity(w netloop.Suspension, now time.Time) Activity {
	if !s.inCommand() {
		switch {
		case s.phase.Load() == phasePipe:
			return ActivityReplication
		case s.transaction.number != 0:
			return ActivityTransaction
		}
		return ActivityIdle
	}
	switch {
	case s.phase.Load() == phasePaused:
		return ActivityPaused
	case s.pausing.Load() && s.lease.waiter.Grant == pool.GrantNone:
		return ActivityPool
	case w.Conn != nil && w.Conn == onLoop(s.client):
		return ActivityClient
	case s.isRunning() && !s.firstByte.IsZero() && now.Sub(s.lastByte) < sendingFor:
		return ActivitySending
	}
	return ActivityBackend
}

// A Kill names a session, or the statement that it executes.
type Kill struct {
	Session uint64 // SessionInfo.Number
	Command uint32 // SessionInfo.Command: another command of the session is not killed; 0: any, of a whole session
	Whole   bool   // the session, not only the statement
}

// Errors of Kill.
var (
	ErrNoSession   = errors.New("the session has ended")
	ErrOtherNow    = errors.New("the session executes another command now, or none")
	ErrNotSent     = errors.New("the statement is not at the backend: kill the session")
	ErrNoKill      = errors.New("a statement is killed through the control account: set option control, or kill the session")
	ErrBeingKilled = errors.New("the statement is being killed")
)

// Kill kills a statement by KILL QUERY, or a session: its client receives an error, and its connections are closed. It returns
// the session as it was before. The statement is killed through the control account, and the session's next command waits
// for that. Like every KILL QUERY it ends the statement that the server executes at that moment. It has no effect before the
// server has begun the command, or between two statements of one command: call Kill again if the command continues.
func (s *Server) Kill(k Kill) (victim SessionInfo, err error) {
	if !k.Whole && s.opts.KillQuery == nil {
		return victim, ErrNoKill
	}
	err = ErrNoSession
	var hold *killHold
	s.inspectSome(func(ses *session) bool { return ses.number == k.Session }, func(ses *session, w netloop.Suspension) {
		victim = ses.info(w, time.Now())
		hold, err = ses.beginKill(k, &victim)
	})
	if err != nil || hold == nil {
		return victim, err
	}
	defer close(hold.done)
	if err := s.opts.KillQuery(victim.Backend, victim.Connection); err != nil {
		return victim, fmt.Errorf("kill the statement of session %d: %w", k.Session, err)
	}
	s.metrics.stripe().kills.Add(1)
	return victim, nil
}

// beginKill ends the session, or returns the hold for a KILL QUERY. It is called while the session is suspended.
func (s *session) beginKill(k Kill, now *SessionInfo) (*killHold, error) {
	switch {
	case k.Command != now.Command && (k.Command != 0 || !k.Whole):
		return nil, ErrOtherNow
	case k.Whole:
		s.interrupt(causeKilled)
		return nil, nil
	case !now.InCommand():
		return nil, ErrOtherNow
	case s.pausing.Load():
		s.interrupt(causeQueryKilled)
		return nil, nil
	case !s.isRunning() || s.sent.IsZero() || now.Activity == ActivityPaused:
		return nil, ErrNotSent
	case s.turnstile.isHeld():
		return nil, ErrBeingKilled
	}
	return s.turnstile.holdNext(), nil
}

// killedError is the error for the client of a killed session.
func (x *relayer) killedError() *clientError {
	e := &clientError{errno: mysqlwire.ErrnoQueryInterrupted, msg: "Tare closed this connection: an operator killed the session"}
	if x.modes.maria {
		e.errno = mysqlwire.ErrnoConnectionKilled
	}
	return e
}
