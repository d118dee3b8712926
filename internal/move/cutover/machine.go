package cutover

import (
	"errors"
	"fmt"
	"time"
)

// A phase is the progress of a cutover as recorded in the target. A copy that was killed reads it
// at its next start to determine whose log it may apply.
type phase string

const (
	phaseNone      phase = ""          // no record: the source is followed
	phaseCutting   phase = "cutting"   // a switch was about to be requested: only the gateway knows its result
	phaseCut       phase = "cut"       // clients write to the target: the source is never followed again
	phaseReversing phase = "reversing" // likewise, and the target's changes are written back to the source
	phaseDone      phase = "done"      // the reverse stream is over, if there was one

	// Of a Handover.
	phaseHanding phase = "handing over" // the source was about to become read-only; the first target's record decides
	phaseHanded  phase = PhaseHanded    // in the first target: clients may be on the targets, and the source is never followed again
)

// PhaseHanded is Report.Phase after a Handover.
const PhaseHanded = "handed over"

// A step is one action of a cutover.
type step uint8

const (
	stepCheck   step = iota // query the gateway for the side that clients are on, before anything is applied
	stepWait                // wait until the lag is small enough
	stepHold                // pause all commands at the gateway
	stepReach               // read the source's position and wait until the target has reached it
	stepNote                // record that a switch follows, and the position of the target's log
	stepSwitch              // request the switch
	stepAsk                 // query the gateway for the result of the switch
	stepRelease             // end the pause: clients resume on the source
	stepForget              // delete the record
	stepPause               // back off before the next try
	stepCommit              // record that clients are on the target
	stepReverse             // write the target's changes back to the source
	stepFinish              // record the end of the reverse stream
	stepEnd                 // no step is left; machine.err is the error, if any
)

var stepNames = [...]string{
	"check the route", "wait for the lag", "hold", "reach the source's position", "note", "switch", "ask what became of the switch",
	"release", "forget the note", "pause", "note the switch", "reverse", "note the end", "end",
}

func (s step) String() string { return stepNames[s] }

// A route is the side that a gateway's clients are on.
type route uint8

const (
	routeUnknown route = iota // the gateway does not respond, or a pause is not over
	routeSource
	routeTarget
)

// A machine decides the steps of a cutover. It does no I/O and has no clock: its caller executes
// each step and reports the result by ok, failed or route.
//
// Two rules ensure that no statement is lost. A record is in the target before a switch is requested.
// After that, the source is followed only once the gateway has reported that clients are on the source
// and no pause is left in which the switch could still take effect.
type machine struct {
	step      step
	phase     phase // as recorded in the target
	reverse   bool  // write changes back to the source afterwards
	tries     int   // maximum of tried
	tried     int
	requested bool  // a switch was requested, and its result is unknown
	lastErr   error // of the last failed try
	err       error // final, at stepEnd
}

// newMachine returns a machine that resumes from the recorded phase.
func newMachine(noted phase, tries int, reverse bool) *machine {
	m := &machine{phase: noted, tries: tries, reverse: reverse}
	if noted == phaseDone {
		m.step = stepEnd
	}
	return m
}

// followable reports whether the source may be followed.
func (m *machine) followable() bool { return m.phase == phaseNone }

// ok advances the machine after its step succeeded.
func (m *machine) ok() {
	switch m.step {
	case stepWait:
		m.step = stepHold
	case stepHold:
		m.step = stepReach
	case stepReach:
		m.step = stepNote
	case stepNote:
		m.phase, m.requested, m.step = phaseCutting, true, stepSwitch
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

// failed advances the machine after its step failed with err.
func (m *machine) failed(err error) {
	switch m.step {
	case stepHold: // no client is paused
		m.tried++
		m.lastErr = err
		m.step = m.again()
	case stepReach:
		m.tried++
		m.lastErr, m.step = err, stepRelease
	case stepNote: // the record may have been written nevertheless
		m.tried++
		m.phase, m.lastErr, m.step = phaseCutting, err, stepRelease
	case stepSwitch: // the switch may have happened nevertheless, or still be about to
		m.tried++
		m.lastErr, m.step = err, stepRelease
	case stepRelease: // the pause expires in any case
		m.step = m.afterRelease()
	default:
		m.finish(err)
	}
}

// route advances the machine after stepCheck and stepAsk by the side that clients are on. At routeUnknown
// the step does not change.
func (m *machine) route(at route) {
	switch {
	case at == routeUnknown:
	case m.step == stepAsk:
		m.requested, m.step = false, stepForget
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
		m.finish(errSwitchedBack)
	case m.phase == phaseNone:
		m.finish(errElsewhere)
	case m.phase == phaseCutting:
		m.step = stepCommit
	case m.reverse:
		m.step = stepReverse
	default:
		m.step = stepFinish
	}
}

// afterRelease returns the step after stepRelease. It deletes a record that may exist, unless clients may be on the target.
func (m *machine) afterRelease() step {
	switch {
	case m.requested:
		return stepAsk
	case m.phase == phaseCutting:
		return stepForget
	}
	return m.again()
}

// again returns the step that starts another try, or stepEnd with err set if none is left.
func (m *machine) again() step {
	if m.tried >= m.tries {
		m.err = fmt.Errorf("clients are where they were after as many tries as are allowed (%d); the last one: %w; "+
			"see docs/tasks/switch-clients.md for what pauses and switches wait for, and run the same command again to resume from here", m.tried, m.lastErr)
		return stepEnd
	}
	if m.tried == 0 {
		return stepWait
	}
	return stepPause
}

func (m *machine) finish(err error) { m.err, m.step = err, stepEnd }

// pause returns the back-off before the next try.
func (m *machine) pause() time.Duration {
	const most = 30 * time.Second
	return min(most, time.Second<<min(max(0, m.tried-1), 5))
}

var (
	errElsewhere = errors.New("the gateway's clients are at the target already, and no cutover of this copy has brought them there: " +
		"the source's changes are not applied over theirs; switch them back, or use option restart in the other direction")
	errSwitchedBack = errors.New("the gateway's clients are at the source again: the target's changes are not applied over theirs any more, " +
		"and the source's not over the target's; to keep the source's, use option restart")
)
