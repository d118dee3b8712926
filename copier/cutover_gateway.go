package copier

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/httpclient"
	"github.com/taredb/tare/rowstream"
)

// gatewayTimeout bounds a request to a gateway, besides the time that a hold may take.
const gatewayTimeout = 5 * time.Second

// A Gateway is the HTTP API of a tare serve, and the account for it.
type Gateway struct {
	URL     string         // http://host:port or https://host:port, with user:password@ if it requires an account
	Token   string         // of an account, instead of user:password@
	RootCAs *x509.CertPool // authorities of its certificate; nil for the system's
}

func (g *Gateway) options() httpclient.Options {
	return httpclient.Options{URL: g.URL, Token: g.Token, RootCAs: g.RootCAs, Credentials: "--gateway-token-file, or --gateway https://user:password@host:port"}
}

// Validate reports what is wrong with g. No gateway, an empty URL, is valid.
func (g *Gateway) Validate() error {
	if g.URL == "" {
		return nil
	}
	if _, err := httpclient.New(g.options()); err != nil {
		return fmt.Errorf("--gateway: %w", err)
	}
	return nil
}

// client is for a gateway that was validated. It does not connect.
func (g *Gateway) client() *httpclient.Client {
	c, err := httpclient.New(g.options())
	if err != nil {
		panic("BUG: a gateway that was validated: " + err.Error())
	}
	return c
}

// A gatewayRoute calls the API of a gateway that switches clients between two servers.
type gatewayRoute struct{ client *httpclient.Client }

func (g *gatewayRoute) close() { g.client.Close() }

// A routeAnswer is what GET answers, as far as it is needed.
type routeAnswer struct {
	Active  string `json:"active"`
	Address string `json:"address"`
	Backend string `json:"backend"`
	Standby string `json:"standby"`
	Stage   string `json:"stage"`

	Pinned []pinnedAnswer `json:"pinned"`
}

// A pinnedAnswer is a session that a switch would have to close.
type pinnedAnswer struct {
	Connection uint32 `json:"connection"`
	User       string `json:"user"`
	Reason     string `json:"reason"`
}

// A refusedError is a gateway's refusal, as opposed to a request without a response.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// route asks where clients are.
func (g *gatewayRoute) route(ctx context.Context) (a routeAnswer, err error) {
	return a, g.ask(ctx, gatewayTimeout, http.MethodGet, "", nil, &a)
}

// hold holds all commands for at most d, and answers when nothing is under way.
func (g *gatewayRoute) hold(ctx context.Context, d time.Duration) (token string, err error) {
	var a struct {
		Token string `json:"token"`
	}
	err = g.ask(ctx, d+gatewayTimeout, http.MethodPost, "/hold", map[string]string{"for": d.String()}, &a)
	return a.Token, err
}

// A switchAnswer is how many sessions were switched, and how many closed since they could not be.
type switchAnswer struct {
	Moved  int `json:"moved"`
	Closed int `json:"closed"`
}

// change switches all sessions to a side. Those that are pinned are closed, or a reason to refuse.
func (g *gatewayRoute) change(ctx context.Context, token, side string, closePinned bool) (a switchAnswer, err error) {
	request := map[string]string{"token": token, "to": side}
	if closePinned {
		request["pinned"] = "close"
	}
	err = g.ask(ctx, gatewayTimeout, http.MethodPost, "/switch", request, &a)
	return a, err
}

// release ends a hold.
func (g *gatewayRoute) release(ctx context.Context, token string) error {
	var a routeAnswer
	return g.ask(ctx, gatewayTimeout, http.MethodPost, "/release", map[string]string{"token": token}, &a)
}

// mayChange reports an account that may read the route but not switch clients: before rows are copied, not at the
// first pause. It releases a pause that does not exist, which the gateway refuses after it has checked the account.
func (g *gatewayRoute) mayChange(ctx context.Context) error {
	err := g.release(ctx, "")
	if e, ok := errors.AsType[*httpclient.StatusError](err); ok && (e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized) {
		return fmt.Errorf("--cutover requires an account of --gateway that may switch clients: %w", err)
	}
	return nil // a gateway that does not respond now may do so at the switch
}

// ask sends a request and decodes the response. Its errors show no credentials.
func (g *gatewayRoute) ask(ctx context.Context, limit time.Duration, method, path string, request any, response any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body []byte
	if request != nil {
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	const most = 1 << 20
	text, err := g.client.Do(ctx, method, "/api/v1/route"+path, body, most)
	e, refused := errors.AsType[*httpclient.StatusError](err)
	switch {
	case refused && e.Code == http.StatusNotFound:
		return refusedError{fmt.Errorf("%s has no %s (404): start tare serve with --standby and --standby-accounts", e.Host, e.Path)}
	case refused && e.Code == http.StatusConflict && e.Text != "":
		return refusedError{fmt.Errorf("the gateway refuses: %s", e.Text)}
	case refused:
		return refusedError{err}
	case err != nil:
		return err
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("%s does not return JSON: is it a tare serve?", g.client.Host())
	}
	return nil
}

// routeNames are a gateway's names of the two sides of a copy, and what it calls the target.
type routeNames struct {
	from, to string // addresses
	side     string // backend or standby
}

// namesOf are the names of both sides when they are those that the copy has for them.
func (a *routeAnswer) namesOf(from, to string) (routeNames, bool) {
	switch {
	case a.Backend == from && a.Standby == to:
		return routeNames{from, to, "standby"}, true
	case a.Backend == to && a.Standby == from:
		return routeNames{from, to, "backend"}, true
	}
	return routeNames{}, false
}

// others says that a gateway switches between other servers than the copy's.
func (a *routeAnswer) others(from, to string) error {
	standby := a.Standby
	if standby == "" {
		standby = "nothing"
	}
	return fmt.Errorf("the gateway switches between %s (backend) and %s (standby), and the copy goes from %s to %s: "+
		"they must be the same two servers; change --from and --to, or the gateway's --backend and --standby", a.Backend, standby, from, to)
}

// at is where clients are: known only when no hold is left by which that could change.
func (a *routeAnswer) at(n routeNames) cutRoute {
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

// findNames finds out what the gateway calls the two sides. When that is not what the copy calls them, its
// addresses are asked whether they are the same servers.
func (c *cutover) findNames(ctx context.Context, a *routeAnswer) error {
	from, to := c.r.from.Addr(), c.r.o.To.Addr
	if n, ok := a.namesOf(from, to); ok {
		c.names = n
		return nil
	}
	if a.Backend == c.asked.Backend && a.Standby == c.asked.Standby && c.names.side != "" {
		return nil // as before
	}
	if a.Standby == "" {
		return a.others(from, to)
	}
	back, err := rowstream.Connect(ctx, c.o.Back)
	if err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	defer func() { _ = back.Close() }() // it only had a lock
	target, err := rowstream.Connect(ctx, c.r.o.To)
	if err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	defer func() { _ = target.Close() }() // likewise
	for _, n := range []routeNames{{a.Backend, a.Standby, "standby"}, {a.Standby, a.Backend, "backend"}} {
		var why [2]error
		var same [2]bool
		same[0], why[0] = isServer(ctx, back, c.o.Back, n.from)
		same[1], why[1] = isServer(ctx, target, c.r.o.To, n.to)
		if same[0] && same[1] {
			c.names, c.asked = n, *a
			c.tell("the gateway's %s is the copy's %s, and its %s is %s", n.from, from, n.to, to)
			return nil
		}
		if err := errors.Join(why[:]...); err != nil && n.side == "backend" {
			return fmt.Errorf("%w; asked whether they are: %w", a.others(from, to), err)
		}
	}
	return a.others(from, to)
}
