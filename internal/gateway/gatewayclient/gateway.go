package gatewayclient

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/httpclient"
)

// maxP99 is the greatest plausible latency, a day, in microseconds.
const maxP99 = 24 * 60 * 60 * 1e6

// requestTimeout bounds a request to a gateway, in addition to the duration of a pause.
const requestTimeout = 5 * time.Second

// A Gateway is the HTTP API of a tare serve, and the account for it.
type Gateway struct {
	URL     string         // http://host:port or https://host:port, with user:password@ if it requires an account
	Token   string         // of an account, instead of user:password@
	RootCAs *x509.CertPool // authorities for its certificate; nil: the system's
}

func (g *Gateway) options() httpclient.Options {
	return httpclient.Options{URL: g.URL, Token: g.Token, RootCAs: g.RootCAs, Credentials: "option gateway-token-file, or option gateway as https://user:password@host:port"}
}

// Validate returns the first error in g. An empty URL, which means no gateway, is valid.
func (g *Gateway) Validate() error {
	if g.URL == "" {
		return nil
	}
	if _, err := httpclient.New(g.options()); err != nil {
		return fmt.Errorf("option gateway: %w", err)
	}
	return nil
}

// A Client calls the API of a gateway. Its errors contain no credentials.
type Client struct{ http *httpclient.Client }

// New returns a client of a validated gateway; it panics if g is invalid. It does not connect.
func New(g *Gateway) *Client {
	c, err := httpclient.New(g.options())
	if err != nil {
		panic("BUG: a gateway that was validated: " + err.Error())
	}
	return &Client{c}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.Close() }

// A Route is the server of a gateway's clients.
type Route struct {
	Active  string `json:"active"`
	Address string `json:"address"`
	Backend string `json:"backend"`
	Standby string `json:"standby"`
	Stage   string `json:"stage"` // open: clients are not paused

	Pinned []Pinned `json:"pinned"`
}

// A Pinned is a session that a switch would have to close.
type Pinned struct {
	Connection uint32 `json:"connection"`
	User       string `json:"user"`
	Reason     string `json:"reason"`
}

// A RefusedError is a gateway's refusal, as opposed to a request without a response.
type RefusedError struct{ error }

// Unwrap returns the cause.
func (e RefusedError) Unwrap() error { return e.error }

// Route returns the server of the clients.
func (c *Client) Route(ctx context.Context) (r Route, err error) {
	return r, c.request(ctx, requestTimeout, http.MethodGet, "", nil, &r)
}

// Pause pauses all commands for at most d, and returns once none is executing. The token identifies the
// pause.
func (c *Client) Pause(ctx context.Context, d time.Duration) (token string, err error) {
	var r struct {
		Token string `json:"token"`
	}
	err = c.request(ctx, d+requestTimeout, http.MethodPost, "/hold", map[string]string{"for": d.String()}, &r)
	return r.Token, err
}

// A Switched is the effect of a switch.
type Switched struct {
	Moved  int `json:"moved"`  // sessions
	Closed int `json:"closed"` // sessions that could not be moved
}

// Switch moves all sessions to a side, backend or standby. It closes pinned ones if closePinned is set, and
// otherwise fails if there are any.
func (c *Client) Switch(ctx context.Context, token, side string, closePinned bool) (s Switched, err error) {
	request := map[string]string{"token": token, "to": side}
	if closePinned {
		request["pinned"] = "close"
	}
	err = c.request(ctx, requestTimeout, http.MethodPost, "/switch", request, &s)
	return s, err
}

// Release ends a pause.
func (c *Client) Release(ctx context.Context, token string) error {
	return c.request(ctx, requestTimeout, http.MethodPost, "/release", map[string]string{"token": token}, &Route{})
}

// MaySwitch returns an error if the account may read the route but not pause and switch clients. It releases a pause
// that does not exist, which the gateway refuses after it has checked the account.
func (c *Client) MaySwitch(ctx context.Context) error {
	err := c.Release(ctx, "")
	if e, ok := errors.AsType[*httpclient.StatusError](err); ok && (e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized) {
		return fmt.Errorf("pausing and switching clients requires an account of option gateway with the role operator: %w", err)
	}
	return nil // a gateway that does not respond now may respond at the switch
}

// request sends a request about the route and decodes the response.
func (c *Client) request(ctx context.Context, limit time.Duration, method, path string, request any, response any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body []byte
	if request != nil {
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	const most = 1 << 20
	text, err := c.http.Do(ctx, method, "/api/v1/route"+path, body, most)
	e, refused := errors.AsType[*httpclient.StatusError](err)
	switch {
	case refused && e.Code == http.StatusNotFound:
		return RefusedError{fmt.Errorf("%s has no %s (404): start tare serve with option standby and option standby-accounts", e.Host, e.Path)}
	case refused && e.Code == http.StatusConflict && e.Text != "":
		return RefusedError{fmt.Errorf("the gateway refuses: %s", e.Text)}
	case refused:
		return RefusedError{err}
	case err != nil:
		return err
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("%s does not return JSON: is it a tare serve?", c.http.Host())
	}
	return nil
}

// P99 returns the 99th percentile of the latency of the statements of the last second, or of as many more, up to ten, as have 200 statements.
// Of a tare serve that does not report it, it is that of the last ten seconds. It is 0 if there was no statement.
func (c *Client) P99(ctx context.Context) (time.Duration, error) {
	const most = 64 << 10
	text, err := c.http.Do(ctx, http.MethodGet, "/api/v1/live", nil, most)
	if err != nil {
		return 0, err
	}
	var live struct {
		Statements *uint64  `json:"statements"`
		P99        *float64 `json:"p99_us"`
		Recent     *float64 `json:"p99_recent_us"`
	}
	err = json.Unmarshal(text, &live)
	if err == nil && live.P99 == nil && live.Statements != nil && *live.Statements == 0 {
		return 0, nil
	}
	if err != nil || live.P99 == nil {
		return 0, fmt.Errorf("%s reports no p99: is it a tare serve?", c.http.Host())
	}
	p99 := *cmp.Or(live.Recent, live.P99)
	if p99 < 0 || p99 > maxP99 {
		return 0, fmt.Errorf("%s reports a p99 of %g µs, which is no latency: is it a tare serve?", c.http.Host(), p99)
	}
	return time.Duration(p99 * float64(time.Microsecond)), nil
}
