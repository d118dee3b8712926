package httpclient

import (
	"bytes"
	"cmp"
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
	"strings"
	"sync/atomic"

	"github.com/taredb/tare/internal/visible"
)

const (
	maxRefusal = 300     // bytes of a refusal that is no JSON, in an error
	maxReason  = 2 << 10 // bytes of one that is
	maxHeader  = 1 << 20 // bytes of a response's header
)

// Options are the address of a server's HTTP API and the account for it.
type Options struct {
	URL            string         // http:// or https://, with a path behind a proxy that adds one; may contain user:password@; host:port is http://
	User, Password string         // HTTP basic authentication; "" for none, or for that of URL
	Token          string         // sent as a bearer token instead
	RootCAs        *x509.CertPool // authorities of the server's certificate; nil: the system's

	// Credentials names the options that set an account, for errors.
	Credentials string
}

// Errors of New. They contain no part of a URL, which may include a password.
var (
	ErrURL  = errors.New("want host:port, http://host:port or https://host:port")
	ErrPair = errors.New("an account has a name and a password")
	ErrBoth = errors.New("a token and a user exclude each other")
)

// A ClearTextError reports credentials that would be sent unencrypted to another machine.
type ClearTextError struct{ Host string }

func (e *ClearTextError) Error() string {
	return fmt.Sprintf("the password or token would go to %s in clear: want https://", e.Host)
}

// A NotHTTPError reports a port of another protocol than HTTP, such as that of MySQL clients or of gRPC.
type NotHTTPError struct{ Host string }

func (e *NotHTTPError) Error() string {
	return fmt.Sprintf("%s does not respond in HTTP: want the server's HTTP address (port 8316 by default), not that of MySQL clients or of gRPC", e.Host)
}

// A Client sends requests to one server.
type Client struct {
	base          *url.URL // without an account
	authorization string   // header; "" for none
	credentials   string
	http          *http.Client
	foreign       atomic.Bool // the bytes that the server sent last on a new connection are not of HTTP
}

// New validates the options. It does not connect.
func New(o Options) (*Client, error) {
	if !strings.Contains(o.URL, "://") {
		if _, _, err := net.SplitHostPort(o.URL); err != nil {
			return nil, ErrURL
		}
		o.URL = "http://" + o.URL
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, ErrURL
	}
	if u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
		u.User = nil
	}
	c := &Client{base: u, credentials: o.Credentials}
	switch {
	case (o.User == "") != (o.Password == ""):
		return nil, ErrPair
	case o.User != "" && o.Token != "":
		return nil, ErrBoth
	case o.User != "":
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth(o.User, o.Password)
		c.authorization = r.Header.Get("Authorization")
	case o.Token != "":
		c.authorization = "Bearer " + o.Token
	}
	if c.authorization != "" && u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, &ClearTextError{u.Host}
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs}, Proxy: http.ProxyFromEnvironment,
			MaxResponseHeaderBytes: maxHeader,
			DialContext:            c.dial,
		},
		// An account is valid for this address only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Host returns the server's host and port.
func (c *Client) Host() string { return c.base.Host }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do sends a request to a path, which may have a query, and returns the response, of at most limit bytes.
// body is JSON; nil for none. Responses other than 200 are a StatusError. Errors contain no credentials.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, error) {
	at := strings.TrimSuffix(c.base.String(), "/") + path
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request %s of %s: %w", path, c.base.Host, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the rest repeats the URL
		}
		if c.foreign.Load() {
			err = &NotHTTPError{c.base.Host}
		}
		return nil, fmt.Errorf("request %s of %s: %w", req.URL.Path, c.base.Host, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", req.URL.Path, c.base.Host, err)
	}
	if int64(len(text)) > limit && resp.StatusCode == http.StatusOK {
		return nil, fmt.Errorf("read %s of %s: the response has more than %d bytes", req.URL.Path, c.base.Host, limit)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &StatusError{Code: resp.StatusCode, Host: c.base.Host, Path: req.URL.Path, Text: refusal(text), credentials: c.credentials}
	}
	return text, nil
}

// dial opens a connection. The first bytes of the server are checked, those of a proxy are not: they may be of SOCKS or TLS.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http wraps it
	}
	port := cmp.Or(c.base.Port(), map[string]string{"http": "80", "https": "443"}[c.base.Scheme])
	if address != net.JoinHostPort(c.base.Hostname(), port) {
		return conn, nil
	}
	return &firstBytes{Conn: conn, of: c}, nil
}

// A firstBytes is a connection that fails when the first bytes that it receives are not those of a server in HTTP. A MySQL
// server sends its greeting first, a gRPC server a frame of HTTP/2. The errors of net/http depend on which of the
// request and these bytes is first.
type firstBytes struct {
	net.Conn
	of   *Client
	seen []byte // the first bytes, used by the only reader
}

// Read implements net.Conn.
func (f *firstBytes) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	const most = len("HTTP/")
	if room := most - len(f.seen); room > 0 && n > 0 {
		f.seen = append(f.seen, p[:min(n, room)]...)
		foreign := !startsHTTP(f.seen, f.of.base.Scheme == "https")
		if f.of.foreign.Store(foreign); foreign {
			return 0, &NotHTTPError{f.of.base.Host} // more may never follow
		}
	}
	return n, err //nolint:wrapcheck // a net.Conn
}

// startsHTTP reports whether a server's first bytes may be of a response in HTTP, or with encrypted, of a TLS handshake
// or alert.
func startsHTTP(first []byte, encrypted bool) bool {
	if encrypted && (first[0] == 0x15 || first[0] == 0x16) {
		return len(first) == 1 || first[1] == 3
	}
	return strings.HasPrefix("HTTP/", string(first))
}

// refusal returns the server's reason: the error of a JSON object, or the text.
func refusal(body []byte) string {
	var object struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &object) == nil && object.Error != "" {
		return visible.Line(object.Error[:min(len(object.Error), maxReason)])
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return "" // a page of a proxy or of another server
	}
	if len(body) > maxRefusal {
		body = body[:maxRefusal]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n") // the rest is advice
	return visible.Line(first)
}

// A StatusError is a response other than 200.
type StatusError struct {
	Code       int
	Host, Path string
	Text       string // the server's reason; "" if it gave none

	credentials string
}

func (e *StatusError) Error() string {
	var text string
	switch e.Code {
	case http.StatusUnauthorized:
		text = fmt.Sprintf("%s requires an account (401)", e.Host)
		if e.credentials != "" {
			text += ": use " + e.credentials
		}
		return text
	case http.StatusForbidden:
		text = e.Host + " refused the request (403)"
	default:
		text = fmt.Sprintf("%s returned %d %s", e.Host, e.Code, http.StatusText(e.Code))
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}
