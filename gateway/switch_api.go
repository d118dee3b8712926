package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/visible"
)

// RouteStatus is the response to GET /api/v1/route.
type RouteStatus struct {
	Active   string          `json:"active"` // "backend" or "standby"
	Address  string          `json:"address"`
	Backend  string          `json:"backend"`           // address
	Standby  string          `json:"standby,omitempty"` // address
	Stage    string          `json:"stage"`             // "open", "gathering", "held", "moving" or "saving"
	Until    *time.Time      `json:"until,omitempty"`   // latest end of the pause
	Sessions int             `json:"sessions"`
	Inside   []InsideSession `json:"inside"` // within a statement or transaction: at most 20
	Pinned   []PinnedSession `json:"pinned"` // sessions that a switch would have to close
}

// An InsideSession is a session that a pause waits for.
type InsideSession struct {
	Connection uint32 `json:"connection"`
	User       string `json:"user"`
	Client     string `json:"client"`
	Doing      string `json:"doing"`
}

// maxInside bounds the listed sessions that a pause waits for.
const maxInside = 20

// Route returns the state of the route.
func (c *switcher) Route() RouteStatus {
	c.mu.Lock()
	m := c.machine
	c.mu.Unlock()
	status := RouteStatus{
		Active: m.Active.String(), Address: c.addrs[m.Active], Backend: c.addrs[switchover.Backend], Standby: c.addrs[switchover.Standby],
		Stage: m.Stage.String(), Sessions: c.registry.count(), Inside: c.registry.insideList(), Pinned: c.registry.pinned(),
	}
	if m.Stage != switchover.StageOpen {
		status.Until = &m.Limit
	}
	if status.Inside == nil { // an empty list in JSON
		status.Inside = []InsideSession{}
	}
	if status.Pinned == nil {
		status.Pinned = []PinnedSession{}
	}
	return status
}

// Requests and responses of the API.
type (
	holdRequest struct {
		For string `json:"for"` // a duration, such as "1s"
	}
	holdResponse struct {
		Held   bool    `json:"held"`
		Waited float64 `json:"waited_seconds"`
		Token  string  `json:"token"`
	}
	switchRequest struct {
		Token  string `json:"token"`
		To     string `json:"to"`               // "standby" or "backend"
		Pinned string `json:"pinned,omitempty"` // "close", or empty
	}
	switchResponse struct {
		Active  string  `json:"active"`
		Address string  `json:"address"`
		Moved   int     `json:"moved"`
		Closed  int     `json:"closed"`  // pinned sessions
		Seconds float64 `json:"seconds"` // duration of the switch without the pause before it
	}
	releaseRequest struct {
		Token string `json:"token"`
	}
	errorResponse struct {
		Error  string          `json:"error"`
		Inside []InsideSession `json:"inside,omitempty"`
		Pinned []PinnedSession `json:"pinned,omitempty"`
	}
)

// defaultPause is the duration of a pause that does not specify one.
const defaultPause = time.Second

// RoutePattern is the path of the API: GET returns the RouteStatus, POST to its hold, switch and release
// performs them.
const RoutePattern = "/api/v1/route"

// RouteHandler serves the API. Changes are POST requests with JSON. It relies on the HTTP server to refuse
// cross-site requests of browsers, as package web does for all methods.
func (c *switcher) RouteHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+RoutePattern, func(w http.ResponseWriter, _ *http.Request) { c.respond(w, http.StatusOK, c.Route()) })
	mux.HandleFunc("POST "+RoutePattern+"/hold", c.serveHold)
	mux.HandleFunc("POST "+RoutePattern+"/switch", c.serveSwitch)
	mux.HandleFunc("POST "+RoutePattern+"/release", c.serveRelease)
	return mux
}

func (c *switcher) serveHold(w http.ResponseWriter, r *http.Request) {
	request := holdRequest{For: defaultPause.String()}
	if !c.read(w, r, &request) {
		return
	}
	d, err := time.ParseDuration(request.For)
	if err != nil || d <= 0 || d > MaxPause {
		c.respond(w, http.StatusBadRequest, errorResponse{Error: fmt.Sprintf("for: want a duration up to %v, such as 500ms or 1s, not %q", MaxPause, request.For)})
		return
	}
	token, waited, err := c.Pause(r.Context(), d)
	if err != nil {
		c.refuse(w, err)
		return
	}
	c.respond(w, http.StatusOK, holdResponse{Held: true, Waited: waited.Seconds(), Token: token})
}

func (c *switcher) serveSwitch(w http.ResponseWriter, r *http.Request) {
	var request switchRequest
	if !c.read(w, r, &request) {
		return
	}
	to, err := switchover.ParseSide(request.To)
	if err != nil {
		c.respond(w, http.StatusBadRequest, errorResponse{Error: "to: " + err.Error()})
		return
	}
	if request.Pinned != "" && request.Pinned != "close" {
		c.respond(w, http.StatusBadRequest, errorResponse{Error: fmt.Sprintf("pinned: want close or nothing, not %q", request.Pinned)})
		return
	}
	began := time.Now()
	moved, closed, err := c.Switch(r.Context(), request.Token, to, request.Pinned == "close")
	if err != nil {
		c.refuse(w, err)
		return
	}
	c.respond(w, http.StatusOK, switchResponse{Active: to.String(), Address: c.addrs[to], Moved: moved, Closed: closed, Seconds: time.Since(began).Seconds()})
}

func (c *switcher) serveRelease(w http.ResponseWriter, r *http.Request) {
	var request releaseRequest
	if !c.read(w, r, &request) {
		return
	}
	if err := c.Release(request.Token); err != nil {
		c.refuse(w, err)
		return
	}
	c.respond(w, http.StatusOK, c.Route())
}

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 4 << 10

// read decodes a JSON request. It reports whether that succeeded; otherwise it has sent the error response.
func (c *switcher) read(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		c.respond(w, http.StatusUnsupportedMediaType, errorResponse{Error: "want Content-Type: application/json"})
		return false
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		err = nil // no body: the defaults
	}
	if err == nil && d.More() {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		c.respond(w, http.StatusBadRequest, errorResponse{Error: "read the request: " + err.Error()})
		return false
	}
	return true
}

// refuse sends the response for an error of Pause, Switch or Release.
func (c *switcher) refuse(w http.ResponseWriter, err error) {
	code, body := http.StatusConflict, errorResponse{Error: err.Error()}
	if pinned, ok := errors.AsType[*PinnedError](err); ok {
		body.Pinned = pinned.Sessions
	}
	if inside, ok := errors.AsType[*InsideError](err); ok {
		body.Inside = inside.Sessions
	}
	switch {
	case errors.Is(err, ErrNoStandby):
		code = http.StatusNotImplemented
	case errors.Is(err, switchover.ErrDraining):
		code = http.StatusServiceUnavailable
	}
	c.respond(w, code, body)
}

func (c *switcher) respond(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := visible.NewEncoder(w).Encode(v); err != nil {
		c.diag.Debug("route response aborted", "error", err)
	}
}
