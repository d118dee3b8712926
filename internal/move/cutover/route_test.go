package cutover

import (
	"testing"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
)

// TestRoute checks whether a gateway's servers are those of a copy, and which side its clients are on.
func TestRoute(t *testing.T) {
	for _, c := range []struct {
		a    gatewayclient.Route
		side string
		at   route
	}{
		{gatewayclient.Route{Backend: "a:1", Standby: "b:1", Address: "a:1", Stage: "open"}, "standby", routeSource},
		{gatewayclient.Route{Backend: "a:1", Standby: "b:1", Address: "b:1", Stage: "open"}, "standby", routeTarget},
		{gatewayclient.Route{Backend: "b:1", Standby: "a:1", Address: "a:1", Stage: "open"}, "backend", routeSource},
		{gatewayclient.Route{Backend: "a:1", Standby: "b:1", Address: "a:1", Stage: "saving"}, "standby", routeUnknown},
		{gatewayclient.Route{Backend: "a:1", Standby: "c:1", Address: "a:1", Stage: "open"}, "", routeSource},
		{gatewayclient.Route{Backend: "a:1", Address: "a:1", Stage: "open"}, "", routeSource},
	} {
		n, ok := namesOf(&c.a, "a:1", "b:1")
		if n.side != c.side || ok != (c.side != "") {
			t.Errorf("%+v: side %q, %v", c.a, n.side, ok)
		}
		if at := clientsAt(&c.a, routeNames{from: "a:1", to: "b:1"}); at != c.at {
			t.Errorf("%+v: clients are at %d, want %d", c.a, at, c.at)
		}
	}
}
