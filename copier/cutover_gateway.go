package copier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/taredb/tare/rowstream"
)

// gatewayTimeout bounds a request to a gateway, besides the time that a hold may take.
const gatewayTimeout = 5 * time.Second

// A gatewayRoute speaks to the API of a gateway that says where its clients go.
type gatewayRoute struct {
	url    string // of the API; it may hold a password
	client *http.Client
}

func newGatewayRoute(gateway string) *gatewayRoute {
	return &gatewayRoute{url: strings.TrimRight(gateway, "/") + "/api/v1/route", client: &http.Client{Transport: &http.Transport{}}}
}

func (g *gatewayRoute) close() { g.client.CloseIdleConnections() }

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

// A refusedError is a gateway's word, as opposed to its silence.
type refusedError struct{ error }

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

// ask sends a request and reads its answer. Its errors show no password.
func (g *gatewayRoute) ask(ctx context.Context, limit time.Duration, method, path string, request any, answer any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if request == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, g.url+path, bytes.NewReader(body))
	if err != nil {
		return errors.New("the gateway's address is no URL") // which may hold a password
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.client.Do(req)
	var at *url.Error
	if errors.As(err, &at) {
		return fmt.Errorf("ask %s: %w", req.URL.Redacted(), at.Err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", req.URL.Redacted(), err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%s does not return JSON: is it a tare serve?", req.URL.Redacted())
		}
		return nil
	}
	var refused struct {
		Error string `json:"error"`
	}
	switch {
	case json.Unmarshal(text, &refused) == nil && refused.Error != "":
		err = fmt.Errorf("the gateway says: %s", refused.Error)
	case resp.StatusCode == http.StatusUnauthorized:
		err = fmt.Errorf("%s requires an account: --gateway http://user:password@host:port", req.URL.Redacted())
	case resp.StatusCode == http.StatusNotFound:
		err = fmt.Errorf("%s is not there: start tare serve with --standby and --standby-accounts", req.URL.Redacted())
	default:
		err = fmt.Errorf("%s returned %s", req.URL.Redacted(), resp.Status)
	}
	return refusedError{err}
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
