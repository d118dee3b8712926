// Package testproxy is a TCP proxy for tests that can stop forwarding, like a network that loses packets:
// connections stay open, new ones are accepted, and no byte is forwarded. It can also cut connections, or make the
// existing ones silent for good. A Faulty has a fault at one packet that clients of a MySQL server send, each in turn.
package testproxy
