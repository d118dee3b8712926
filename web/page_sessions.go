package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/urlparams"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	sessionsPath = "/api/v1/sessions"
	killPath     = sessionsPath + "/kill"

	defaultSessions = 100
	maxSessions     = 1000 // in a response

	// shownAge is the age from which the first page lists a statement in flight, and shownSessions the number of those.
	shownAge      = time.Second
	shownSessions = 5

	maxKillRequest = 4 << 10 // bytes
)

// A SessionSource has the sessions of a gateway.
type SessionSource struct {
	Busy func(limit int, age time.Duration) gateway.Busy
	Kill func(gateway.Kill) (gateway.SessionInfo, error)

	// Blocked returns the waits for locks by the number of the waiting connection, as of a time; nil: unknown.
	Blocked func() (time.Time, map[uint32]serverstats.Block)

	// Killed is called after a kill with the account and a description of the victim; nil: not called.
	Killed func(account, what string)
}

// Sessions is the response of /api/v1/sessions.
type Sessions struct {
	At       time.Time      `json:"at"`
	Counts   map[string]int `json:"counts"`  // sessions by state
	Dropped  int            `json:"dropped"` // sessions beyond the limit
	Sessions []Session      `json:"sessions"`

	// Transactions are the sessions with the longest transactions, whatever they do.
	Transactions []Session `json:"transactions"`

	// LockProblem is the reason for which a session waits for an unknown one, as a sentence; "" if none does.
	LockProblem string `json:"lock_problem,omitempty"`
}

// A Session is a session within a command or a transaction, or one that keeps a shared connection while it is idle.
type Session struct {
	Session     uint64  `json:"session"`
	Command     uint32  `json:"command"`
	Connection  uint32  `json:"connection"`
	User        string  `json:"user"`
	Client      string  `json:"client"`
	Schema      string  `json:"schema"`
	Backend     string  `json:"backend"`
	State       string  `json:"state"`
	Name        string  `json:"name,omitempty"` // of the command in flight
	Seconds     float64 `json:"seconds"`        // age of the command, or the time that a transaction has been idle
	Digest      string  `json:"digest,omitempty"`
	Type        string  `json:"type,omitempty"`
	Text        string  `json:"text,omitempty"`
	TextCut     bool    `json:"text_cut,omitempty"`
	Rows        uint64  `json:"rows_sent"`
	Transaction float64 `json:"transaction_seconds"` // 0: none is open
	Pinned      string  `json:"pinned,omitempty"`    // why it keeps a shared connection
	Waits       *Block  `json:"waits_for,omitempty"`
}

// A Block is a lock that a session waits for.
type Block struct {
	Kind       string `json:"kind"`              // row, metadata or global
	Table      string `json:"table"`             // "" of a global lock
	Connection uint32 `json:"connection"`        // of the holder; 0: unknown
	Session    uint64 `json:"session,omitempty"` // the holder's, if it is in the list
	User       string `json:"user,omitempty"`
	State      string `json:"state,omitempty"`
}

// words describes the lock and its holder.
func (b *Block) words() string {
	text := b.Kind + " lock"
	if b.Table != "" {
		text += " on " + b.Table
	}
	switch {
	case b.Connection == 0:
		return text + " of an unknown connection"
	case b.User == "":
		return fmt.Sprintf("%s of connection %d", text, b.Connection)
	}
	return fmt.Sprintf("%s of connection %d (%s, %s)", text, b.Connection, b.User, b.State)
}

// A sessionsPage has the sessions of a gateway: the page of what is running now, and the API that lists and kills.
type sessionsPage struct {
	source    *SessionSource
	locks     CountSource // reason for unknown holders of locks; nil: there are none
	pages     *renderer
	queryPath string
}

// list returns the busy sessions with the locks that they wait for.
func (s *sessionsPage) list(limit int, age time.Duration, texts bool) Sessions {
	source := s.source
	b := source.Busy(limit, age)
	out := Sessions{At: b.At.UTC(), Counts: make(map[string]int), Dropped: b.Dropped, Sessions: []Session{}, Transactions: []Session{}}
	for a, n := range b.Counts {
		out.Counts[gateway.Activity(a).String()] = n
	}
	var read time.Time
	var blocked map[uint32]serverstats.Block
	if source.Blocked != nil {
		read, blocked = source.Blocked()
	}
	holders := make(map[uint32]*gateway.SessionInfo)
	for _, list := range [][]gateway.SessionInfo{b.Longest, b.Sessions} {
		for i := range list {
			holders[list[i].Connection] = &list[i]
		}
	}
	describe := func(info *gateway.SessionInfo) Session {
		j := sessionOf(info, b.At, texts)
		if lock, ok := blocked[info.Connection]; ok && info.InCommand() && info.Since.Before(read) {
			j.Waits = &Block{Kind: string(lock.Kind), Table: lock.Table, Connection: lock.Holder}
			if lock.Holder == 0 && s.locks != nil {
				_, out.LockProblem = s.locks.LockWaits(b.At, b.At)
			}
			if h := holders[lock.Holder]; h != nil && lock.Holder != 0 {
				j.Waits.Session, j.Waits.User, j.Waits.State = h.Number, h.User, h.Activity.String()
			}
		}
		return j
	}
	for i := range b.Sessions {
		out.Sessions = append(out.Sessions, describe(&b.Sessions[i]))
	}
	for i := range b.Longest {
		out.Transactions = append(out.Transactions, describe(&b.Longest[i]))
	}
	return out
}

func sessionOf(i *gateway.SessionInfo, now time.Time, texts bool) Session {
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return max(now.Sub(t).Seconds(), 0)
	}
	j := Session{
		Session: i.Number, Command: i.Command, Connection: i.Connection, User: i.User, Schema: i.Schema, Backend: i.Backend,
		State: i.Activity.String(), Pinned: i.Pinned, Name: i.Name, Seconds: since(i.Since), Type: i.StatementType, Rows: i.Rows, Transaction: since(i.Transaction),
	}
	if i.Client.IsValid() {
		j.Client = i.Client.String()
	}
	if i.Digest != (sqldigest.Digest{}) {
		j.Digest = i.Digest.String()
	}
	if texts {
		j.Text, j.TextCut = i.Text, i.TextCut
	}
	return j
}

// serve serves sessionsPath.
func (s *sessionsPage) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, age, err := sessionQuery(q)
	if err = cmp.Or(urlparams.Check(q, "limit", "age"), err); err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return
	}
	s.pages.writeJSON(w, s.list(limit, age, access.SeesTexts(r.Context())))
}

// sessionQuery parses the parameters limit and age.
func sessionQuery(q url.Values) (limit int, age time.Duration, err error) {
	limit = defaultSessions
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxSessions {
			return 0, 0, fmt.Errorf("limit: want a number from 1 to %d", maxSessions)
		}
	}
	if text := q.Get("age"); text != "" {
		if age, err = time.ParseDuration(text); err != nil || age < 0 {
			return 0, 0, errors.New("age: want a duration, such as 1s")
		}
	}
	return limit, age, nil
}

// A killRequest is the body of a POST to killPath.
type killRequest struct {
	Session uint64 `json:"session"`
	Command uint32 `json:"command"`
	What    string `json:"what"` // "statement" or "session"
}

func (k *killRequest) kill() (gateway.Kill, error) {
	if k.What != "statement" && k.What != "session" {
		return gateway.Kill{}, fmt.Errorf("what: want statement or session, not %.20q", k.What)
	}
	if k.Session == 0 || k.Command == 0 && k.What == "statement" {
		return gateway.Kill{}, errors.New("session and command: want the numbers of a session in " + sessionsPath)
	}
	return gateway.Kill{Session: k.Session, Command: k.Command, Whole: k.What == "session"}, nil
}

// serveKill serves killPath.
func (s *sessionsPage) serveKill(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		plain(w, http.StatusUnsupportedMediaType, "want Content-Type: application/json")
		return
	}
	var request killRequest
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxKillRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil {
		plain(w, http.StatusBadRequest, "read the request: "+err.Error())
		return
	}
	victim, err := s.kill(r.Context(), &request)
	if err != nil {
		plain(w, killStatus(err), err.Error())
		return
	}
	s.pages.writeJSON(w, victim)
}

// killForm handles the buttons of the page.
func (s *sessionsPage) killForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxKillRequest)
	if err := r.ParseForm(); err != nil {
		s.pages.fail(w, r, badRequest(err))
		return
	}
	number, err1 := strconv.ParseUint(r.PostForm.Get("session"), 10, 64)
	command, err2 := strconv.ParseUint(r.PostForm.Get("command"), 10, 32)
	err := errors.Join(err1, err2)
	if err == nil {
		_, err = s.kill(r.Context(), &killRequest{Session: number, Command: uint32(command), What: r.PostForm.Get("what")})
	}
	if err != nil {
		s.pages.fail(w, r, &problem{Status: killStatus(err), What: "Nothing was killed: " + err.Error() + ".", Try: []string{"Open the sessions again.", "Check what the session does now."}})
		return
	}
	http.Redirect(w, r, "/sessions", http.StatusSeeOther)
}

// kill kills a statement or session, and leaves a trace: a line in the log and an event.
func (s *sessionsPage) kill(ctx context.Context, request *killRequest) (Session, error) {
	k, err := request.kill()
	if err != nil {
		return Session{}, err
	}
	info, err := s.source.Kill(k)
	if err != nil {
		return Session{}, err
	}
	victim := sessionOf(&info, s.pages.now(), false)
	account := access.Of(ctx).Name
	s.pages.log.Info("session killed", "what", request.What, "account", account, "session", victim.Session, "connection", victim.Connection,
		"user", victim.User, "client", victim.Client, "digest", victim.Digest, "state", victim.State)
	if s.source.Killed != nil {
		s.source.Killed(account, fmt.Sprintf("Killed a %s of %s from %s, connection %d", request.What, victim.User, cmp.Or(victim.Client, "a socket"), victim.Connection))
	}
	return victim, nil
}

func killStatus(err error) int {
	switch {
	case errors.Is(err, gateway.ErrNoSession):
		return http.StatusNotFound
	case errors.Is(err, gateway.ErrOtherNow), errors.Is(err, gateway.ErrNotSent), errors.Is(err, gateway.ErrBeingKilled):
		return http.StatusConflict
	case errors.Is(err, gateway.ErrNoKill):
		return http.StatusNotImplemented
	case err != nil && errors.Unwrap(err) != nil:
		return http.StatusBadGateway
	}
	return http.StatusBadRequest
}

// sessionsData is the data of the page, and of the list on the first page.
type sessionsData struct {
	Running, Waiting []sessionRow // statements in flight; idle in transactions, the oldest first
	Pinned           []sessionRow // idle, with a shared connection
	Longest          []sessionRow // transactions
	Counts           []figure
	Dropped          int
	MayKill          bool
	LockProblem      string // as that of Sessions
}

// A sessionRow is a session in the table.
type sessionRow struct {
	Session
	Statement string // name of the statement
	Link      string // "": the statement is unknown
	Holder    string // of the lock that it waits for
}

func (s *sessionsPage) load(_ context.Context, v *view) (any, error) {
	limit, age, err := sessionQuery(v.query)
	if err != nil {
		return nil, badRequest(err)
	}
	d := s.rows(v, limit, age)
	all := s.source.Busy(0, 0)
	for a, n := range all.Counts {
		if n > 0 {
			d.Counts = append(d.Counts, figure{Name: gateway.Activity(a).String(), Value: unitCount.write(float64(n))})
		}
	}
	return d, nil
}

// rows returns the rows of both pages that list sessions.
func (s *sessionsPage) rows(v *view, limit int, age time.Duration) *sessionsData {
	list := s.list(limit, age, v.texts)
	d := &sessionsData{Dropped: list.Dropped, LockProblem: list.LockProblem, MayKill: v.account.May(access.For(access.Operator))}
	rowOf := func(j Session) sessionRow {
		row := sessionRow{Session: j, Statement: cmp.Or(j.Text, j.Digest, j.Name)}
		if j.Digest != "" && s.queryPath != "" {
			row.Link = v.link(s.queryPath + j.Digest)
		}
		if w := j.Waits; w != nil {
			row.Holder = w.words()
		}
		return row
	}
	for _, j := range list.Sessions {
		switch {
		case j.Name != "":
			d.Running = append(d.Running, rowOf(j))
		case j.State == gateway.ActivityIdle.String():
			d.Pinned = append(d.Pinned, rowOf(j))
		default:
			d.Waiting = append(d.Waiting, rowOf(j))
		}
	}
	for _, j := range list.Transactions {
		d.Longest = append(d.Longest, rowOf(j))
	}
	return d
}

// A sessionTable is the data of a table of sessions.
type sessionTable struct {
	Of   string // a page has several tables
	Rows []sessionRow
	Kill bool
}

func newSessionTable(of string, rows []sessionRow, kill bool) sessionTable {
	return sessionTable{of, rows, kill}
}
