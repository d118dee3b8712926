package markers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/urlparams"
	"github.com/taredb/tare/internal/visible"
)

// Pattern is the path of the API.
const Pattern = "/api/v1/events"

const (
	maxBody = 16 << 10

	defaultLimit = 100
	maxLimit     = 1000

	// maxPast and maxFuture bound the time of a reported event.
	maxPast   = 31 * 24 * time.Hour
	maxFuture = time.Hour

	// reportsPerMinute bounds the reported events.
	reportsPerMinute = 60
)

// A report is the body of a POST request.
type report struct {
	Title string     `json:"title"`
	Text  string     `json:"text"`
	Kind  Kind       `json:"kind"`
	Time  *time.Time `json:"time"`
	End   *time.Time `json:"end"`
	Link  string     `json:"link"`
}

type errorResponse struct {
	Error string `json:"error"`
}

type listResponse struct {
	Events []Marker `json:"events"`
}

// Handler serves the list of markers to GET, without parts of statements for accounts that may not see them, and
// records an event on POST.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.serveReport(w, r)
			return
		}
		s.serveList(w, r)
	})
}

func (s *Store) respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := visible.NewEncoder(w).Encode(v); err != nil {
		s.opts.Log.Debug("response aborted", "error", err)
	}
}

func (s *Store) serveList(w http.ResponseWriter, r *http.Request) {
	l, err := parseList(r.URL.Query(), s.opts.Now())
	if err != nil {
		s.respond(w, http.StatusBadRequest, errorResponse{err.Error()})
		return
	}
	all := s.Between(l.from, l.to, l.limit)
	if !access.SeesTexts(r.Context()) {
		for i := range all {
			all[i] = all[i].Textless()
		}
	}
	if all == nil {
		all = []Marker{} // an empty list in JSON
	}
	s.respond(w, http.StatusOK, listResponse{all})
}

// A list is the parsed parameters of a GET request.
type list struct {
	from, to time.Time
	limit    int
}

// parseList parses the parameters of a GET request; an empty one is its default. An unknown parameter and one that is given twice
// are errors.
func parseList(q url.Values, now time.Time) (list, error) {
	l := list{from: now.Add(-24 * time.Hour), to: now.Add(maxFuture), limit: defaultLimit}
	if err := urlparams.Check(q, "from", "to", "limit"); err != nil {
		return l, err
	}
	var errs []error
	for name, given := range q {
		text := given[0]
		var err error
		switch {
		case text == "":
		case name == "limit":
			if l.limit, err = strconv.Atoi(text); err != nil || l.limit < 1 || l.limit > maxLimit {
				err = fmt.Errorf("limit: want a number from 1 to %d, not %.40q", maxLimit, text)
			}
		default:
			t, parseErr := urlparams.ParseTime(text, now)
			switch {
			case parseErr != nil:
				err = fmt.Errorf("%s: %w", name, parseErr)
			case name == "from":
				l.from = t
			default:
				l.to = t
			}
		}
		errs = append(errs, err)
	}
	return l, errors.Join(errs...)
}

func (s *Store) serveReport(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		s.respond(w, http.StatusUnsupportedMediaType, errorResponse{"Content-Type: want application/json"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.respond(w, http.StatusRequestEntityTooLarge, errorResponse{fmt.Sprintf("body: want at most %d bytes", maxBody)})
		return
	}
	m, err := parseReport(body, s.opts.Now())
	if err != nil {
		s.respond(w, http.StatusBadRequest, errorResponse{err.Error()})
		return
	}
	if !s.limit.allow(s.opts.Now()) {
		w.Header().Set("Retry-After", "60")
		s.respond(w, http.StatusTooManyRequests, errorResponse{fmt.Sprintf("more than %d events within a minute: report fewer", reportsPerMinute)})
		return
	}
	m.User = access.Of(r.Context()).Name
	s.respond(w, http.StatusOK, s.Add(m))
}

// parseReport validates a reported event.
func parseReport(body []byte, now time.Time) (Marker, error) {
	var in report
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Marker{}, fmt.Errorf("body: want a JSON object with title and optionally text, kind, time, end, link: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Marker{}, errors.New("body: want one JSON object, found more after it")
	}
	m := Marker{Kind: in.Kind, Title: in.Title, Text: in.Text, Link: in.Link, Time: now}
	var errs []error
	if m.Kind == "" {
		m.Kind = KindEvent
	}
	switch {
	case !isWord(string(m.Kind)):
		errs = append(errs, fmt.Errorf("kind: want 1 to 32 lower-case letters, digits or -, such as deploy, not %.40q", in.Kind))
	case slices.Contains(reserved, m.Kind):
		errs = append(errs, fmt.Errorf("kind: %q is recorded by Tare itself; use another word, such as deploy", in.Kind))
	}
	if n := len(m.Title); n == 0 || n > maxTitle || !isLine(m.Title) {
		errs = append(errs, fmt.Errorf("title: want one line of 1 to %d bytes without control characters, such as \"shop 4.2 deployed\"", maxTitle))
	}
	if len(m.Text) > maxText {
		errs = append(errs, fmt.Errorf("text: want at most %d bytes, not %d", maxText, len(m.Text)))
	}
	if m.Link != "" {
		if u, err := url.Parse(m.Link); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(m.Link) > maxLink {
			errs = append(errs, fmt.Errorf("link: want an http or https URL of at most %d bytes", maxLink))
		}
	}
	if in.Time != nil {
		m.Time = *in.Time
	}
	m.End = m.Time
	if in.End != nil {
		m.End = *in.End
	}
	if m.Time.Before(now.Add(-maxPast)) || m.End.After(now.Add(maxFuture)) || m.End.Before(m.Time) {
		errs = append(errs, errors.New("time, end: want times of the last 31 days, at most an hour ahead, end not before time"))
	}
	return m, errors.Join(errs...)
}

// isWord reports whether a kind is well formed.
func isWord(s string) bool {
	for i, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

func isLine(s string) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7F || c == '\uFFFD' {
			return false
		}
	}
	return true
}

// A rateLimit bounds the reports per minute.
type rateLimit struct {
	mu     sync.Mutex
	minute time.Time // guarded by mu, as all below: its start
	n      int
}

func (l *rateLimit) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := now.Sub(l.minute); d < 0 || d >= time.Minute {
		l.minute, l.n = now, 0
	}
	l.n++
	return l.n <= reportsPerMinute
}
