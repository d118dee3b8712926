// Package localstate keeps damaged local state from stopping a process. A Store records which
// files of a directory a process has created, so that a file that disappears is reported like a
// damaged one, and sets aside what cannot be read: it moves it to set-aside/<time>/<path>, logs
// it, counts it and lists it.
package localstate
