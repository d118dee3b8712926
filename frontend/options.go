package frontend

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/taredb/tare/activeseries"
	"github.com/taredb/tare/querylog"
)

// Options say whom a Frontend asks, and what an answer may take.
type Options struct {
	// Downstreams are replicas of one system: a shard is asked of one of them. Members are
	// systems with different series: a shard is asked of all of them, and a series that several have
	// is in the answer once. There are either the ones or the others. A URL is http or https, may
	// have a path that goes before /api/v1/…, and a user and password for basic authentication.
	Downstreams, Members []*url.URL

	Shards    int // that a request is split into unless it says otherwise; 1 does not split
	MaxShards int // that a request may ask for; 0 is no limit

	// MaxRequests are answered at the same time; others wait. 0 is no limit.
	MaxRequests int

	// ResponseBytes is how long an answer may be before it is compressed; 0 is no limit.
	ResponseBytes int64

	// MergeBytes is what one request may take to tell duplicates apart, to count, and to merge
	// metrics with native histograms.
	MergeBytes int64

	// Timeout is how long a request may take, the reading of the answer included; 0 is no limit.
	Timeout time.Duration

	// Hedge is the fraction of the requests for shards, from 0 to 1, that may be made a second time: a shard that
	// is much slower than the others of its request is, once per request. 0: none.
	Hedge float64

	// Encoding is asked of the downstreams. What they answer with is taken whatever it is.
	Encoding Encoding

	Decoding Decoding // may be changed: SetDecoding

	// Transport asks the downstreams; nil for NewTransport's.
	Transport http.RoundTripper

	Log  *querylog.Logger // of requests; nil for none
	Diag *slog.Logger     // of decoders that do not agree; nil for slog.Default
}

// A Decoding says how bodies are decoded.
type Decoding struct {
	By activeseries.Implementation

	// Compare is the share of requests whose bodies are decoded by both implementations, from 0 to
	// 1. What they do not agree on is counted and logged.
	Compare float64
}

// Validate says what is wrong with d.
func (d Decoding) Validate() error {
	switch {
	case d.By != activeseries.Strict && d.By != activeseries.Stdlib:
		return fmt.Errorf("decoder %d is unknown", d.By)
	case !(d.Compare >= 0 && d.Compare <= 1):
		return fmt.Errorf("share of requests to compare decoders on: want 0 to 1, not %v", d.Compare)
	}
	return nil
}

// Validate says what is wrong with o.
func (o *Options) Validate() error {
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
	return errors.Join(append(errs, o.Encoding.Validate(), o.Decoding.Validate())...)
}

// validateURL says what is wrong with the address of a downstream.
func validateURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("want a URL such as http://mimir:8080/prometheus, not %q", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s: want a URL that ends with its path", u.Redacted())
	}
	return nil
}

// NewTransport makes the transport that a Frontend asks by when it is given none. The default TLS
// configuration is Go's.
//
// It speaks HTTP/1.1: each body then waits in a socket of its own, where the kernel bounds it. HTTP/2
// would hold megabytes a body in this process.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.ForceAttemptHTTP2 = false
	t.DisableCompression = true // asked for, and undone, by the frontend
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 128
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}

// workers is how many bodies of a request are read at once.
func workers() int { return runtime.GOMAXPROCS(0) }
