// Package switchover decides when a gateway's sessions pause and when all of them switch to the other of two
// servers. It does no I/O and has no clock.
//
// A Machine takes events with their time and returns the acts to perform, in order:
//
//	acts, err := m.Pause(now, token, time.Second)
//	for _, act := range acts {
//		perform(act) // stop commands, connect, save the route, resume
//	}
//
// A pause passes through the stages open, gathering, held, moving and saving; Stage documents each. The
// caller serializes calls, polls the sessions for Observe, and calls Tick so that a pause ends at its limit.
package switchover
