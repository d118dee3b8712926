package cutover

import (
	"context"
	"errors"
	"fmt"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/mysql/session"
)

// routeNames are the gateway's names for the two sides of a copy.
type routeNames struct {
	from, to string // addresses
	side     string // the gateway's name of the target: backend or standby
}

// namesOf returns the names of both sides if the gateway has the same addresses for them as the copy.
func namesOf(a *gatewayclient.Route, from, to string) (routeNames, bool) {
	switch {
	case a.Backend == from && a.Standby == to:
		return routeNames{from, to, "standby"}, true
	case a.Backend == to && a.Standby == from:
		return routeNames{from, to, "backend"}, true
	}
	return routeNames{}, false
}

// otherServers returns the error for a gateway that switches between other servers than the copy's.
func otherServers(a *gatewayclient.Route, from, to string) error {
	standby := a.Standby
	if standby == "" {
		standby = "nothing"
	}
	return fmt.Errorf("the gateway switches between %s (backend) and %s (standby), and the copy goes from %s to %s: "+
		"they must be the same two servers; change the source and the target, or the gateway's backend and standby", a.Backend, standby, from, to)
}

// clientsAt returns the side that clients are on, which is known only while no pause is left by which that could change.
func clientsAt(a *gatewayclient.Route, n routeNames) route {
	switch {
	case a.Stage != "open":
		return routeUnknown
	case a.Address == n.to:
		return routeTarget
	case a.Address == n.from:
		return routeSource
	}
	return routeUnknown
}

// findNames determines the gateway's names for the two sides. If its addresses differ from those of the copy,
// it checks through the servers at these addresses whether they are the same.
func (c *Cutover) findNames(ctx context.Context, a *gatewayclient.Route) error {
	from, to := c.copy.Source.Addr(), c.copy.Target.Addr
	if n, ok := namesOf(a, from, to); ok {
		c.names = n
		return nil
	}
	if a.Backend == c.namedRoute.Backend && a.Standby == c.namedRoute.Standby && c.names.side != "" {
		return nil // unchanged
	}
	if a.Standby == "" {
		return otherServers(a, from, to)
	}
	back, err := session.Connect(ctx, c.o.Back)
	if err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	defer func() { _ = back.Close() }() // it only had a lock
	target, err := session.Connect(ctx, c.copy.Target)
	if err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	defer func() { _ = target.Close() }() // likewise
	var unknown error                     // why it may be another server
	for _, n := range []routeNames{{a.Backend, a.Standby, "standby"}, {a.Standby, a.Backend, "backend"}} {
		var why [2]error
		var same [2]bool
		same[0], why[0] = session.IsServer(ctx, back, c.o.Back, n.from)
		same[1], why[1] = session.IsServer(ctx, target, c.copy.Target, n.to)
		if same[0] && same[1] {
			c.names, c.namedRoute = n, *a
			c.notify("the gateway's %s is the copy's %s, and its %s is %s", n.from, from, n.to, to)
			return nil
		}
		if unknown == nil {
			unknown = errors.Join(why[:]...)
		}
	}
	if unknown != nil {
		return fmt.Errorf("%w; asked whether they are: %w", otherServers(a, from, to), unknown)
	}
	return otherServers(a, from, to)
}
