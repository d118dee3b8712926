package top

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/visible"
)

const (
	requestTimeout = 15 * time.Second
	maxAnswer      = 32 << 20 // bytes of one answer
	maxComplaint   = 300      // bytes of an error's text that are shown
)

// ClientOptions say where a gateway's pages are and how to get in.
type ClientOptions struct {
	URL      string // http:// or https://, with a path if they are behind one
	User     string // of exporter-toolkit's accounts; "" for none
	Password string
	CAFile   string // authorities of its certificate (PEM); "" for the system's
}

// A Client reads a gateway's HTTP side.
type Client struct {
	base           *url.URL
	user, password string
	http           *http.Client
}

// NewClient checks the options; it does not connect.
func NewClient(o ClientOptions) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--url: want http://host:port or https://host:port of the gateway's --http")
	}
	if u.User != nil {
		return nil, errors.New("--url holds an account: name it with --user, and its password with --password-file or TARE_TOP_PASSWORD")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("--url: want an address without ? and #")
	}
	if (o.User == "") != (o.Password == "") {
		return nil, errors.New("an account has a name and a password: want --user, and --password-file or TARE_TOP_PASSWORD")
	}
	if o.User != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("--url: the password would go to %s in clear: want https://", u.Host)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, Proxy: http.ProxyFromEnvironment}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("load --ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("load --ca: no certificate in %s: want PEM", o.CAFile)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &Client{base: u, user: o.User, password: o.Password, http: &http.Client{
		Transport: transport, Timeout: requestTimeout,
		// An account is for this address alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Host is the gateway's address, for people.
func (c *Client) Host() string { return c.base.Host }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// An Ask says which statements are wanted.
type Ask struct {
	By     Measure
	Filter string
	Limit  int
	Over   time.Duration // the time that the answer covers, where the gateway keeps more than counters; 0: the counters
}

// Read reads the gateway.
func (c *Client) Read(ctx context.Context, a Ask) (*Reading, error) {
	q := url.Values{"by": {a.By.asked()}, "limit": {strconv.Itoa(a.Limit)}}
	if a.Filter != "" {
		q.Set("filter", a.Filter)
	}
	if a.Over > 0 {
		q.Set("from", "now-"+strconv.FormatFloat(a.Over.Seconds(), 'f', -1, 64)+"s")
	} else {
		q.Set("source", counters)
	}
	r := &Reading{}
	if err := c.get(ctx, "/api/v1/live", &r.Live); err != nil {
		return nil, err
	}
	if err := c.get(ctx, "/api/v1/statements?"+q.Encode(), &r.Statements); err != nil {
		return nil, err
	}
	r.At = r.Statements.To
	return r, nil
}

// Ready asks a server whether it can do its work, and answers what it says.
func (c *Client) Ready(ctx context.Context) (string, error) {
	var text string
	err := c.ask(ctx, "/-/ready", func(body io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(body, maxComplaint))
		text = visible.Line(strings.TrimSpace(string(b)))
		return err
	})
	return text, err
}

func (c *Client) get(ctx context.Context, path string, answer any) error {
	return c.ask(ctx, path, func(body io.Reader) error {
		if err := json.NewDecoder(body).Decode(answer); err != nil {
			return fmt.Errorf("%w; is it a tare serve?", err)
		}
		return nil
	})
}

// ask reads the answer to a path, if it is one.
func (c *Client) ask(ctx context.Context, path string, read func(io.Reader) error) error {
	at := strings.TrimSuffix(c.base.String(), "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base.Host, err)
	}
	if c.user != "" {
		req.SetBasicAuth(c.user, c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base.Host, err)
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp, body)
	}
	if err := read(body); err != nil {
		return fmt.Errorf("read %s of %s: %w", req.URL.Path, c.base.Host, err)
	}
	return nil
}

// refused says what an answer other than 200 means.
func (c *Client) refused(resp *http.Response, body io.Reader) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%s requires an account (401): use --user, and --password-file or TARE_TOP_PASSWORD", c.base.Host)
	case http.StatusNotFound:
		return fmt.Errorf("%s has no %s (404): is it a tare serve of this version, and does it count statements?", c.base.Host, resp.Request.URL.Path)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxComplaint))
	if err != nil {
		return fmt.Errorf("%s returned %s", c.base.Host, resp.Status)
	}
	return fmt.Errorf("%s returned %s: %s", c.base.Host, resp.Status, visible.Line(strings.TrimSpace(string(text))))
}
