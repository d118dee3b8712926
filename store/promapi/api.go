package promapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/visible"
)

// An API is an http.Handler for all endpoints under Options.Prefix. It is safe for concurrent use.
type API struct {
	o      Options
	routes map[string]route
	gate   gate // admits requests to the storage
	pools  encoderPools

	parsing    gate // admits deep expressions, one at a time
	regexps    gate // admits requests with large regular expressions, one at a time
	evaluating gate // admits requests that compute a response

	engines   []promql.QueryEngine // one per attempt of a query; the last serves all further attempts
	responses *responses

	calls sync.Pool // *call: buffers and encoders of finished responses
	start time.Time
}

var _ http.Handler = (*API)(nil)

// A route is an endpoint. Its handler writes the response to c.out or returns an error.
type route struct {
	name    string
	methods []string
	handle  func(*call) *Error
	raw     bool // the body is not a form
}

// New returns an API.
func New(o Options) (*API, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	a := &API{o: o.restricted().withDefaults()}
	a.start = a.o.Now()
	a.engines = a.o.engines()
	a.responses = newResponses(a.o.Responses, a.o.WriteTimeout)
	a.gate = gate{maxRunning: a.o.MaxConcurrent, maxQueued: a.o.MaxQueued}
	a.evaluating = gate{maxRunning: a.o.MaxEvaluating, maxQueued: a.o.MaxQueued}
	a.parsing = gate{maxRunning: 1, maxQueued: a.o.MaxQueued}
	a.regexps = gate{maxRunning: 1, maxQueued: a.o.MaxQueued}
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	both := []string{http.MethodGet, http.MethodPost}
	a.routes = map[string]route{
		"query":              {"query", both, (*call).query, false},
		"query_range":        {"query_range", both, (*call).queryRange, false},
		"query_exemplars":    {"query_exemplars", both, (*call).exemplars, false},
		"format_query":       {"format_query", both, (*call).formatQuery, false},
		"parse_query":        {"parse_query", both, (*call).parseQuery, false},
		"labels":             {"labels", both, (*call).labelNames, false},
		"label/*/values":     {"label_values", get, (*call).labelValues, false},
		"series":             {"series", both, (*call).series, false},
		"read":               {"read", post, (*call).remoteRead, true},
		"metadata":           {"metadata", get, (*call).metadata, false},
		"rules":              {"rules", get, (*call).rules, false},
		"alerts":             {"alerts", get, constant(`{"alerts":[]}`), false},
		"targets":            {"targets", get, (*call).targets, false},
		"targets/metadata":   {"targets_metadata", get, (*call).targetsMetadata, false},
		"scrape_pools":       {"scrape_pools", get, constant(`{"scrapePools":[]}`), false},
		"alertmanagers":      {"alertmanagers", get, constant(`{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`), false},
		"features":           {"features", get, (*call).features, false},
		"status/buildinfo":   {"status_buildinfo", get, (*call).buildInfo, false},
		"status/runtimeinfo": {"status_runtimeinfo", get, (*call).runtimeInfo, false},
		"status/flags":       {"status_flags", get, (*call).flags, false},
		"status/config":      {"status_config", get, (*call).config, false},
	}
	return a, nil
}

// An Endpoint is a method and a path that an API serves, in the form of http.ServeMux.
type Endpoint struct{ Method, Path string }

// Endpoints returns all endpoints sorted by path. OPTIONS is served on every path.
func (a *API) Endpoints() []Endpoint {
	var all []Endpoint
	for path, rt := range a.routes {
		for _, method := range rt.methods {
			all = append(all, Endpoint{method, a.o.Prefix + "/" + strings.ReplaceAll(path, "*", "{name}")})
		}
	}
	slices.SortFunc(all, func(x, y Endpoint) int { return strings.Compare(x.Path+x.Method, y.Path+y.Method) })
	return all
}

// stats returns the state of the queues of requests that compute a response, and in front of the storage.
func (a *API) stats() gateStats {
	s, e := a.gate.stats(), a.evaluating.stats()
	return gateStats{Running: s.Running, Queued: s.Queued + e.Queued, Refused: s.Refused + e.Refused}
}

// A call is a request being served. It is reused with its buffer and encoder.
type call struct {
	api   *API
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context //nolint:containedctx // it lives as long as the request
	form  url.Values
	name  string // label name in label/<name>/values
	plain bool   // errors are plain text
	out   output
	enc   sampleEncoder
	seen  *Observation

	began    time.Time    // start of the first wait in a queue
	read     *readRequest // decoded remote read, since its body can be read only once
	reserved int64        // bytes of the response's buffer reported to Options.ReserveResponse
	matched  string       // the series that a query over MaxSamples matches, for its error
	broken   bool         // a panic left it in an unknown state: it is not reused

	largeRegexps bool // it holds the gate for them
}

// ServeHTTP serves one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := a.o.Now()
	c, ok := a.calls.Get().(*call)
	if !ok {
		c = new(call)
		c.out.buf = make([]byte, 0, bufferBytes)
	}
	c.api, c.w, c.r, c.ctx = a, w, r, r.Context()
	c.out = output{w: w, code: http.StatusOK, buf: c.out.buf[:0], parts: c.out.parts[:0], pools: &a.pools, budget: a.responses}
	c.seen = &Observation{Endpoint: "unknown"}
	h := w.Header()
	a.setCORS(h, r)
	h.Add("Vary", "Accept-Encoding")
	c.out.accept = negotiate(r.Header)

	err := c.serveGuarded()
	switch {
	case err != nil && c.out.sent:
		// A partial response must not look complete: close the connection.
		c.finish(began, err)
		panic(http.ErrAbortHandler)
	case err != nil:
		c.out.abandon()
		c.fail(err)
	}
	c.seen.Lost = c.out.finish()
	control := c.out.control
	if c.seen.Lost != nil {
		control = nil
	}
	c.finish(began, err)
	a.responses.flush(control)
}

// finish notifies the observer and returns the call to the pool.
func (c *call) finish(began time.Time, err *Error) {
	a := c.api
	if err != nil {
		if p := panics.Of(err.Err); p != nil {
			c.broken = true
			a.o.Panics.HTTP(p, c.r.URL.Path)
		}
	}
	c.out.abandon()
	c.seen.Err = err
	c.seen.Status = c.out.code
	c.seen.Bytes = c.out.bytes
	c.seen.Duration = a.o.Now().Sub(began)
	if a.o.Observe != nil {
		a.o.Observe(c.ctx, c.r, c.seen)
	}
	buf, parts, enc := c.out.buf, c.out.parts, c.enc
	if c.broken || cap(buf) > keptBytes {
		return
	}
	*c = call{enc: enc}
	c.out.buf, c.out.parts = buf, parts[:0]
	a.calls.Put(c)
}

// serveGuarded serves the request. A panic fails this request only; the state that the request used is not
// reused.
func (c *call) serveGuarded() (e *Error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http compares it
			panic(v)
		}
		c.broken = true
		e = c.api.classify(panics.Recovered(v))
	}()
	return c.serve()
}

// serve finds the endpoint, parses the form and handles the request.
func (c *call) serve() *Error {
	a := c.api
	if c.r.Method == http.MethodOptions {
		c.out.code = http.StatusNoContent
		return nil
	}
	rt, ok := c.route()
	if !ok {
		return &Error{Type: NotFound, Err: fmt.Errorf("there is no endpoint %s here", c.r.URL.Path)}
	}
	c.seen.Endpoint = rt.name
	if !slices.Contains(rt.methods, c.r.Method) {
		c.w.Header().Set("Allow", strings.Join(append([]string{http.MethodOptions}, rt.methods...), ", "))
		return &Error{Type: BadData, Status: http.StatusMethodNotAllowed, Err: fmt.Errorf("%s wants %s", rt.name, strings.Join(rt.methods, " or "))}
	}
	if a.o.Ready != nil {
		if err := a.o.Ready(); err != nil {
			return &Error{Type: Unavailable, Err: err}
		}
	}
	most := a.o.MaxBody
	if !rt.raw {
		most = min(most, maxForm)
	}
	if err := c.limitBody(most); err != nil {
		return err
	}
	defer c.releaseRegexps()
	if !rt.raw {
		if err := c.readForm(); err != nil {
			return err
		}
		if err := c.admitRegexps(); err != nil {
			return err
		}
	}
	e := rt.handle(c)
	for attempt := 0; e != nil && a.o.Retry != nil && !c.out.sent; e = rt.handle(c) {
		how := RetryLarger
		if !a.tooManySamples(e.Err, attempt) {
			how = a.o.Retry(c.r.Context(), e.Err)
		}
		if how == RetryLarger {
			attempt++
		}
		if how == NoRetry || attempt == maxAttempts {
			break
		}
		c.restart(e.Err, attempt)
	}
	if e != nil {
		e.Err = c.samplesError(e.Err)
	}
	if e != nil && e.Type == Timeout && a.o.Waiting != nil {
		if what := a.o.Waiting(c.ctx); what != "" {
			e.Err = fmt.Errorf("%w; waited for %s", e.Err, what)
		}
	}
	return e
}

// restart resets the call for another attempt. No part of a response was sent.
func (c *call) restart(err error, attempt int) {
	endpoint := c.seen.Endpoint
	*c.seen = Observation{Endpoint: endpoint}
	ctx := context.WithValue(c.r.Context(), failedKey{}, err)
	c.ctx, c.reserved, c.matched = context.WithValue(ctx, attemptKey{}, attempt), 0, ""
	c.out.abandon()
	c.out.code = http.StatusOK
}

// route returns the endpoint of the request's path.
func (c *call) route() (route, bool) {
	path, ok := strings.CutPrefix(c.r.URL.Path, c.api.o.Prefix+"/")
	if !ok {
		return route{}, false
	}
	if rt, ok := c.api.routes[path]; ok {
		return rt, !strings.Contains(path, "*")
	}
	if name, ok := strings.CutPrefix(path, "label/"); ok {
		if name, ok := strings.CutSuffix(name, "/values"); ok && name != "" && !strings.Contains(name, "/") {
			c.name = name
			return c.api.routes["label/*/values"], true
		}
	}
	return route{}, false
}

// readForm parses the parameters of URL and body. Those of the body come first.
func (c *call) readForm() *Error {
	err := c.r.ParseForm()
	if err == nil {
		if err = c.r.ParseMultipartForm(c.api.o.MaxBody); errors.Is(err, http.ErrNotMultipart) {
			err = nil
		}
	}
	if err != nil {
		return c.badBody(fmt.Errorf("error parsing form values: %w", err))
	}
	c.form = c.r.Form
	return nil
}

// admitted calls compute, in the background, when admit has admitted the request.
func (c *call) admitted(timeout *time.Duration, compute func() *Error) (e *Error) {
	release, e := c.admit(timeout)
	if e != nil {
		return e
	}
	defer release()
	c.api.o.Background(func() {
		e = compute()
		c.out.settle()
	})
	return e
}

// admit waits for a turn and calls Admit, within timeout if it is not nil. Without an error, the caller calls
// release when the response is in out and the storage is closed: this releases Admit's reservation before the
// client has the response. Another request may compute its response from then on, or from the first piece that is sent.
func (c *call) admit(timeout *time.Duration) (release func(), e *Error) {
	a, began := c.api, c.api.o.Now()
	ctx, cancel := c.withTimeout(timeout)
	err := a.gate.acquire(ctx)
	if err != nil {
		cancel()
		return nil, a.classify(err)
	}
	done := func() {}
	if a.o.Admit != nil {
		var admitted context.Context
		var free func()
		if admitted, free, err = a.o.Admit(ctx, c.r); err == nil {
			ctx = admitted
			if free != nil {
				done = free
			}
		}
	}
	if err == nil { // last: one that waits for bytes of the storage does not hold up others
		if err = a.evaluating.acquire(ctx); err != nil {
			done()
		} else {
			c.out.turn = &a.evaluating
		}
	}
	c.seen.Queued = a.o.Now().Sub(began)
	if err != nil {
		a.gate.release()
		defer cancel()
		if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
			err = queueError(ctx)
		}
		e = a.classify(err)
		if e.Type == Execution {
			e.Type = Unavailable
		}
		return nil, e
	}
	c.ctx = ctx
	return func() {
		c.out.settle()
		done()
		a.gate.release()
		c.out.endTurn()
		cancel()
	}, nil
}

// withTimeout returns the request's context with the rest of its time, which all attempts share. If timeout
// is nil, that of the options applies.
func (c *call) withTimeout(timeout *time.Duration) (context.Context, context.CancelFunc) {
	most, now := c.api.o.Timeout, c.api.o.Now()
	if timeout != nil {
		most = min(most, *timeout)
	}
	if c.began.IsZero() {
		c.began = now
	}
	return context.WithTimeout(c.ctx, most-now.Sub(c.began))
}

// startResponse starts a successful response.
func (c *call) startResponse() {
	c.w.Header().Set("Content-Type", "application/json")
	c.out.buf = append(c.out.buf, `{"status":"success","data":`...)
}

// finishResponse finishes a response with its warnings, to which it adds positions in the query, and with the
// output of Explain.
func (c *call) finishResponse(notes annotations.Annotations) {
	warnings, infos := sortedNotes(notes, c.form.Get("query"))
	c.seen.Warnings, c.seen.Infos = warnings, infos
	b := c.out.buf
	if len(warnings) > 0 {
		b = append(b, `,"warnings":`...)
		b = appendTexts(b, warnings)
	}
	if len(infos) > 0 {
		b = append(b, `,"infos":`...)
		b = appendTexts(b, infos)
	}
	if c.api.o.Explain != nil && c.form.Get("explain") == "1" {
		b = append(b, `,"explain":`...)
		b = c.api.o.Explain(c.ctx, b)
	}
	c.out.buf = append(b, '}')
	c.out.whole = true
}

// fail turns the response into an error. No part of a response was sent.
func (c *call) fail(e *Error) {
	c.out.code = e.status()
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("Content-Encoding")
	if e.Type == Unavailable {
		h.Set("Retry-After", "1")
	}
	if c.plain {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		c.out.buf = append(append(c.out.buf[:0], e.text()...), '\n')
		return
	}
	b := append(c.out.buf[:0], `{"status":"error","errorType":`...)
	b = appendText(b, string(e.Type))
	b = append(b, `,"error":`...)
	b = appendText(b, e.text())
	c.out.buf = append(b, '}')
}

// respond responds with a small value as data.
func (c *call) respond(v any) *Error {
	b, err := visible.MarshalJSON(v)
	if err != nil {
		return &Error{Type: Internal, Err: err}
	}
	c.startResponse()
	c.out.buf = append(c.out.buf, b...)
	c.finishResponse(nil)
	return nil
}

// constant returns a handler that always responds with the same data.
func constant(data string) func(*call) *Error {
	return func(c *call) *Error {
		c.startResponse()
		c.out.buf = append(c.out.buf, data...)
		c.finishResponse(nil)
		return nil
	}
}

// setCORS sets the headers that report to browsers whether pages of the request's origin may read the
// response.
func (a *API) setCORS(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || a.o.CORSOrigin == nil {
		return
	}
	switch {
	case a.o.CORSOrigin.String() == "^(?:.*)$" || a.o.CORSOrigin.String() == ".*":
		origin = "*"
	case !a.o.CORSOrigin.MatchString(origin):
		return
	}
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Origin")
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Expose-Headers", "Date")
	h.Set("Access-Control-Allow-Origin", origin)
}
