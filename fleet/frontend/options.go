package frontend

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/querylog"
)

// Options configure the downstreams of a Frontend and its limits.
type Options struct {
	// Downstreams are replicas of one system: a shard is requested from one of them. Members are systems with
	// different series: a shard is requested from all of them, and a series that several have is in the
	// response once. Only one of the two may be set. A URL is http or https, may have a path, which is
	// prepended to /api/v1/…, and a user and password for basic authentication.
	Downstreams, Members []*url.URL

	Shards    int // default number of shards of a request; 1 does not split
	MaxShards int // maximum number of shards of a request; 0 is no limit

	// MaxRequests bounds concurrent requests; others wait. 0 is no limit.
	MaxRequests int

	// ResponseBytes bounds the length of an uncompressed response; 0 is no limit.
	ResponseBytes int64

	// MergeBytes bounds the memory that one request may use to deduplicate, to count, and to merge metrics
	// with native histograms.
	MergeBytes int64

	// Timeout bounds the time of a request, including the time the client takes to read the response; 0 is no
	// limit.
	Timeout time.Duration

	// Hedge is the fraction of the requests for shards, from 0 to 1, that may be hedged: a shard that is much
	// slower than the others of its request is requested again, once per request. 0: none.
	Hedge float64

	// Encoding is requested from the downstreams. Other encodings of their responses are accepted too.
	Encoding Encoding

	Decoding Decoding // initial value; see SetDecoding

	// Transport sends requests to the downstreams; nil: that of NewTransport.
	Transport http.RoundTripper

	Spans *Spans           // of requests; nil: none
	Log   *querylog.Logger // logs requests; nil: none
	Diag  *slog.Logger     // logs disagreements of decoders; nil: slog.Default
}

// A Decoding specifies how bodies are decoded.
type Decoding struct {
	By activeseries.Implementation

	// Compare is the fraction of requests, from 0 to 1, whose bodies are decoded by both implementations.
	// Disagreements are counted and logged.
	Compare float64
}

// validate returns an error if d is invalid.
func (d Decoding) validate() error {
	switch {
	case d.By != activeseries.Strict && d.By != activeseries.Stdlib:
		return fmt.Errorf("decoder %d is unknown", d.By)
	case !(d.Compare >= 0 && d.Compare <= 1):
		return fmt.Errorf("share of requests to compare decoders on: want 0 to 1, not %v", d.Compare)
	}
	return nil
}

// validate returns an error if o is invalid.
func (o *Options) validate() error {
	var errs []error
	switch {
	case len(o.Downstreams) == 0 && len(o.Members) == 0:
		errs = append(errs, errors.New("no downstreams or members"))
	case len(o.Downstreams) > 0 && len(o.Members) > 0:
		errs = append(errs, errors.New("want either downstreams, replicas of one system, or members, systems with different series"))
	}
	for _, list := range [][]*url.URL{o.Downstreams, o.Members} {
		for i, u := range list {
			errs = append(errs, validateURL(u))
			for _, other := range list[:i] {
				if other.String() == u.String() {
					errs = append(errs, fmt.Errorf("%s is listed twice", u.Redacted()))
				}
			}
		}
	}
	if o.Shards < 1 {
		errs = append(errs, fmt.Errorf("shards: want at least 1, not %d", o.Shards))
	}
	if o.MaxShards < 0 || o.MaxRequests < 0 || o.ResponseBytes < 0 || o.Timeout < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if o.MaxShards > 0 && o.Shards > o.MaxShards {
		errs = append(errs, fmt.Errorf("%d shards are more than the %d that a request may ask for", o.Shards, o.MaxShards))
	}
	if !(o.Hedge >= 0 && o.Hedge <= 1) {
		errs = append(errs, fmt.Errorf("fraction of hedged requests: want 0 to 1, not %v", o.Hedge))
	}
	if o.MergeBytes <= 0 {
		errs = append(errs, errors.New("bytes to merge with: want more than 0"))
	}
	return errors.Join(append(errs, o.Encoding.validate(), o.Decoding.validate())...)
}

// validateURL returns an error if the URL of a downstream is invalid.
func validateURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("want a URL such as http://mimir:8080/prometheus, not %q", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s: want a URL that ends with its path", u.Redacted())
	}
	return nil
}

// NewTransport returns the transport that a Frontend uses by default. Its TLS configuration is Go's default.
//
// It uses HTTP/1.1: each body then waits in a separate socket, where the kernel bounds it. HTTP/2 would
// buffer megabytes per body in this process.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.ForceAttemptHTTP2 = false
	t.DisableCompression = true // the frontend negotiates compression itself
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 128
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}

// workers returns the number of bodies of a request that are read concurrently.
func workers() int { return runtime.GOMAXPROCS(0) }
