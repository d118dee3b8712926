package top

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/httpclient"
	"github.com/taredb/tare/internal/visible"
)

const (
	requestTimeout = 15 * time.Second
	maxResponse    = 32 << 20 // bytes of one response
	maxReady       = 300      // bytes of the response of /-/ready
)

// credentials names the flags and variables of an account, for errors.
const credentials = "--user with --password-file or TARE_TOP_PASSWORD, or --token-file or TARE_TOP_TOKEN"

// ClientOptions are the address of a gateway's HTTP API and the account for it.
type ClientOptions struct {
	URL      string // http:// or https://, with a path behind a proxy that adds one
	User     string // "" for none
	Password string
	Token    string         // instead of a user and password
	RootCAs  *x509.CertPool // authorities of its certificate; nil: the system's
}

// A Client reads a gateway's HTTP API.
type Client struct {
	http *httpclient.Client
}

// NewClient validates the options; it does not connect.
func NewClient(o ClientOptions) (*Client, error) {
	if u, err := url.Parse(o.URL); err == nil && u.User != nil {
		return nil, errors.New("--url contains an account: use " + credentials)
	}
	c, err := httpclient.New(httpclient.Options{
		URL: o.URL, User: o.User, Password: o.Password, Token: o.Token, RootCAs: o.RootCAs, Credentials: credentials,
	})
	switch {
	case errors.Is(err, httpclient.ErrURL):
		return nil, fmt.Errorf("address: %w of the gateway's --http", err)
	case errors.Is(err, httpclient.ErrPair):
		return nil, fmt.Errorf("%w: want --user, and --password-file or TARE_TOP_PASSWORD", err)
	case errors.Is(err, httpclient.ErrBoth):
		return nil, fmt.Errorf("%w: want --user, or --token-file or TARE_TOP_TOKEN", err)
	case err != nil:
		return nil, fmt.Errorf("--url: %w", err)
	}
	return &Client{c}, nil
}

// Host returns the gateway's address.
func (c *Client) Host() string { return c.http.Host() }

// Close closes idle connections.
func (c *Client) Close() { c.http.Close() }

// An Ask selects statements.
type Ask struct {
	By     Measure
	Filter string
	Limit  int
	Over   time.Duration // time range of the response, if the gateway keeps more than counters; 0: the counters

	CalledSince time.Time // of the counters: only statements called since; zero: the leading ones
}

// Read requests a reading of the gateway.
func (c *Client) Read(ctx context.Context, a Ask) (*Reading, error) {
	q := url.Values{"by": {a.By.asked()}, "limit": {strconv.Itoa(a.Limit)}}
	if a.Filter != "" {
		q.Set("filter", a.Filter)
	}
	if a.Over > 0 {
		q.Set("from", "now-"+strconv.FormatFloat(a.Over.Seconds(), 'f', -1, 64)+"s")
	} else {
		q.Set("source", counters)
		q.Set("durations", "true") // quantiles are of the difference of two readings
		if !a.CalledSince.IsZero() {
			q.Set("called_since", a.CalledSince.UTC().Format(time.RFC3339Nano))
		}
	}
	r := &Reading{Ask: a}
	if err := c.get(ctx, "/api/v1/live", &r.Live); err != nil {
		return nil, err
	}
	if err := c.get(ctx, "/api/v1/statements?"+q.Encode(), &r.Statements); err != nil {
		return nil, err
	}
	r.At = r.Statements.To
	r.Event = c.event(ctx, r.At)
	var sessions Sessions
	if err := c.get(ctx, fmt.Sprintf("/api/v1/sessions?limit=%d", MaxSessions), &sessions); err == nil {
		r.Sessions = &sessions
	}
	return r, nil
}

// Kill kills a statement or a session.
func (c *Client) Kill(ctx context.Context, k Kill) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(&k)
	if err != nil {
		return err
	}
	_, err = c.http.Do(ctx, http.MethodPost, "/api/v1/sessions/kill", body, maxResponse)
	return err
}

// eventAge is the maximum age of the displayed event.
const eventAge = 15 * time.Minute

// event returns the newest event, or nil: the statements are shown without it.
func (c *Client) event(ctx context.Context, now time.Time) *Event {
	var found events
	q := url.Values{"from": {now.Add(-eventAge).UTC().Format(time.RFC3339)}, "limit": {"1"}}
	if err := c.get(ctx, "/api/v1/events?"+q.Encode(), &found); err != nil || len(found.Events) == 0 {
		return nil
	}
	return &found.Events[len(found.Events)-1]
}

// Ready requests /-/ready of a server and returns its text.
func (c *Client) Ready(ctx context.Context) (string, error) {
	text, err := c.request(ctx, "/-/ready", maxReady)
	return visible.Line(strings.TrimSpace(string(text))), err
}

// get decodes the response to a path.
func (c *Client) get(ctx context.Context, path string, response any) error {
	text, err := c.request(ctx, path, maxResponse)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, response); err != nil {
		return fmt.Errorf("decode %s of %s: %w; is it a tare serve?", path, c.Host(), err)
	}
	return nil
}

// request returns the response to a path.
func (c *Client) request(ctx context.Context, path string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := c.http.Do(ctx, http.MethodGet, path, nil, limit)
	if e, ok := errors.AsType[*httpclient.StatusError](err); ok && e.Code == http.StatusNotFound {
		return nil, fmt.Errorf("%s has no %s (404): is it a tare serve of this version, and does it count statements?", e.Host, e.Path)
	}
	return text, err
}
