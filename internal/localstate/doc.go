// Package localstate keeps damaged local state from stopping a process. A Store records the files of a
// directory that a process has created, so that a missing file is reported like a damaged one. It sets
// unreadable files aside: it moves them to set-aside/<time>/<path>, logs, counts and lists them.
package localstate
