// Package testproxy is a TCP proxy for tests that can be made to stop forwarding, as a network does that loses
// packets: connections stay open, new ones are accepted, and no byte comes through.
package testproxy
