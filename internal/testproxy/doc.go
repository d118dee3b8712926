// Package testproxy is a TCP proxy for tests that can stop forwarding, like a network that loses packets:
// connections stay open, new ones are accepted, and no byte is forwarded. It can also cut connections, or make the
// existing ones silent for good.
package testproxy
