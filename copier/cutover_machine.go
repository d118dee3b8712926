package copier

import (
	"errors"
	"fmt"
	"time"
)

// A cutPhase is what the target notes of a cutover, so that a copy which was killed knows at its
// next start whose log it may apply.
type cutPhase string

const (
	cutNone      cutPhase = ""          // nothing is noted: the source is followed
	cutCutting   cutPhase = "cutting"   // a switch was about to be asked for: the gateway knows what became of it
	cutCut       cutPhase = "cut"       // clients write to the target: the source is never followed again
	cutReversing cutPhase = "reversing" // and its changes go back to the source
	cutDone      cutPhase = "done"      // the reverse stream's time is over
)

// A cutStep is what a cutover does next.
type cutStep uint8

const (
	cutCheck   cutStep = iota // ask the gateway where clients are, before anything is applied
	cutWait                   // wait until the target is hardly behind
	cutHold                   // have the gateway hold all commands
	cutReach                  // ask for the source's position and wait for the target to have reached it
	cutNote                   // note that a switch is asked for, and where the target's log stands
	cutSwitch                 // have the gateway switch
	cutAsk                    // ask the gateway what became of the switch
	cutRelease                // let the clients go on at the source
	cutForget                 // take the note back
	cutPause                  // before the next try
	cutCommit                 // note that clients are at the target
	cutReverse                // have the target's changes go back to the source
	cutFinish                 // note that the reverse stream is over
	cutEnd                    // it is over; an error says why when it has failed
)

var cutStepNames = [...]string{
	"check the route", "wait for the lag", "hold", "reach the source's position", "note", "switch", "ask what became of the switch",
	"release", "forget the note", "pause", "note the switch", "reverse", "note the end", "end",
}

func (s cutStep) String() string { return cutStepNames[s] }

// A cutRoute is where a gateway's clients are.
type cutRoute uint8

const (
	routeUnknown cutRoute = iota // it does not answer, or a hold is not over
	routeSource
	routeTarget
)

// A cutMachine decides about cutting over. It does no I/O and has no clock: it says which step
// is next and is told how that went. Two rules keep every statement: a note is in the target
// before a switch is asked for, and after that the source is followed only when the gateway has said,
// with no hold left that the switch could still come by, that clients are at the source.
type cutMachine struct {
	step    cutStep
	phase   cutPhase // that the target has noted
	reverse bool     // changes go back to the source afterwards
	tries   int      // that are allowed
	tried   int
	asked   bool  // a switch was asked for, and what became of it is not known
	why     error // why the last try failed
	err     error // at the end
}

// newCutMachine begins with what the target has noted.
func newCutMachine(noted cutPhase, tries int, reverse bool) *cutMachine {
	m := &cutMachine{phase: noted, tries: tries, reverse: reverse}
	if noted == cutDone {
		m.step = cutEnd
	}
	return m
}

// followable reports whether the source may be followed.
func (m *cutMachine) followable() bool { return m.phase == cutNone }

// ok is told that a step was done.
func (m *cutMachine) ok() {
	switch m.step {
	case cutWait:
		m.step = cutHold
	case cutHold:
		m.step = cutReach
	case cutReach:
		m.step = cutNote
	case cutNote:
		m.phase, m.asked, m.step = cutCutting, true, cutSwitch
	case cutSwitch:
		m.step = cutCommit
	case cutRelease:
		m.step = m.afterRelease()
	case cutForget:
		m.phase, m.step = cutNone, m.again()
	case cutPause:
		m.step = cutCheck
	case cutCommit:
		m.phase, m.step = cutCut, cutReverse
		if !m.reverse {
			m.step = cutFinish
		}
	case cutReverse:
		m.step = cutFinish
	case cutFinish:
		m.phase, m.step = cutDone, cutEnd
	default:
		panic("BUG: a cutover was told that it went well: " + m.step.String())
	}
}

// failed is told that a step could not be done.
func (m *cutMachine) failed(err error) {
	switch m.step {
	case cutHold: // nobody is held
		m.tried++
		m.why = err
		m.step = m.again()
	case cutReach:
		m.tried++
		m.why, m.step = err, cutRelease
	case cutNote: // which may have been written all the same
		m.tried++
		m.phase, m.why, m.step = cutCutting, err, cutRelease
	case cutSwitch: // which may have been done all the same, or be about to be
		m.tried++
		m.why, m.step = err, cutRelease
	case cutRelease: // the hold's time is bounded
		m.step = m.afterRelease()
	default:
		m.end(err)
	}
}

// route is told where clients are, after cutCheck and cutAsk. While that is not known, the step
// stays.
func (m *cutMachine) route(at cutRoute) {
	switch {
	case at == routeUnknown:
	case m.step == cutAsk:
		m.asked, m.step = false, cutForget
		if at == routeTarget {
			m.step = cutCommit
		}
	case m.step != cutCheck:
		panic("BUG: a cutover was told of the route: " + m.step.String())
	case at == routeSource && m.phase == cutNone:
		m.step = cutWait
	case at == routeSource && m.phase == cutCutting:
		m.step = cutForget
	case at == routeSource:
		m.end(errSwitchedBack)
	case m.phase == cutNone:
		m.end(errElsewhere)
	case m.phase == cutCutting:
		m.step = cutCommit
	case m.reverse:
		m.step = cutReverse
	default:
		m.step = cutFinish
	}
}

// afterRelease takes back a note that there may be, unless clients may be at the target.
func (m *cutMachine) afterRelease() cutStep {
	switch {
	case m.asked:
		return cutAsk
	case m.phase == cutCutting:
		return cutForget
	}
	return m.again()
}

// again is another try, if there is one left.
func (m *cutMachine) again() cutStep {
	if m.tried >= m.tries {
		m.err = fmt.Errorf("clients are where they were after as many tries as are allowed (%d); the last one: %w; "+
			"see docs/tasks/switch-clients.md for what pauses and switches wait for, and run the same command again to resume from here", m.tried, m.why)
		return cutEnd
	}
	if m.tried == 0 {
		return cutWait
	}
	return cutPause
}

func (m *cutMachine) end(err error) { m.err, m.step = err, cutEnd }

// pause is how long to wait before the next try.
func (m *cutMachine) pause() time.Duration {
	const most = 30 * time.Second
	return min(most, time.Second<<min(max(0, m.tried-1), 5))
}

var (
	errElsewhere = errors.New("the gateway's clients are at the target already, and no cutover of this copy has brought them there: " +
		"the source's changes are not applied over theirs; switch them back, or use --restart in the other direction")
	errSwitchedBack = errors.New("the gateway's clients are at the source again: the target's changes are not applied over theirs any more, " +
		"and the source's not over the target's; to keep the source's, use --restart")
)
