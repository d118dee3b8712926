package switchover

import (
	"errors"
	"fmt"
	"time"
)

// A Side names one of the two servers that a gateway may have behind it.
type Side uint8

// The sides.
const (
	Backend Side = iota
	Standby
)

// String returns the side's name in the API and in the metrics.
func (s Side) String() string {
	if s == Standby {
		return "standby"
	}
	return "backend"
}

// ParseSide returns the side with the given name.
func ParseSide(name string) (Side, error) {
	switch name {
	case "backend":
		return Backend, nil
	case "standby":
		return Standby, nil
	}
	return 0, fmt.Errorf("want backend or standby, not %q", name)
}

// Reasons why a pause or a switch is refused or ends.
var (
	ErrPaused        = errors.New("another client has paused the sessions: try again when the pause is over")
	ErrNotPaused     = errors.New("there is no such hold: it was released, or its time was over")
	ErrAlreadyActive = errors.New("the sessions are on that side already")
	ErrDraining      = errors.New("the gateway shuts down")
	ErrPauseLimit    = errors.New("the hold's time was over")
	ErrWaiting       = errors.New("the hold still waits for statements and transactions to end")
)

// A Stage is the progress of a pause.
type Stage uint8

// The stages.
const (
	StageOpen      Stage = iota // no pause: commands pass
	StageGathering              // new commands wait; open statements and transactions run to their end
	StagePaused                 // no statement and no transaction is open
	StageMoving                 // sessions connect to the other side
	StageSaving                 // all have connected; the route is being saved
)

var stageNames = [...]string{"open", "gathering", "held", "moving", "saving"}

func (s Stage) String() string { return stageNames[s] }

// An Act is the gateway's action in response to an event.
type Act uint8

// The acts.
const (
	ActClose   Act = iota // stop new commands
	ActPaused             // notify the holder that nothing is open
	ActMove               // have the sessions connect to the other side
	ActSave               // persist the new route
	ActCommit             // have all sessions use their new connections, and let commands pass
	ActRelease            // have the sessions drop their new connections, if any, and let commands pass
)

var actNames = [...]string{"close the gate", "notify the holder", "connect the sessions", "save the route", "switch", "release"}

func (a Act) String() string { return actNames[a] }

// A Machine is the state of pauses and switches. Its methods take events with their time and return the acts
// to perform. A pause ends at its limit at the latest; only saving the route may take longer, when either
// side is valid. The zero Machine is open, with Backend active.
type Machine struct {
	Active Side
	Stage  Stage

	// Of the current pause.
	Limit time.Time
	To    Side // while it moves or saves
	token string

	Why error // why the last pause ended without a switch
}

// Pause starts a pause of at most d.
func (m *Machine) Pause(now time.Time, token string, d time.Duration) ([]Act, error) {
	if m.Stage != StageOpen {
		return nil, ErrPaused
	}
	*m = Machine{Active: m.Active, Stage: StageGathering, token: token, Limit: now.Add(d)}
	return []Act{ActClose}, nil
}

// Observe reports the number of sessions within a statement or transaction.
func (m *Machine) Observe(now time.Time, inside int) []Act {
	if m.Stage != StageGathering {
		return nil
	}
	if acts := m.Tick(now); acts != nil {
		return acts
	}
	if inside > 0 {
		return nil
	}
	m.Stage = StagePaused
	return []Act{ActPaused}
}

// Tick ends a pause that has reached its limit.
func (m *Machine) Tick(now time.Time) []Act {
	if m.Stage == StageOpen || m.Stage == StageSaving || now.Before(m.Limit) {
		return nil
	}
	return m.end(ErrPauseLimit)
}

// Switch starts the switch to a side.
func (m *Machine) Switch(now time.Time, token string, to Side) ([]Act, error) {
	if err := m.Authorize(token); err != nil {
		return nil, err
	}
	if acts := m.Tick(now); acts != nil {
		return acts, ErrPauseLimit
	}
	switch {
	case m.Stage == StageGathering:
		return nil, ErrWaiting
	case m.Stage != StagePaused:
		return nil, errors.New("the switch is under way")
	case to == m.Active:
		return nil, ErrAlreadyActive
	}
	m.Stage, m.To = StageMoving, to
	return []Act{ActMove}, nil
}

// Connected reports the outcome of the sessions' connecting: nil if each has its new connection.
func (m *Machine) Connected(now time.Time, failure error) []Act {
	if m.Stage != StageMoving {
		return nil
	}
	if failure != nil {
		return m.end(failure)
	}
	if acts := m.Tick(now); acts != nil {
		return acts
	}
	m.Stage = StageSaving
	return []Act{ActSave}
}

// Saved reports the outcome of saving the route.
func (m *Machine) Saved(failure error) []Act {
	if m.Stage != StageSaving {
		panic("BUG: a route was saved at stage " + m.Stage.String())
	}
	if failure != nil {
		return m.end(failure)
	}
	m.Active, m.Stage, m.token, m.Why = m.To, StageOpen, "", nil
	return []Act{ActCommit}
}

// Release ends the pause at its holder's request.
func (m *Machine) Release(token string) ([]Act, error) {
	if err := m.Authorize(token); err != nil {
		return nil, err
	}
	if m.Stage == StageSaving {
		return nil, errors.New("the switch is done: it is being written down")
	}
	return m.end(errors.New("its holder released it")), nil
}

// Abandon ends the pause for another reason: its holder disconnected, or the gateway shuts down.
func (m *Machine) Abandon(why error) []Act {
	if m.Stage == StageOpen || m.Stage == StageSaving {
		return nil
	}
	return m.end(why)
}

// Authorize returns an error unless token is that of the current pause.
func (m *Machine) Authorize(token string) error {
	if m.Stage == StageOpen || token == "" || token != m.token {
		return ErrNotPaused
	}
	return nil
}

// end ends the pause; all sessions keep their servers.
func (m *Machine) end(why error) []Act {
	m.Stage, m.token, m.Why = StageOpen, "", why
	return []Act{ActRelease}
}
