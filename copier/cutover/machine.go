package cutover

import (
	"errors"
	"fmt"
	"time"
)

// A phase is what the target notes of a cutover, so that a copy which was killed knows at its
// next start whose log it may apply.
type phase string

const (
	phaseNone      phase = ""          // nothing is noted: the source is followed
	phaseCutting   phase = "cutting"   // a switch was about to be asked for: the gateway knows what became of it
	phaseCut       phase = "cut"       // clients write to the target: the source is never followed again
	phaseReversing phase = "reversing" // and its changes go back to the source
	phaseDone      phase = "done"      // the reverse stream's time is over
)

// A step is what a cutover does next.
type step uint8

const (
	stepCheck   step = iota // ask the gateway where clients are, before anything is applied
	stepWait                // wait until the target is hardly behind
	stepHold                // have the gateway hold all commands
	stepReach               // ask for the source's position and wait for the target to have reached it
	stepNote                // note that a switch is asked for, and where the target's log stands
	stepSwitch              // have the gateway switch
	stepAsk                 // ask the gateway what became of the switch
	stepRelease             // let the clients go on at the source
	stepForget              // take the note back
	stepPause               // before the next try
	stepCommit              // note that clients are at the target
	stepReverse             // have the target's changes go back to the source
	stepFinish              // note that the reverse stream is over
	stepEnd                 // it is over; an error says why when it has failed
)

var stepNames = [...]string{
	"check the route", "wait for the lag", "hold", "reach the source's position", "note", "switch", "ask what became of the switch",
	"release", "forget the note", "pause", "note the switch", "reverse", "note the end", "end",
}

func (s step) String() string { return stepNames[s] }

// A route is where a gateway's clients are.
type route uint8

const (
	routeUnknown route = iota // it does not answer, or a hold is not over
	routeSource
	routeTarget
)

// A machine decides about cutting over. It does no I/O and has no clock: it says which step
// is next and is told how that went. Two rules keep every statement: a note is in the target
// before a switch is asked for, and after that the source is followed only when the gateway has said,
// with no hold left that the switch could still come by, that clients are at the source.
type machine struct {
	step    step
	phase   phase // that the target has noted
	reverse bool  // changes go back to the source afterwards
	tries   int   // that are allowed
	tried   int
	asked   bool  // a switch was asked for, and what became of it is not known
	why     error // why the last try failed
	err     error // at the end
}

// newMachine begins with what the target has noted.
func newMachine(noted phase, tries int, reverse bool) *machine {
	m := &machine{phase: noted, tries: tries, reverse: reverse}
	if noted == phaseDone {
		m.step = stepEnd
	}
	return m
}

// followable reports whether the source may be followed.
func (m *machine) followable() bool { return m.phase == phaseNone }

// ok is told that a step was done.
func (m *machine) ok() {
	switch m.step {
	case stepWait:
		m.step = stepHold
	case stepHold:
		m.step = stepReach
	case stepReach:
		m.step = stepNote
	case stepNote:
		m.phase, m.asked, m.step = phaseCutting, true, stepSwitch
	case stepSwitch:
		m.step = stepCommit
	case stepRelease:
		m.step = m.afterRelease()
	case stepForget:
		m.phase, m.step = phaseNone, m.again()
	case stepPause:
		m.step = stepCheck
	case stepCommit:
		m.phase, m.step = phaseCut, stepReverse
		if !m.reverse {
			m.step = stepFinish
		}
	case stepReverse:
		m.step = stepFinish
	case stepFinish:
		m.phase, m.step = phaseDone, stepEnd
	default:
		panic("BUG: a cutover was told that it went well: " + m.step.String())
	}
}

// failed is told that a step could not be done.
func (m *machine) failed(err error) {
	switch m.step {
	case stepHold: // nobody is held
		m.tried++
		m.why = err
		m.step = m.again()
	case stepReach:
		m.tried++
		m.why, m.step = err, stepRelease
	case stepNote: // which may have been written all the same
		m.tried++
		m.phase, m.why, m.step = phaseCutting, err, stepRelease
	case stepSwitch: // which may have been done all the same, or be about to be
		m.tried++
		m.why, m.step = err, stepRelease
	case stepRelease: // the hold's time is bounded
		m.step = m.afterRelease()
	default:
		m.end(err)
	}
}

// route is told where clients are, after stepCheck and stepAsk. While that is not known, the step
// stays.
func (m *machine) route(at route) {
	switch {
	case at == routeUnknown:
	case m.step == stepAsk:
		m.asked, m.step = false, stepForget
		if at == routeTarget {
			m.step = stepCommit
		}
	case m.step != stepCheck:
		panic("BUG: a cutover was told of the route: " + m.step.String())
	case at == routeSource && m.phase == phaseNone:
		m.step = stepWait
	case at == routeSource && m.phase == phaseCutting:
		m.step = stepForget
	case at == routeSource:
		m.end(errSwitchedBack)
	case m.phase == phaseNone:
		m.end(errElsewhere)
	case m.phase == phaseCutting:
		m.step = stepCommit
	case m.reverse:
		m.step = stepReverse
	default:
		m.step = stepFinish
	}
}

// afterRelease takes back a note that there may be, unless clients may be at the target.
func (m *machine) afterRelease() step {
	switch {
	case m.asked:
		return stepAsk
	case m.phase == phaseCutting:
		return stepForget
	}
	return m.again()
}

// again is another try, if there is one left.
func (m *machine) again() step {
	if m.tried >= m.tries {
		m.err = fmt.Errorf("clients are where they were after as many tries as are allowed (%d); the last one: %w; "+
			"see docs/tasks/switch-clients.md for what pauses and switches wait for, and run the same command again to resume from here", m.tried, m.why)
		return stepEnd
	}
	if m.tried == 0 {
		return stepWait
	}
	return stepPause
}

func (m *machine) end(err error) { m.err, m.step = err, stepEnd }

// pause is how long to wait before the next try.
func (m *machine) pause() time.Duration {
	const most = 30 * time.Second
	return min(most, time.Second<<min(max(0, m.tried-1), 5))
}

var (
	errElsewhere = errors.New("the gateway's clients are at the target already, and no cutover of this copy has brought them there: " +
		"the source's changes are not applied over theirs; switch them back, or use --restart in the other direction")
	errSwitchedBack = errors.New("the gateway's clients are at the source again: the target's changes are not applied over theirs any more, " +
		"and the source's not over the target's; to keep the source's, use --restart")
)
