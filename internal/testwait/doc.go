// Package testwait blocks tests until something has happened, with a deadline and a description.
//
// A wait that has not finished after Limit fails its test with what it waited for, the last state
// seen, and the stacks of all goroutines. Limit is no bound on how fast the code has to be: it is
// long enough for a machine that is busy with other work.
//
// # What it does not do
//
// It must not be called from a goroutine other than the test's, because it stops the test with
// Fatal. Such a goroutine reports to the test by a channel, which the test reads with Receive. In a
// testing/synctest bubble it is not needed: there a hang is detected at once.
package testwait
