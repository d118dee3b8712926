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

// longURL is from where on a question goes into a form instead of the URL: a quarter of what the
// strictest of the common servers and proxies take.
const longURL = 2 << 10

// A part is one shard of one system: what one request downstream asks for.
type part struct {
	name     string     // in errors: "3_of_16", or "3_of_16 of 10.0.0.1:8316" where there are several systems
	replicas []*url.URL // to be asked in this order
	selector string
	retried  atomic.Bool // the second request was made; once per part
}

// parts are what a request is split into.
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

// shardNames are "1_of_3", "2_of_3" and "3_of_3", cut from one text.
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

// ask asks for a part until all headers of the answer are there; if that fails in a way that may be
// the replica's own, once more, on another replica if there is one.
func (x *exchange) ask(ctx context.Context, p *part) (*http.Response, error) {
	resp, err := x.try(ctx, p, p.replicas[0])
	if err == nil || !mayRetry(err) {
		return resp, err
	}
	return x.askAgain(ctx, p, err)
}

// askAgain is the second request for a part, after the first failed.
func (x *exchange) askAgain(ctx context.Context, p *part, why error) (*http.Response, error) {
	if ctx.Err() != nil || !p.retried.CompareAndSwap(false, true) {
		return nil, why
	}
	x.retries.Add(1)
	resp, err := x.try(ctx, p, p.replicas[1%len(p.replicas)])
	if err != nil && mayRetry(err) && !mayRetry(why) {
		return nil, why
	}
	return resp, err
}

// mayRetry reports whether another replica may have an answer: what the request itself is wrong in, all
// of them refuse.
func mayRetry(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Code >= http.StatusInternalServerError && e.Code != http.StatusNotImplemented
}

// try asks one replica for a part.
func (x *exchange) try(ctx context.Context, p *part, u *url.URL) (*http.Response, error) {
	req, err := x.newRequest(ctx, p, u)
	if err != nil {
		return nil, err
	}
	x.asked.Add(1)
	begin := time.Now()
	resp, err := x.f.transport.RoundTrip(req)
	if errors.Is(context.Cause(ctx), errHedged) {
		x.f.metrics.asked(outcomeCanceled)
		if err == nil {
			resp.Body.Close()
		}
		return nil, fmt.Errorf("ask %s: %w", u.Host, errHedged)
	}
	if err != nil {
		x.f.metrics.asked(outcomeFailed)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask %s: %w", u.Host, err) // the request is over, which is not the peer's fault
		}
		x.f.peers.failed(u, outcomeFailed, err.Error(), err)
		return nil, &StatusError{Code: http.StatusBadGateway, Part: p.name, Text: fmt.Sprintf("ask %s: %v", u.Host, err), err: err}
	}
	if err := x.errorOf(resp, p.name); err != nil {
		x.f.metrics.asked(outcomeOf(resp.StatusCode))
		x.f.peers.failed(u, outcomeOf(resp.StatusCode), fmt.Sprintf("returned status %d", resp.StatusCode), err)
		return nil, err
	}
	x.f.metrics.asked(outcomeAnswered)
	x.f.peers.answered(u, time.Since(begin))
	return resp, nil
}

// newRequest is the request for a part: a GET, or a POST of the same as a form when a URL would be long.
func (x *exchange) newRequest(ctx context.Context, p *part, base *url.URL) (*http.Request, error) {
	q := &x.request
	form := make(url.Values, len(q.others)+3)
	maps.Copy(form, q.others)
	form.Set("selector", p.selector)
	if q.countBy != "" {
		form.Set("count_by", q.countBy)
	} else if q.limit > 0 {
		form.Set("limit", strconv.Itoa(q.limit+1)) // one more tells that there is more
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
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if user := base.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	req.Header.Set("User-Agent", "tare-frontend")
	// JSON is merged as fast as frames are, and a body that ends early cannot pass for a whole one. Who
	// has nothing else may send frames: a Mimir that has both sends them to whoever names them, at any weight.
	req.Header.Set("Accept", jsonType)
	encoding := string(x.f.options.Encoding)
	if encoding == "" {
		encoding = "identity"
	}
	req.Header.Set("Accept-Encoding", encoding)
	return req, nil
}
