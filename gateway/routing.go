package gateway

import (
	"errors"
	"fmt"
	"time"
)

// A Side names one of the two servers that a gateway may have behind it.
type Side uint8

// The sides.
const (
	SideBackend Side = iota // Options.Backend
	SideStandby             // Options.Standby
)

// String is the side's name in the API and in the metrics.
func (s Side) String() string {
	if s == SideStandby {
		return "standby"
	}
	return "backend"
}

// ParseSide reads a side's name.
func ParseSide(name string) (Side, error) {
	switch name {
	case "backend":
		return SideBackend, nil
	case "standby":
		return SideStandby, nil
	}
	return 0, fmt.Errorf("want backend or standby, not %q", name)
}

// What holding and switching is refused with.
var (
	ErrHeld      = errors.New("another client has paused the sessions: try again when the pause is over")
	ErrNotHeld   = errors.New("there is no such hold: it was released, or its time was over")
	ErrThere     = errors.New("the sessions are on that side already")
	ErrDraining  = errors.New("the gateway shuts down")
	ErrHoldLimit = errors.New("the hold's time was over")
	ErrWaiting   = errors.New("the hold still waits for statements and transactions to end")
)

// A stage is how far a hold has come.
type stage uint8

const (
	stageOpen      stage = iota // there is no hold: commands pass
	stageGathering              // new commands wait; what is under way goes on to its end
	stageHeld                   // nothing is under way
	stageMoving                 // sessions make their connections to the other side
	stageSaving                 // all have; the route is being written down
)

var stageNames = [...]string{"open", "gathering", "held", "moving", "saving"}

func (s stage) String() string { return stageNames[s] }

// An act is what the gateway is to do about an event.
type act uint8

const (
	actClose   act = iota // stop new commands
	actHeld               // tell the holder that nothing is under way
	actMove               // have the sessions connect to the other side
	actSave               // write the new route down
	actCommit             // all sessions go to their new connections, and commands pass
	actRelease            // the sessions drop their new connections, if any, and commands pass
)

var actNames = [...]string{"close the gate", "answer the holder", "connect the sessions", "write the route", "go over", "release"}

func (a act) String() string { return actNames[a] }

// routing decides about holding, switching and releasing. It does no I/O and has no clock:
// events come in with their time, and what is to be done goes out. Whatever happens, it is
// open again by the hold's limit: the one thing that may then still be under way is the
// writing of the route, after which both sides are as good.
type routing struct {
	active Side
	stage  stage

	// Of the hold there is.
	token string
	limit time.Time // everything is over by then
	to    Side
	why   error // what ended the last hold without a switch
}

// hold begins a hold that lasts for at most d.
func (r *routing) hold(now time.Time, token string, d time.Duration) ([]act, error) {
	if r.stage != stageOpen {
		return nil, ErrHeld
	}
	*r = routing{active: r.active, stage: stageGathering, token: token, limit: now.Add(d)}
	return []act{actClose}, nil
}

// look is told how many sessions are within a statement or transaction.
func (r *routing) look(now time.Time, inside int) []act {
	if r.stage != stageGathering {
		return nil
	}
	if acts := r.tick(now); acts != nil {
		return acts
	}
	if inside > 0 {
		return nil
	}
	r.stage = stageHeld
	return []act{actHeld}
}

// tick is told the time.
func (r *routing) tick(now time.Time) []act {
	if r.stage == stageOpen || r.stage == stageSaving || now.Before(r.limit) {
		return nil
	}
	return r.end(ErrHoldLimit)
}

// change begins the switch to a side.
func (r *routing) change(now time.Time, token string, to Side) ([]act, error) {
	if err := r.mayHolder(token); err != nil {
		return nil, err
	}
	if acts := r.tick(now); acts != nil {
		return acts, ErrHoldLimit
	}
	switch {
	case r.stage == stageGathering:
		return nil, ErrWaiting
	case r.stage != stageHeld:
		return nil, errors.New("the switch is under way")
	case to == r.active:
		return nil, ErrThere
	}
	r.stage, r.to = stageMoving, to
	return []act{actMove}, nil
}

// connected is told how the sessions fared: nil when each has its new connection.
func (r *routing) connected(now time.Time, failure error) []act {
	if r.stage != stageMoving {
		return nil
	}
	if failure != nil {
		return r.end(failure)
	}
	if acts := r.tick(now); acts != nil {
		return acts
	}
	r.stage = stageSaving
	return []act{actSave}
}

// saved is told whether the route was written down.
func (r *routing) saved(failure error) []act {
	if r.stage != stageSaving {
		panic("BUG: a route was saved at stage " + r.stage.String())
	}
	if failure != nil {
		return r.end(failure)
	}
	r.active, r.stage, r.token, r.why = r.to, stageOpen, "", nil
	return []act{actCommit}
}

// release ends the hold on its holder's word.
func (r *routing) release(token string) ([]act, error) {
	if err := r.mayHolder(token); err != nil {
		return nil, err
	}
	if r.stage == stageSaving {
		return nil, errors.New("the switch is done: it is being written down")
	}
	return r.end(errors.New("its holder released it")), nil
}

// abandon ends the hold for another reason: its holder hung up, or the gateway shuts down.
func (r *routing) abandon(why error) []act {
	if r.stage == stageOpen || r.stage == stageSaving {
		return nil
	}
	return r.end(why)
}

func (r *routing) mayHolder(token string) error {
	if r.stage == stageOpen || token == "" || token != r.token {
		return ErrNotHeld
	}
	return nil
}

// end opens the gate again, with all sessions where they were.
func (r *routing) end(why error) []act {
	r.stage, r.token, r.why = stageOpen, "", why
	return []act{actRelease}
}
