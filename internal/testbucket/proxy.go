package testbucket

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"log" //nolint:depguard // the type that net/http takes
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Fault is a way in which the proxy damages a request or its response.
type Fault string

// The faults.
const (
	Refuse    Fault = "refuse"    // the connection is reset before the server has the request
	Lose      Fault = "lose"      // the server has served the request, and the connection is reset before the response
	Reset     Fault = "reset"     // the connection is reset within the body
	Cut       Fault = "cut"       // the connection is closed within the body, which is shorter than Content-Length
	Short     Fault = "short"     // the body ends early, and Content-Length matches
	Stall     Fault = "stall"     // half of the body, then nothing
	Hang      Fault = "hang"      // no response
	Error     Fault = "500"       // InternalError
	SlowDown  Fault = "503"       // SlowDown
	TooMany   Fault = "429"       // TooManyRequests
	Denied    Fault = "403"       // AccessDenied
	Missing   Fault = "404"       // NoSuchKey, for an object that exists
	Flip      Fault = "flip"      // up to three bits of the body are inverted
	Drip      Fault = "drip"      // the body in pieces, with pauses
	Lacks     Fault = "lacks"     // a list without one of its objects, or without a whole directory
	RangeLess Fault = "rangeless" // Range is ignored: 200 and the whole object
)

// All lists all faults.
var All = []Fault{Refuse, Lose, Reset, Cut, Short, Stall, Hang, Error, SlowDown, TooMany, Denied, Missing, Flip, Drip, Lacks, RangeLess}

// Proxy is an HTTP server between an S3 client and an S3 server. It is safe for concurrent use.
type Proxy struct {
	Addr string // host and port

	next   http.Handler
	object func(key string) ([]byte, bool)
	seed   uint64

	mu     sync.Mutex
	watch  func(*http.Request)
	rules  Rules
	sent   map[string]uint64 // number of repetitions of each request
	done   map[Fault]int
	healed chan struct{} // closed by Heal; ends stalls
}

// Rules select the requests with faults.
type Rules struct {
	Kinds []Fault
	Rate  float64 // fraction of the requests to which one of the faults applies

	// Spare reports whether a request is exempt; nil: no request.
	Spare func(*http.Request) bool
}

// StartProxy starts a proxy without faults that stops with the test. object returns a whole object by its key
// in the bucket.
func StartProxy(tb testing.TB, seed uint64, next http.Handler, object func(key string) ([]byte, bool)) *Proxy {
	tb.Helper()
	p := &Proxy{next: next, object: object, seed: seed, sent: make(map[string]uint64), done: make(map[Fault]int), healed: make(chan struct{})}
	close(p.healed)
	server := httptest.NewUnstartedServer(p)
	server.Config.ErrorLog = log.New(discard{}, "", 0)
	server.Start()
	p.Addr = server.Listener.Addr().String()
	tb.Cleanup(func() {
		p.Heal()
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Watch makes the proxy call watch with each request, which may be kept.
func (p *Proxy) Watch(watch func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

// Break makes the proxy follow rules.
func (p *Proxy) Break(r Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = r
	p.healed = make(chan struct{})
}

// Heal ends all faults: hanging or stalled requests are disconnected.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = Rules{}
	select {
	case <-p.healed:
	default:
		close(p.healed)
	}
}

// Done returns the number of injected faults of each kind.
func (p *Proxy) Done() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.done)
}

// A choice is the fault of one request; "": none.
type choice struct {
	fault  Fault
	rand   *rand.Rand
	healed <-chan struct{}
}

func (p *Proxy) choose(r *http.Request) choice {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := choice{healed: p.healed}
	if p.watch != nil {
		p.watch(r)
	}
	if p.rules.Rate == 0 || p.rules.Spare != nil && p.rules.Spare(r) {
		return c
	}
	name := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Range")
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	c.rand = rand.New(rand.NewPCG(p.seed+p.sent[name], h.Sum64()))
	p.sent[name]++
	kinds := slices.DeleteFunc(slices.Clone(p.rules.Kinds), func(f Fault) bool { return !f.Fits(r) })
	if len(kinds) == 0 || c.rand.Float64() >= p.rules.Rate {
		return c
	}
	c.fault = kinds[c.rand.IntN(len(kinds))]
	p.done[c.fault]++
	return c
}

// Fits reports whether a fault applies to a request.
func (f Fault) Fits(r *http.Request) bool {
	list := r.URL.Query().Get("list-type") != ""
	switch f {
	case Lacks:
		return list
	case RangeLess:
		return r.Header.Get("Range") != ""
	case Missing:
		return !list && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	case Cut, Short, Flip, Drip:
		return r.Method == http.MethodGet
	}
	return f.liesTo(r)
}

// errorsOf are the faults that are error responses of S3.
var errorsOf = map[Fault]struct {
	status int
	code   string
}{
	Error:    {http.StatusInternalServerError, "InternalError"},
	SlowDown: {http.StatusServiceUnavailable, "SlowDown"},
	TooMany:  {http.StatusTooManyRequests, "TooManyRequests"},
	Denied:   {http.StatusForbidden, "AccessDenied"},
	Missing:  {http.StatusNotFound, "NoSuchKey"},
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := p.choose(r)
	switch c.fault {
	case "":
		p.next.ServeHTTP(w, r)
		return
	case Refuse:
		reset(w)
		return
	case Hang:
		c.wait(r)
		reset(w)
		return
	}
	if e, ok := errorsOf[c.fault]; ok {
		writeError(w, e.status, e.code)
		return
	}
	if p.lie(&c, w, r) {
		return
	}
	rec := &recorded{header: make(http.Header), code: http.StatusOK}
	if _, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); c.fault == RangeLess {
		if text, ok := p.object(key); ok {
			rec.header.Set("ETag", `"whole"`)
			rec.header.Set("Last-Modified", time.Unix(1_700_000_000, 0).UTC().Format(http.TimeFormat))
			_, _ = rec.body.Write(text) // never fails
			rec.send(w, rec.body.Bytes(), rec.body.Len())
			return
		}
	}
	p.next.ServeHTTP(rec, r)
	c.respond(w, r, rec)
}

// wait blocks until the client disconnects or the faults end.
func (c *choice) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-c.healed:
	}
}

// contents matches the objects of a list, with the first two elements of their keys and the rest.
var contents = regexp.MustCompile(`(?s)<Contents>.*?<Key>([^/<]*/[^/<]*)/?([^<]*)</Key>.*?</Contents>`)

// lack returns a list without an object, without a whole directory, or without the directory's meta.json.
func (c *choice) lack(list []byte) []byte {
	all := contents.FindAllSubmatch(list, -1)
	if len(all) == 0 {
		return list
	}
	chosen, how := all[c.rand.IntN(len(all))], c.rand.IntN(3)
	removed := 0
	list = contents.ReplaceAllFunc(list, func(entry []byte) []byte {
		m := contents.FindSubmatch(entry)
		inside := bytes.Equal(m[1], chosen[1])
		if how == 0 && bytes.Equal(entry, chosen[0]) || how == 1 && inside || how == 2 && inside && string(m[2]) == "meta.json" {
			removed++
			return nil
		}
		return entry
	})
	return keyCount.ReplaceAllFunc(list, func(element []byte) []byte { // as of a server that lags behind
		n, _ := strconv.Atoi(string(keyCount.FindSubmatch(element)[1]))
		return fmt.Appendf(nil, "<KeyCount>%d</KeyCount>", n-removed)
	})
}

var keyCount = regexp.MustCompile(`<KeyCount>(\d+)</KeyCount>`)

// respond sends a response of the server with the fault.
func (c *choice) respond(w http.ResponseWriter, r *http.Request, rec *recorded) {
	body := rec.body.Bytes()
	part := 0
	if len(body) > 0 {
		part = c.rand.IntN(len(body))
	}
	switch c.fault {
	case Lose:
		reset(w)
	case Reset, Cut, Stall:
		rec.send(w, body[:part], len(body))
		if c.fault == Stall {
			c.wait(r)
		}
		if c.fault != Cut {
			reset(w)
			return
		}
		panic(http.ErrAbortHandler) // closes the connection
	case Short:
		rec.send(w, body[:part], part)
	case Flip:
		body = bytes.Clone(body)
		for range 1 + c.rand.IntN(3) {
			if len(body) > 0 {
				body[c.rand.IntN(len(body))] ^= 1 << c.rand.IntN(8)
			}
		}
		rec.send(w, body, len(body))
	case Lacks:
		body = c.lack(body)
		rec.send(w, body, len(body))
	case Drip:
		c.drip(w, r, rec)
	default:
		rec.send(w, body, len(body))
	}
}

// drips is the number of pieces of a body sent by Drip.
const drips = 8

func (c *choice) drip(w http.ResponseWriter, r *http.Request, rec *recorded) {
	body := rec.body.Bytes()
	size := max(1, (len(body)+drips-1)/drips)
	rec.send(w, nil, len(body))
	for piece := range slices.Chunk(body, size) {
		if _, err := w.Write(piece); err != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		select {
		case <-r.Context().Done():
			return
		case <-c.healed:
		case <-time.After(5 * time.Millisecond): // paces: the drip
		}
	}
}

// reset closes the client's connection with a reset.
func reset(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(fmt.Sprintf("BUG: %T is no connection", w))
	}
	c, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a close instead of a reset is a fault too
	}
	_ = c.Close() // intended
}

// recorded is a buffered response.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(code int)        { r.code = code }
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }

// send sends the response with another body and Content-Length n.
func (r *recorded) send(w http.ResponseWriter, body []byte, n int) {
	maps.Copy(w.Header(), r.header)
	if r.body.Len() > 0 { // a response to HEAD has the length and no body
		w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	w.WriteHeader(r.code)
	_, _ = w.Write(body) // the client may have disconnected
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
