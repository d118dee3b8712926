package gateway

import (
	"net/netip"
	"testing"
)

// TestNetworks connects from two addresses of one IPv6 network, which are one client.
func TestNetworks(t *testing.T) {
	u, m := unauthenticated{maxPer: 1}, &metrics{}
	a, b, c := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:1"), netip.MustParseAddr("2001:db8:0:1::1")
	if u.acquire(a, m) != nil || u.acquire(b, m) == nil || u.acquire(c, m) != nil || m.refusedAddress.Load() != 1 {
		t.Errorf("counted %v, %d refused", u.from, m.refusedAddress.Load())
	}
	u.release(b)
	if u.acquire(a, m) != nil {
		t.Error("a released connection is counted")
	}
}
