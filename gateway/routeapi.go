package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// RouteStatus is what GET /api/v1/route answers.
type RouteStatus struct {
	Active   string          `json:"active"` // "backend" or "standby"
	Address  string          `json:"address"`
	Backend  string          `json:"backend"`           // address
	Standby  string          `json:"standby,omitempty"` // address
	Stage    string          `json:"stage"`             // "open", "gathering", "held", "moving" or "saving"
	Until    *time.Time      `json:"until,omitempty"`   // when the hold is over at the latest
	Sessions int             `json:"sessions"`
	Inside   []InsideSession `json:"inside"` // within a statement or transaction at the moment: at most 20
	Pinned   []PinnedSession `json:"pinned"` // that a switch would have to close
}

// An InsideSession is one that a hold waits for.
type InsideSession struct {
	Connection uint32 `json:"connection"`
	User       string `json:"user"`
	Client     string `json:"client"`
	Doing      string `json:"doing"`
}

// maxInside bounds the sessions that are listed as those a hold waits for.
const maxInside = 20

// Route is the state of the route.
func (s *Server) Route() RouteStatus {
	s.route.mu.Lock()
	r := s.route.routing
	s.route.mu.Unlock()
	status := RouteStatus{
		Active: r.active.String(), Address: s.targets[r.active].Addr, Backend: s.targets[SideBackend].Addr,
		Stage: r.stage.String(), Sessions: s.Sessions(), Inside: s.insideList(), Pinned: s.Pinned(),
	}
	if s.targets[SideStandby] != nil {
		status.Standby = s.targets[SideStandby].Addr
	}
	if r.stage != stageOpen {
		status.Until = &r.limit
	}
	if status.Inside == nil { // an empty list in JSON
		status.Inside = []InsideSession{}
	}
	if status.Pinned == nil {
		status.Pinned = []PinnedSession{}
	}
	return status
}

// insideList are sessions within a statement or transaction.
func (s *Server) insideList() (list []InsideSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses := range s.sessions {
		doing := ""
		switch ses.phase.Load() {
		case phaseBusy:
			doing = "a statement runs"
		case phaseOpen:
			doing = "a transaction is open"
		default:
			continue
		}
		if len(list) == maxInside {
			break
		}
		in := InsideSession{Connection: ses.shown.connection.Load(), Client: ses.remote.String(), Doing: doing}
		if user := ses.shown.user.Load(); user != nil {
			in.User = *user
		}
		list = append(list, in)
	}
	return list
}

// The requests and answers of the API.
type (
	holdRequest struct {
		For string `json:"for"` // a duration, such as "1s"
	}
	holdAnswer struct {
		Held   bool    `json:"held"`
		Waited float64 `json:"waited_seconds"`
		Token  string  `json:"token"`
	}
	switchRequest struct {
		Token  string `json:"token"`
		To     string `json:"to"`               // "standby" or "backend"
		Pinned string `json:"pinned,omitempty"` // "close", or nothing
	}
	switchAnswer struct {
		Active  string  `json:"active"`
		Address string  `json:"address"`
		Moved   int     `json:"moved"`
		Closed  int     `json:"closed"`  // pinned ones
		Seconds float64 `json:"seconds"` // of the switch alone
	}
	releaseRequest struct {
		Token string `json:"token"`
	}
	errorAnswer struct {
		Error  string          `json:"error"`
		Inside []InsideSession `json:"inside,omitempty"`
		Pinned []PinnedSession `json:"pinned,omitempty"`
	}
)

// DefaultHold is how long a hold lasts that does not say.
const DefaultHold = time.Second

// RoutePattern is where the API is: GET answers the RouteStatus, POST to its hold, switch and
// release does what they say.
const RoutePattern = "/api/v1/route"

// RouteHandler serves the API. Changes are POST requests with JSON. It relies on its server to
// refuse what another site made a browser send, as package web does for all methods.
func (s *Server) RouteHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+RoutePattern, func(w http.ResponseWriter, _ *http.Request) { s.answer(w, http.StatusOK, s.Route()) })
	mux.HandleFunc("POST "+RoutePattern+"/hold", s.serveHold)
	mux.HandleFunc("POST "+RoutePattern+"/switch", s.serveSwitch)
	mux.HandleFunc("POST "+RoutePattern+"/release", s.serveRelease)
	return mux
}

func (s *Server) serveHold(w http.ResponseWriter, r *http.Request) {
	request := holdRequest{For: DefaultHold.String()}
	if !s.read(w, r, &request) {
		return
	}
	d, err := time.ParseDuration(request.For)
	if err != nil || d <= 0 || d > MaxHold {
		s.answer(w, http.StatusBadRequest, errorAnswer{Error: fmt.Sprintf("for: want a duration up to %v, such as 500ms or 1s, not %q", MaxHold, request.For)})
		return
	}
	token, waited, err := s.Hold(r.Context(), d)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.answer(w, http.StatusOK, holdAnswer{Held: true, Waited: waited.Seconds(), Token: token})
}

func (s *Server) serveSwitch(w http.ResponseWriter, r *http.Request) {
	var request switchRequest
	if !s.read(w, r, &request) {
		return
	}
	to, err := ParseSide(request.To)
	if err != nil {
		s.answer(w, http.StatusBadRequest, errorAnswer{Error: "to: " + err.Error()})
		return
	}
	if request.Pinned != "" && request.Pinned != "close" {
		s.answer(w, http.StatusBadRequest, errorAnswer{Error: fmt.Sprintf("pinned: want close or nothing, not %q", request.Pinned)})
		return
	}
	began := time.Now()
	moved, closed, err := s.Switch(r.Context(), request.Token, to, request.Pinned == "close")
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.answer(w, http.StatusOK, switchAnswer{Active: to.String(), Address: s.targets[to].Addr, Moved: moved, Closed: closed, Seconds: time.Since(began).Seconds()})
}

func (s *Server) serveRelease(w http.ResponseWriter, r *http.Request) {
	var request releaseRequest
	if !s.read(w, r, &request) {
		return
	}
	if err := s.Release(request.Token); err != nil {
		s.refuse(w, err)
		return
	}
	s.answer(w, http.StatusOK, s.Route())
}

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 4 << 10

// read reads a request of JSON, and reports whether it could be read; otherwise it is answered.
func (s *Server) read(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		s.answer(w, http.StatusUnsupportedMediaType, errorAnswer{Error: "want Content-Type: application/json"})
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
		s.answer(w, http.StatusBadRequest, errorAnswer{Error: "read the request: " + err.Error()})
		return false
	}
	return true
}

// refuse answers an error of Hold, Switch or Release.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	code, body := http.StatusConflict, errorAnswer{Error: err.Error()}
	if pinned, ok := errors.AsType[*PinnedError](err); ok {
		body.Pinned = pinned.Sessions
	}
	if inside, ok := errors.AsType[*InsideError](err); ok {
		body.Inside = inside.Sessions
	}
	switch {
	case errors.Is(err, ErrNoStandby):
		code = http.StatusNotImplemented
	case errors.Is(err, ErrDraining):
		code = http.StatusServiceUnavailable
	}
	s.answer(w, code, body)
}

func (s *Server) answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.opts.Diag.Debug("route response aborted", "error", err)
	}
}
