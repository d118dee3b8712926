// Package testwait blocks tests until something has happened, with a deadline and a description.
//
// A wait that has not finished after Limit fails its test with its description, the last state seen, and the
// stacks of all goroutines. Limit is not a bound on the speed of the code: it is long enough for a machine
// that is busy with other work.
//
// # Limits
//
// Its functions must not be called from a goroutine other than the test's, because they stop the test with
// Fatal. Other goroutines report to the test by a channel, which the test reads with Receive. In a
// testing/synctest bubble the package is not required: there a hang is detected immediately.
package testwait
