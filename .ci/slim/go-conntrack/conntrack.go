// Package conntrack takes the place of github.com/mwitkow/go-conntrack in released programs: connections of Prometheus'
// HTTP client, which Tare links and does not use, are dialed without metrics and events. The module's events are pages made
// of templates; with them the linker keeps every exported method of the program.
package conntrack

import (
	"context"
	"net"
)

type (
	dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)
	option   func(*dialFunc)
)

// NewDialContextFunc returns the function that the options name, or that of a net.Dialer.
func NewDialContextFunc(options ...option) dialFunc {
	dial := (&net.Dialer{}).DialContext
	for _, o := range options {
		o(&dial)
	}
	return dial
}

// DialWithDialContextFunc names the function that dials.
func DialWithDialContextFunc(dial dialFunc) option {
	return func(d *dialFunc) { *d = dial }
}

// DialWithTracing has no effect.
func DialWithTracing() option { return func(*dialFunc) {} }

// DialWithName has no effect.
func DialWithName(string) option { return func(*dialFunc) {} }
