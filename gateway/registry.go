package gateway

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A registry is the set of a server's sessions.
type registry struct {
	mu       sync.Mutex
	sessions map[*session]struct{}
	draining bool
}

func (r *registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// interruptAll interrupts every session. The caller holds r.mu.
func (r *registry) interruptAll(cause uint32) {
	for ses := range r.sessions {
		ses.interrupt(cause)
	}
}

// inside returns the number of sessions within a statement or a transaction.
func (r *registry) inside() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		if p := ses.phase.Load(); p == phaseBusy || p == phaseOpen {
			n++
		}
	}
	return n
}

// insideList returns sessions within a statement or transaction.
func (r *registry) insideList() (list []InsideSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		doing := ""
		switch ses.phase.Load() {
		case phaseBusy:
			doing = "a statement runs"
		case phaseOpen:
			doing = "a transaction is open"
		default:
			continue
		}
		if len(list) == maxInside {
			break
		}
		in := InsideSession{Connection: ses.shown.connection.Load(), Client: ses.remote.String(), Doing: doing}
		if user := ses.shown.user.Load(); user != nil {
			in.User = *user
		}
		list = append(list, in)
	}
	return list
}

// A BusyWatch finds sessions that stay within one command. It is not safe for concurrent use.
type BusyWatch struct {
	registry   *registry
	last, next map[*session]uint32 // busy sessions, with the number of their command
}

// NewBusyWatch returns a BusyWatch that has seen no session.
func (s *Server) NewBusyWatch() *BusyWatch {
	return &BusyWatch{registry: &s.registry, last: make(map[*session]uint32), next: make(map[*session]uint32)}
}

// Same returns the number of sessions that are within the same command as at the last call.
func (w *BusyWatch) Same() (n int) {
	clear(w.next)
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	for ses := range w.registry.sessions {
		if ses.phase.Load() != phaseBusy {
			continue
		}
		command := ses.commands.Load()
		if before, ok := w.last[ses]; ok && before == command {
			n++
		}
		w.next[ses] = command
	}
	w.last, w.next = w.next, w.last
	return n
}

// ClientOf returns the address of the client whose session has a connection to the server with this number.
func (s *Server) ClientOf(connection uint32) (netip.AddrPort, bool) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for ses := range s.registry.sessions {
		if ses.shown.connection.Load() == connection {
			return ses.remote, true
		}
	}
	return netip.AddrPort{}, false
}

// pinned returns the sessions that are known to be pinned.
func (r *registry) pinned() (pins []PinnedSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		p := ses.carried.pin.Load()
		if ses.phase.Load() == phasePipe {
			p = &pin{Reason: "it reads the binary log"}
		}
		if kept := keptBy(ses.lease.holds.Load()); p == nil && kept != keptNot && kept != keptByDiagnostics && kept != keptByTransaction {
			p = &pin{Reason: keptReasons[kept]}
		}
		if p == nil {
			continue
		}
		found := PinnedSession{Connection: ses.shown.connection.Load(), Client: ses.remote.String(), Reason: p.Reason, Since: p.Since}
		if user := ses.shown.user.Load(); user != nil {
			found.User = *user
		}
		if p.Digest != (sqldigest.Digest{}) {
			found.Digest = p.Digest.String()
		}
		pins = append(pins, found)
	}
	return pins
}

// participants returns the sessions that have to connect to the other side. A session that is still logging
// in picks up the new route before its first command.
func (r *registry) participants() map[*session]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*session]struct{}, len(r.sessions))
	for ses := range r.sessions {
		switch ses.phase.Load() {
		case phaseLogin, phasePipe:
		default:
			all[ses] = struct{}{}
		}
	}
	return all
}

// closePipes closes the sessions that read a binary log, which cannot be moved, and returns their number.
func (r *registry) closePipes() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ses := range r.sessions {
		if ses.phase.Load() == phasePipe {
			ses.interrupt(causeDrainLimit)
			n++
		}
	}
	return n
}

// count returns the number of sessions.
func (r *registry) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

// A placement counts sessions by their loop.
type placement struct {
	mu       sync.Mutex
	sessions map[string][]int // of a user
	all      []int
}

// place chooses the loop of a new session of a user: the one on which the fewest of them share one connection.
func (all lenders) place(user string) (number int) {
	p := all[0].placed
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.of(user)
	for i := 1; i < len(n); i++ {
		a, b := n[i]*all[number].part.Max, n[number]*all[i].part.Max
		if a < b || a == b && p.all[i] < p.all[number] {
			number = i
		}
	}
	n[number]++
	p.all[number]++
	return number
}

// of returns the counts of a user.
func (p *placement) of(user string) []int {
	n := p.sessions[user]
	if n == nil {
		n = make([]int, len(p.all))
		p.sessions[user] = n
	}
	return n
}

// has reports whether a user has sessions.
func (p *placement) has(user string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[user] != nil
}

// add counts a session that has changed its user.
func (p *placement) add(user string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[number]++
	p.of(user)[number]++
}

// left records the end of a session.
func (p *placement) left(user string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[number]--
	n := p.sessions[user]
	if n[number]--; slices.Max(n) == 0 {
		delete(p.sessions, user)
	}
}
