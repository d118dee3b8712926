// Package cutover switches the clients of a gateway from the source of a copy to its target. For some time afterwards, it writes the
// target's changes back to the source.
//
// The machine, a pure core, decides the next step; Cutover executes it. A record in the target has the progress of the cutover, so that a
// run that resumes a copy knows whose log it may apply. Package copier documents why no statement is lost.
package cutover
