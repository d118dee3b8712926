package cutover

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// A modelGateway has the API of a gateway with one client. It has a fault at one of its requests.
type modelGateway struct {
	*httptest.Server
	from, to string

	mu       sync.Mutex
	address  string
	token    string // of a pause; empty: none
	until    time.Time
	tokens   int
	requests []string
	at       int // 0: no fault
	kind     testproxy.Fault
	pinned   int // the number of routes from now on with a session that cannot be switched

	statement sync.Mutex // locked while the client executes a statement, which a pause waits for
}

func newModelGateway(t *testing.T, from, to string) *modelGateway {
	g := &modelGateway{from: from, to: to, address: from}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// set has a fault at a request from now on, and clients at the source.
func (g *modelGateway) set(at int, kind testproxy.Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.address, g.token, g.requests, g.at, g.kind = g.from, "", nil, at, kind
}

// now returns the requests since set, the server of the client, and whether it is paused.
func (g *modelGateway) now() (requests []string, address string, paused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests), g.address, g.heldLocked()
}

// side returns the schema that the client writes to, by a statement after which it calls done. It blocks during a pause.
func (g *modelGateway) side() string {
	for {
		g.statement.Lock()
		g.mu.Lock()
		held, address := g.heldLocked(), g.address
		g.mu.Unlock()
		switch {
		case held:
			g.statement.Unlock()
			time.Sleep(time.Millisecond) // paces: the client polls the gateway
		case address == g.to:
			return "dst"
		default:
			return "src"
		}
	}
}

// done is called after a statement.
func (g *modelGateway) done() { g.statement.Unlock() }

func (g *modelGateway) heldLocked() bool {
	if g.token != "" && time.Now().After(g.until) {
		g.token = ""
	}
	return g.token != ""
}

func (g *modelGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests = append(g.requests, r.Method+" "+r.URL.Path)
	kind := g.kind
	if len(g.requests) != g.at {
		kind = ""
	}
	g.mu.Unlock()
	switch kind {
	case testproxy.LostBefore:
		panic(http.ErrAbortHandler)
	case testproxy.Refused:
		http.Error(w, testproxy.RefusedText, http.StatusConflict)
		return
	case testproxy.Delayed:
		time.Sleep(50 * time.Millisecond) // paces: the fault is a slow response
	}
	code, response := g.do(r)
	if strings.HasSuffix(r.URL.Path, "/hold") {
		g.statement.Lock() // until the statement of the client has ended
		defer g.statement.Unlock()
	}
	if kind == testproxy.LostAfter {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(response) // the client may have left
}

// do executes a request.
func (g *modelGateway) do(r *http.Request) (code int, response any) {
	var request struct{ Token, To, For string }
	_ = json.NewDecoder(r.Body).Decode(&request) // GET has none
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.heldLocked()
	route := map[string]any{"address": g.address, "backend": g.from, "standby": g.to, "stage": "open"}
	if held {
		route["stage"] = "holding"
	}
	switch strings.TrimPrefix(r.URL.Path, "/api/v1/route") {
	case "":
		if g.pinned > 0 {
			g.pinned--
			route["pinned"] = []gatewayclient.Pinned{{Connection: 7, User: "u", Reason: "it has a lock"}}
		}
		return http.StatusOK, route
	case "/hold":
		d, err := time.ParseDuration(request.For)
		if err != nil || held {
			return http.StatusConflict, "another pause"
		}
		g.tokens++
		g.token, g.until = fmt.Sprint("token ", g.tokens), time.Now().Add(d)
		return http.StatusOK, map[string]string{"token": g.token}
	case "/switch":
		if !held || request.Token != g.token || request.To != "standby" {
			return http.StatusConflict, "no such pause"
		}
		g.address, g.token = g.to, ""
		return http.StatusOK, map[string]int{"moved": 1}
	case "/release":
		if !held || request.Token != g.token {
			return http.StatusConflict, "no such pause"
		}
		g.token = ""
		return http.StatusOK, route
	}
	return http.StatusNotFound, nil
}

// A cut is a cutover of a gateway's client from src to dst.
type cut struct {
	*copied
	g *modelGateway
}

// options switch the clients of the gateway.
func (k *cut) options() *Options {
	o := &Options{Gateway: gatewayclient.Gateway{URL: k.g.URL}, Back: k.s.direct, Lag: testwait.Limit, MaxPause: 200 * time.Millisecond, Tries: 3}
	k.s.must(o.Validate())
	return o
}

// of returns the copy.
func (k *cut) of() Copy {
	return Copy{
		Source: k.s.source, Target: k.s.through, To: k.s.c, State: k.state, Specs: []tabledef.Spec{*k.table.Spec}, Tables: []*tabledef.Table{k.table},
		Writer: func() *state.Writer { return k.writer(k.s.through) }, Follow: true,
		Shared:  follow.Shared{Workers: 1, Patience: testwait.Limit, Waits: k.s.waits, Observe: func(telemetry.Event) {}, Count: func(*follow.Counts) {}},
		Unequal: func() int { return 0 }, Watch: func(*follow.Follower, telemetry.RunPhase) {},
	}
}

// run runs a cutover, as a copy does whose rows are in the target.
func (k *cut) run() (report *Report, err error) { return k.runWith(k.options(), k.of()) }

func (k *cut) runWith(o *Options, copy Copy) (report *Report, err error) {
	ctx, cancel := context.WithCancel(k.s.t.Context())
	defer cancel()
	c, err := Open(ctx, o, copy)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	switch err = c.Start(ctx); {
	case err != nil:
	case c.Past():
		err = c.Finish(ctx)
	default:
		f := k.follower()
		err = c.Follow(ctx, f, f.Run)
	}
	return c.Report(), err
}

// TestCutoverFaults has a fault of each kind at each request to a gateway and each packet to the target while its client writes. Clients are on the target,
// and the target has all rows that were written to the source; or they are at the source, and the record permits to follow it, or says that the gateway is
// to be asked. The same command without a fault then brings them to the target, with all rows.
func TestCutoverFaults(t *testing.T) {
	rnd := testseed.Rand(t)
	s := newSides(t)
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	outcomes := make(map[string]int)
	// test runs a cutover with a fault.
	test := func(at, packet int, kind testproxy.Fault) (requests int, packets []string) {
		t.Helper()
		k.reset()
		k.g.set(at, kind)
		s.proxy.Set(packet, kind)
		place := fmt.Sprintf("request %d, packet %d: %s", at, packet, kind)
		writing, stop := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() { s.write(writing, k.g.side, k.g.done) })
		report, err := k.run()
		packets = s.proxy.Packets()
		s.proxy.Set(0, "")
		k.g.mu.Lock()
		if at > 0 && at <= len(k.g.requests) {
			place += " " + k.g.requests[at-1]
		}
		if packet > 0 && packet <= len(packets) {
			place += " " + packets[packet-1]
		}
		requests, k.g.at = len(k.g.requests), 0
		moved := k.g.address == k.g.to
		k.g.mu.Unlock()
		noted := k.phase()
		switch {
		case err == nil && (!moved || noted != phaseDone || report.Phase != string(phaseDone)):
			t.Errorf("%s: it ended with clients at the target %v, record %q, report %+v", place, moved, noted, report)
		case moved && noted == phaseNone:
			t.Errorf("%s: %v: clients are at the target, and the record permits to follow the source", place, err)
		case kind == testproxy.Delayed && err != nil, at == 0 && packet == 0 && err != nil:
			t.Errorf("%s: %v", place, err)
		}
		result := "failed"
		if err == nil {
			result = "done"
		}
		outcomes[string(kind)+": "+result]++
		if err != nil {
			if again, err := k.run(); err != nil || again.Phase != string(phaseDone) {
				t.Errorf("%s, again: %v, %+v", place, err, again)
			}
		}
		stop()
		testwait.Group(t, "the client to end", &client)
		if rows := k.missing(); len(rows) > 0 {
			t.Errorf("%s: the target lacks the rows %v", place, rows)
		}
		return requests, packets
	}
	requests, packets := test(0, 0, "")
	type cell struct {
		at, packet int
		kind       testproxy.Fault
	}
	var cells []cell
	for _, kind := range []testproxy.Fault{testproxy.LostBefore, testproxy.LostAfter, testproxy.Refused, testproxy.Delayed} {
		for at := range requests + 2 { // more are sent after a fault
			cells = append(cells, cell{at: at + 1, kind: kind})
		}
	}
	n := len(cells)
	for _, c := range testproxy.AllFaults(packets, 1) {
		cells = append(cells, cell{packet: c.At, kind: c.Fault})
	}
	t.Logf("%d cells, of which %d have a fault of the gateway", len(cells), n)
	if !*allFaults {
		rnd.Shuffle(n, func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		few := cells[n:]
		rnd.Shuffle(len(few), func(i, j int) { few[i], few[j] = few[j], few[i] })
		cells = append(cells[:8:8], few[:min(len(few), 4)]...)
	}
	for _, c := range cells {
		test(c.at, c.packet, c.kind)
	}
	t.Log(outcomes)
}
