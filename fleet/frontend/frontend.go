package frontend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/panics"
)

// lateGrace is the time, in addition to the request's, for sending the end of a response that reports the
// time-out.
const lateGrace = 2 * time.Second

// A Frontend serves requests for series by requesting shards. It is safe for concurrent use.
type Frontend struct {
	options     Options
	transport   http.RoundTripper
	own         *http.Transport // nil unless Close closes it
	merger      *activeseries.Merger
	compressors compressors
	decoding    atomic.Pointer[Decoding]
	turn        atomic.Uint32 // index of the replica that is requested first
	gate        chan struct{} // one slot per running request; nil without a limit
	running     atomic.Int64
	hedges      hedgeBudget
	idle        chan struct{} // notified when no request runs any more
	metrics     *metrics
	peers       peers
	latest      latest
	diag        *slog.Logger
}

// New returns a Frontend. The caller closes it.
func New(o Options) (*Frontend, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	f := &Frontend{
		options:   o,
		transport: o.Transport,
		merger:    activeseries.NewMerger(activeseries.MergerOptions{Workers: workers()}),
		idle:      make(chan struct{}, 1),
		metrics:   newMetrics(),
		peers:     newPeers(&o),
		diag:      o.Diag,
		hedges:    newHedgeBudget(o.Hedge),
	}
	if f.transport == nil {
		f.own = NewTransport()
		f.transport = f.own
	}
	if f.diag == nil {
		f.diag = slog.Default()
	}
	if o.MaxRequests > 0 {
		f.gate = make(chan struct{}, o.MaxRequests)
	}
	return f, f.SetDecoding(o.Decoding)
}

// Close closes idle connections. It does not cancel requests, which finish by their own contexts.
func (f *Frontend) Close() {
	if f.own != nil {
		f.own.CloseIdleConnections()
	}
}

// IdleBytes returns the memory of idle buffers. The memory of running requests is bounded by MergeBytes and
// the number of CPUs.
func (f *Frontend) IdleBytes() int64 { return f.merger.IdleBytes() }

// Collectors returns the frontend's metrics.
func (f *Frontend) Collectors() []prometheus.Collector { return f.metrics.all() }

// Patterns returns the paths of the API in the form of http.ServeMux.
func Patterns() []string { return patterns(seriesEndpoint, histogramsEndpoint) }

// SeriesPatterns returns the patterns of requests for series.
func SeriesPatterns() []string { return patterns(seriesEndpoint) }

func patterns(endpoints ...endpoint) []string {
	var patterns []string
	for _, prefix := range []string{"", "/prometheus"} {
		for _, e := range endpoints {
			patterns = append(patterns, "GET "+prefix+apiPath+string(e), "POST "+prefix+apiPath+string(e))
		}
	}
	return patterns
}

// ServeHTTP serves the paths of Patterns.
func (f *Frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := endpoint(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if e != seriesEndpoint && e != histogramsEndpoint {
		http.NotFound(w, r)
		return
	}
	f.startRequest()
	defer f.finishRequest()
	rec := newRecord(r, e)
	traced, span := f.options.Spans.start(r.Context(), r, rec)
	defer func() { f.options.Spans.finish(span, rec) }()
	ctx, cancel := context.WithCancelCause(traced)
	defer cancel(errDone)
	if f.options.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, f.options.Timeout, errTimeout)
		defer stop()
		// Stop waiting for a client that does not read.
		c := http.NewResponseController(w)
		if c.SetWriteDeadline(time.Now().Add(f.options.Timeout+lateGrace)) == nil {
			defer func() { _ = c.SetWriteDeadline(time.Time{}) }() // clears the deadline for the connection's next request
		}
	}
	x := &exchange{f: f, cancel: cancel}
	h := &bufferedWriter{w: w, code: http.StatusOK}
	err := f.acquire(ctx)
	if err == nil {
		err = panics.Guard(func() error {
			defer f.release()
			return x.serve(ctx, h, r, rec)
		})
	}
	if p := panics.Of(err); p != nil {
		rec.Status, rec.ErrorText = http.StatusInternalServerError, "internal error: see the server's log"
		f.log(x, h, rec)
		panic(p) // the server reports it and aborts the response
	}
	if err != nil {
		f.reportError(ctx, h, rec, err)
	}
	f.log(x, h, rec)
}

func (f *Frontend) startRequest() {
	f.running.Add(1)
	f.metrics.running.Inc()
}

func (f *Frontend) finishRequest() {
	f.metrics.running.Dec()
	if f.running.Add(-1) == 0 {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
}

// Running returns the number of requests being served.
func (f *Frontend) Running() int { return int(f.running.Load()) }

// Wait blocks until no request runs or ctx is done, and returns the number of running requests.
func (f *Frontend) Wait(ctx context.Context) int {
	for {
		n := f.Running()
		if n == 0 {
			return 0
		}
		select {
		case <-f.idle:
		case <-ctx.Done():
			return n
		}
	}
}

// acquire waits for a slot among the running requests.
func (f *Frontend) acquire(ctx context.Context) error {
	if f.gate == nil {
		return nil
	}
	select {
	case f.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &statusError{
			Code: http.StatusServiceUnavailable, RetryAfter: "1",
			Text: fmt.Sprintf("%d requests are running, and none finished in time for this one", f.options.MaxRequests), err: context.Cause(ctx),
		}
	}
}

func (f *Frontend) release() {
	if f.gate != nil {
		<-f.gate
	}
}

// serve serves one request. The caller reports an error to the client.
func (x *exchange) serve(ctx context.Context, h *bufferedWriter, r *http.Request, rec *record) error {
	var err error
	if x.request, err = x.f.parseRequest(h.w, r, endpoint(rec.Endpoint)); err != nil {
		return err
	}
	q := &x.request
	rec.Selector, rec.Masked = q.selector.String(), q.selector.masked()
	rec.CountBy, rec.Limit, rec.Shards, rec.Encoding = q.countBy, q.limit, q.shards, q.encoding
	x.chooseDecoding()
	responses, err := x.fetchAll(ctx)
	if err != nil {
		return err
	}
	rec.FirstByte = time.Since(rec.Start)
	header := h.w.Header()
	header.Add("Vary", "Accept, Accept-Encoding")
	header.Set("Cache-Control", "no-store")
	addWarnings(header, warningsHeader, nil, responses)
	if q.endpoint == histogramsEndpoint {
		return x.serveHistograms(h, responses, rec)
	}
	merged := x.mergeResponses(ctx, responses, string(q.encoding))
	maps.Copy(header, merged.Header)
	body := merged.Body.(*mergedBody)
	defer func() { _ = body.Close() }() // closes bodies that are not needed any more
	body.failed = func(error) bool {
		body.unfinished = !h.sent // then the status reports the error
		return body.unfinished
	}
	_, err = body.WriteTo(h)
	addLateWarnings(h, body.Warnings(), responses)
	stats := body.Stats()
	rec.ItemsOut, rec.Limited = stats.Items, stats.Limited
	if err != nil {
		return err
	}
	return h.finish()
}

// serveHistograms responds with metrics, which are merged completely before the first is sent.
func (x *exchange) serveHistograms(h *bufferedWriter, responses []*http.Response, rec *record) error {
	result, n, warnings, err := x.mergeHistograms(responses)
	addLateWarnings(h, warnings, responses)
	if err != nil {
		return err
	}
	rec.ItemsOut = int64(n)
	h.w.Header().Set("Content-Type", jsonType)
	if x.request.encoding == Identity {
		if _, err = h.Write(result); err != nil {
			return err
		}
		return h.finish()
	}
	h.w.Header().Set("Content-Encoding", string(x.request.encoding))
	z, release := x.f.compressors.writer(x.request.encoding, h)
	defer release()
	if _, err := z.Write(result); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return h.finish()
}

// reportError reports an error to the client: by a status if none was sent, otherwise by a trailer, in
// addition to the error in the body.
func (f *Frontend) reportError(ctx context.Context, h *bufferedWriter, rec *record, err error) {
	e := f.statusOf(ctx, err)
	if h.lost && e.Code != http.StatusGatewayTimeout {
		e = &statusError{Code: statusGone, Text: "the client left: " + err.Error(), err: err}
	}
	rec.Status, rec.ErrorText = e.Code, e.Error()
	if h.lost {
		return // the client has disconnected
	}
	if !h.sent {
		h.held, h.sent = nil, true
		h.w.Header().Del(countHeader)
		writeError(h.w, e)
		return
	}
	rec.Status, rec.Late = h.code, true
	h.w.Header().Set(errorTrailer, trailerText(rec.ErrorText))
}

// trailerText returns the text of an error as a header field: one line of ASCII.
func trailerText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ':
			return ' '
		case r > '~':
			return '?'
		}
		return r
	}, text)
}

// log logs the record of a finished request.
func (f *Frontend) log(x *exchange, h *bufferedWriter, rec *record) {
	rec.Total = time.Since(rec.Start)
	rec.Asked, rec.Retries = x.asked.Load(), x.retries.Load()
	rec.ItemsIn, rec.BytesIn, rec.BytesOut = x.itemsIn.Load(), x.bytesIn.Load(), h.bytes
	rec.Decoder, rec.Compared = x.decoding.By.String(), x.compare
	f.metrics.observe(rec)
	f.latest.record(rec)
	if f.options.Log != nil {
		f.options.Log.LogEntry(rec)
	}
}

// Ready returns nil if one replica, or each of the members, is reachable.
func (f *Frontend) Ready(ctx context.Context) error {
	var errs []error
	for _, u := range f.options.Members {
		errs = append(errs, f.ping(ctx, u))
	}
	for _, u := range f.options.Downstreams {
		err := f.ping(ctx, u)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ping returns nil if a downstream responds to HTTP, regardless of the response.
func (f *Frontend) ping(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	clean := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/ready"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, clean.String(), nil)
	if err != nil {
		return fmt.Errorf("make a request to %s: %w", u.Host, err)
	}
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("reach %s: %w", u.Host, err)
	}
	return resp.Body.Close()
}

// digestOf returns a digest that is equal for requests that differ only in values.
func digestOf(endpoint, masked string) (d [16]byte) {
	sum := sha256.Sum256([]byte(endpoint + "\x00" + masked))
	copy(d[:], sum[:])
	return d
}
