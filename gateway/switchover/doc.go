// Package switchover decides about pauses of a gateway's sessions and about switches of all of them
// to the other of two servers. It does no I/O and has no clock: see Machine.
package switchover
