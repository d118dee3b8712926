package frontend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// longURL is the length from which a query is sent as a form instead of in the URL: a quarter of the
// strictest limit of common servers and proxies.
const longURL = 2 << 10

// A part is one shard of one system, which one downstream request returns.
type part struct {
	name     string     // in errors: "3_of_16", or "3_of_16 of 10.0.0.1:8316" if there are several systems
	replicas []*url.URL // in the order of attempts
	selector string
	retried  atomic.Bool // the second request was made; at most one per part
}

// parts returns the parts that a request is split into.
func (x *exchange) parts() []*part {
	o, n := &x.f.options, x.request.shards
	parts := make([]*part, 0, n*max(len(o.Members), 1))
	turn := int(x.f.turn.Add(1))
	for i, name := range shardNames(n) {
		text := x.request.selector.shard(i, n)
		if len(o.Members) == 0 {
			k := (turn + i) % len(o.Downstreams)
			replicas := append(o.Downstreams[k:len(o.Downstreams):len(o.Downstreams)], o.Downstreams[:k]...)
			parts = append(parts, &part{name: name, replicas: replicas, selector: text})
			continue
		}
		for _, m := range o.Members {
			parts = append(parts, &part{name: name + " of " + m.Host, replicas: []*url.URL{m}, selector: text})
		}
	}
	return parts
}

// shardNames returns "1_of_3", "2_of_3" and "3_of_3", as substrings of one text.
func shardNames(n int) []string {
	ends := make([]int, n)
	b := make([]byte, 0, n*len("128_of_128"))
	for i := range n {
		b = strconv.AppendInt(b, int64(i)+1, 10)
		b = append(b, "_of_"...)
		b = strconv.AppendInt(b, int64(n), 10)
		ends[i] = len(b)
	}
	text := string(b)
	names := make([]string, n)
	for i, end := range ends {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		names[i] = text[start:end]
	}
	return names
}

// fetch requests a part and returns when the headers of the response have arrived. If that fails for a reason
// that may be specific to the replica, it tries again once, on another replica if there is one.
func (x *exchange) fetch(ctx context.Context, p *part) (*http.Response, error) {
	resp, err := x.fetchFrom(ctx, p, p.replicas[0])
	if err == nil || !mayRetry(err) {
		return resp, err
	}
	return x.refetch(ctx, p, err)
}

// refetch makes the second request for a part, after the first has failed.
func (x *exchange) refetch(ctx context.Context, p *part, why error) (*http.Response, error) {
	if ctx.Err() != nil || !p.retried.CompareAndSwap(false, true) {
		return nil, why
	}
	x.retries.Add(1)
	resp, err := x.fetchFrom(ctx, p, p.replicas[1%len(p.replicas)])
	if err != nil && mayRetry(err) && !mayRetry(why) {
		return nil, why
	}
	return resp, err
}

// mayRetry reports whether another replica may succeed. Errors caused by the request are the same at all
// replicas.
func mayRetry(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code >= http.StatusInternalServerError && e.Code != http.StatusNotImplemented
}

// fetchFrom requests a part from one replica.
func (x *exchange) fetchFrom(ctx context.Context, p *part, u *url.URL) (resp *http.Response, err error) {
	ctx, finish := x.f.options.Spans.request(ctx, p, u)
	o := outcomeFailed
	defer func() { finish(o, resp) }()
	req, err := x.newRequest(ctx, p, u)
	if err != nil {
		return nil, err
	}
	x.asked.Add(1)
	resp, o, err = x.roundTrip(ctx, p, u, req)
	x.f.metrics.asked(o)
	return resp, err
}

// roundTrip sends the request for a part to one replica and checks the status of the response.
func (x *exchange) roundTrip(ctx context.Context, p *part, u *url.URL, req *http.Request) (*http.Response, outcome, error) {
	begin := time.Now()
	resp, err := x.f.transport.RoundTrip(req)
	if errors.Is(context.Cause(ctx), errHedged) {
		if err == nil {
			resp.Body.Close()
		}
		return nil, outcomeCanceled, fmt.Errorf("ask %s: %w", u.Host, errHedged)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, outcomeFailed, fmt.Errorf("ask %s: %w", u.Host, err) // the request was cancelled: not the peer's failure
		}
		x.f.peers.failed(u, outcomeFailed, err.Error(), err)
		return nil, outcomeFailed, &statusError{Code: http.StatusBadGateway, Part: p.name, Text: fmt.Sprintf("ask %s: %v", u.Host, err), err: err}
	}
	if err := x.errorOf(resp, p.name); err != nil {
		o := outcomeOf(resp.StatusCode)
		x.f.peers.failed(u, o, fmt.Sprintf("returned status %d", resp.StatusCode), err)
		return nil, o, err
	}
	x.f.peers.served(u, time.Since(begin))
	return resp, outcomeResponded, nil
}

// newRequest returns the request for a part: a GET, or a POST with a form if the URL would be too long.
func (x *exchange) newRequest(ctx context.Context, p *part, base *url.URL) (*http.Request, error) {
	q := &x.request
	form := make(url.Values, len(q.others)+3)
	maps.Copy(form, q.others)
	form.Set("selector", p.selector)
	if q.countBy != "" {
		form.Set("count_by", q.countBy)
	} else if q.limit > 0 {
		form.Set("limit", strconv.Itoa(q.limit+1)) // one more, to detect whether there are more
	}
	u := *base
	u.User = nil
	u.Path, u.RawPath = strings.TrimRight(base.Path, "/")+apiPath+string(q.endpoint), ""
	method, body := http.MethodGet, io.Reader(nil)
	if text := form.Encode(); len(text) > longURL {
		method, body = http.MethodPost, strings.NewReader(text)
	} else {
		u.RawQuery = text
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", base.Redacted(), err)
	}
	maps.Copy(req.Header, q.header)
	x.f.options.Spans.inject(ctx, req.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if user := base.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	req.Header.Set("User-Agent", "tare-frontend")
	req.Header.Set("Accept", jsonType)
	encoding := string(x.f.options.Encoding)
	if encoding == "" {
		encoding = "identity"
	}
	req.Header.Set("Accept-Encoding", encoding)
	return req, nil
}
