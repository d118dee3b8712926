// Package control has the control socket of a running copy: a Unix socket, HTTP over it, and the record that a copy leaves
// when it stops.
//
//	end, err := control.Serve(path, control.Controlled{Status: …, Abort: …})
//	status, err := control.NewClient(path).Status(ctx)
//
// Only the user who runs the copy, and root, can connect. A [Socket] outlives copies: tare alter runs several.
package control
