package remotewrite

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/taredb/tare/internal/localstate"
)

// Headers of the protocol.
const (
	headerVersion    = "X-Prometheus-Remote-Write-Version"
	headerSamples    = "X-Prometheus-Remote-Write-Samples-Written"
	headerHistograms = "X-Prometheus-Remote-Write-Histograms-Written"
	headerTenant     = "X-Scope-OrgID"
)

// Bounds of bytes read from a receiver.
const (
	maxToken      = 64 << 10
	maxResponse   = 4 << 10
	maxRetryAfter = 5 * time.Minute
)

// A client posts requests to a Receiver, one at a time.
type client struct {
	receiver Receiver
	address  string // the URL without user and password
	http     *http.Client
	packed   []byte // scratch of post
}

func newClient(r Receiver) (*client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1
	if r.CAFile != "" {
		text, err := localstate.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificates of authorities: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", r.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	bare := *r.URL
	bare.User = nil
	return &client{receiver: r, address: bare.String(), http: &http.Client{
		Transport: transport, Timeout: r.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // credentials go to the given URL alone
	}}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// A response is a receiver's result for a request.
type response struct {
	status     int
	confirmed  bool // it has at least one of the headers of 2.0
	samples    int  // written, of 2.0
	histograms int  // the same
	text       string
	retryAfter time.Duration // 0: not given
}

// post sends a request. It returns an error if there is no response.
func (c *client) post(ctx context.Context, body []byte, attempt int) (response, error) {
	c.packed = s2.EncodeSnappy(c.packed[:cap(c.packed)], body)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(c.packed))
	if err != nil {
		return response{}, err
	}
	h := r.Header
	h.Set("User-Agent", "tare")
	h.Set("Content-Encoding", "snappy")
	h.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	h.Set(headerVersion, "2.0.0")
	if c.receiver.Version == V1 {
		h.Set("Content-Type", "application/x-protobuf")
		h.Set(headerVersion, "0.1.0")
	}
	if c.receiver.Tenant != "" {
		h.Set(headerTenant, c.receiver.Tenant)
	}
	if attempt > 0 {
		h.Set("Retry-Attempt", strconv.Itoa(attempt))
	}
	if err := c.authorize(r); err != nil {
		return response{}, err
	}
	got, err := c.http.Do(r)
	if err != nil {
		return response{}, withoutURL(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(io.LimitReader(got.Body, maxResponse))
	if err != nil {
		return response{}, fmt.Errorf("read the response: %w", err)
	}
	return parseResponse(got, text), nil
}

// withoutURL returns the cause of an error of net/http, whose text repeats the URL.
func withoutURL(err error) error {
	var in *url.Error
	if errors.As(err, &in) {
		return in.Err
	}
	return err
}

// authorize adds the credentials. The file of a token is read each time: it may be replaced.
func (c *client) authorize(r *http.Request) error {
	if u := c.receiver.URL.User; u != nil {
		password, _ := u.Password()
		r.SetBasicAuth(u.Username(), password)
	}
	if c.receiver.TokenFile == "" {
		return nil
	}
	text, err := localstate.ReadFile(c.receiver.TokenFile)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	if len(text) > maxToken {
		return fmt.Errorf("%s: want a token of at most %d bytes", c.receiver.TokenFile, maxToken)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("%s: want one token of printable ASCII characters", c.receiver.TokenFile)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func parseResponse(r *http.Response, text []byte) response {
	out := response{status: r.StatusCode, text: strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))}
	for _, h := range []struct {
		name string
		to   *int
	}{{headerSamples, &out.samples}, {headerHistograms, &out.histograms}} {
		if n, err := strconv.Atoi(r.Header.Get(h.name)); err == nil && n >= 0 {
			out.confirmed, *h.to = true, n
		}
	}
	after := r.Header.Get("Retry-After")
	if n, err := strconv.Atoi(after); err == nil && n > 0 {
		out.retryAfter = min(time.Duration(min(n, 1<<20))*time.Second, maxRetryAfter)
	} else if at, err := http.ParseTime(after); err == nil {
		out.retryAfter = min(max(0, time.Until(at)), maxRetryAfter)
	}
	return out
}
