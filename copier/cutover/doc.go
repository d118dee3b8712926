// Package cutover brings the clients of a gateway from the source of a copy to its target, and has what they write there go back to the
// source for a while.
//
// The machine, a pure core, decides about the next step; Cutover takes it. A record in the target says how far the cutover is, so that a
// run that resumes a copy knows whose log it may apply. Package copier has the reasons why no statement is lost.
package cutover
