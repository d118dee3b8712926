package statements

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/urlparams"
	"github.com/taredb/tare/internal/visible"
)

// A Ranker ranks statements: an ArchiveReader or a TableReader.
type Ranker interface {
	Top(ctx context.Context, q TopQuery) (*Top, error)
}

var (
	_ Ranker = TableReader{}
	_ Ranker = (*ArchiveReader)(nil)
)

// HandlerOptions configure GET /api/v1/statements.
type HandlerOptions struct {
	Ranker   Ranker // of the longest retention
	Counters Ranker // for ?source=counters
	NoTexts  bool   // omit texts from responses, and reject filters on them

	// ChangeOf returns the change of a statement that was found last; nil: none is known.
	ChangeOf func(stmtstats.Key) (Change, bool)

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // required
}

// A Change is that a statement became heavier or is new.
type Change struct {
	Kind  ChangeKind `json:"kind"`
	Since time.Time  `json:"since"`
	Times float64    `json:"times,omitempty"` // load since then divided by that before; 0: the statement is new
}

// A ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of changes.
const (
	ChangeHeavier ChangeKind = "heavier"
	ChangeNew     ChangeKind = "new"
)

// statementsAtOnce is the number of concurrent requests; further ones wait. Each reads the whole table of
// digests.
const statementsAtOnce = 2

// NewHandler returns a handler that ranks statements within a time range, as JSON. docs/reference/top.md
// describes requests and responses.
func NewHandler(o HandlerOptions) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &handler{HandlerOptions: o, turn: make(chan struct{}, statementsAtOnce)}
}

type handler struct {
	HandlerOptions
	turn chan struct{}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, ranker, err := h.parse(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-r.Context().Done():
		return // the client has disconnected
	}
	top, err := ranker.Top(r.Context(), q)
	switch {
	case r.Context().Err() != nil:
		return
	case err != nil:
		h.Log.Error("statements query failed", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	enc := visible.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(h.response(top, q.Compare)); err != nil {
		h.Log.Debug("statements response aborted", "error", err)
	}
}

// parse parses a request.
func (h *handler) parse(values url.Values) (q TopQuery, ranker Ranker, err error) {
	err = urlparams.Check(values, "from", "to", "by", "order", "filter", "limit", "offset", "points", "compare", "durations", "called_since", "source")
	if err != nil {
		return q, nil, err
	}
	now := h.Now()
	q = TopQuery{From: now.Add(-time.Hour), To: now}
	ranker = h.Ranker
	var errs []error
	number := func(name, text string, into *int) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			errs = append(errs, fmt.Errorf("%s is %.40q: want a number of 0 or more", name, text))
		}
		*into = n
	}
	for name, given := range values {
		text := given[0]
		var err error
		switch name {
		case "from":
			q.From, err = urlparams.ParseTime(text, now)
		case "to":
			q.To, err = urlparams.ParseTime(text, now)
		case "by":
			q.By, err = ParseMeasure(text)
		case "order":
			if q.Ascending = text == "asc"; !q.Ascending && text != "desc" {
				err = fmt.Errorf("order is %.40q: want asc or desc", text)
			}
		case "filter":
			q.Filter = text
		case "limit":
			number(name, text, &q.Limit)
		case "offset":
			number(name, text, &q.Offset)
		case "points":
			number(name, text, &q.Points)
		case "compare":
			q.Compare, err = parseBool(name, text)
		case "durations":
			q.Durations, err = parseBool(name, text)
		case "called_since":
			q.CalledSince, err = urlparams.ParseTime(text, now)
		case "source":
			if text != SourceCounters {
				err = fmt.Errorf("source is %.40q: want %s, or omit it", text, SourceCounters)
			}
			ranker = h.Counters
		}
		errs = append(errs, err)
	}
	if values.Has("called_since") && !values.Has("source") {
		errs = append(errs, errors.New("called_since requires source="+SourceCounters))
	}
	if err := errors.Join(errs...); err != nil {
		return q, nil, err
	}
	if h.NoTexts {
		// A match would reveal words of the text.
		if f, err := parseFilter(q.Filter); err == nil && f.wantText {
			return q, nil, errors.New("this account does not see the texts of statements: a filter of it may have digest=, schema=, user= and backend= alone")
		}
	}
	return q, ranker, q.Validate()
}

func parseBool(name, text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s is %.40q: want true or false", name, text)
	}
	return b, nil
}

// A statementsJSON is the response. Fields may be added, but are never removed.
type statementsJSON struct {
	From      time.Time           `json:"from"`
	To        time.Time           `json:"to"`
	Source    string              `json:"source"`
	Notes     []string            `json:"notes,omitempty"`
	Matching  int                 `json:"matching"`
	Total     *TotalsJSON         `json:"total"`
	Before    *TotalsJSON         `json:"before,omitempty"`
	NoCompare string              `json:"no_comparison,omitempty"` // reason for which before is not comparable
	Rows      []*statementRowJSON `json:"statements"`
}

type statementRowJSON struct {
	Digest  string      `json:"digest"`
	Schema  string      `json:"schema,omitempty"`
	User    string      `json:"user,omitempty"`
	Backend string      `json:"backend,omitempty"`
	Text    string      `json:"text,omitempty"`
	TextCut bool        `json:"text_cut,omitempty"`
	Totals  *TotalsJSON `json:"-"` // its members are members of the row
	Before  *TotalsJSON `json:"before,omitempty"`
	First   time.Time   `json:"first_seen"`
	Last    time.Time   `json:"last_seen"`
	New     bool        `json:"new,omitempty"`
	Change  *Change     `json:"change,omitempty"`
	Points  []float64   `json:"points,omitempty"`

	// Durations are the buckets of the histogram: microseconds and calls.
	Durations [][2]float64 `json:"durations,omitempty"`
}

func (h *handler) response(top *Top, compare bool) *statementsJSON {
	a := &statementsJSON{
		From: top.From.UTC(), To: top.To.UTC(), Source: top.Source, Notes: top.Notes, Matching: top.Matching,
		Total: (*TotalsJSON)(&top.Total), Rows: make([]*statementRowJSON, 0, len(top.Rows)),
	}
	if top.From.Unix() <= 0 {
		a.From = a.To // no statement was counted yet
	}
	before := func(t *Totals) *TotalsJSON {
		if !compare {
			return nil
		}
		return (*TotalsJSON)(t)
	}
	a.Before, a.NoCompare = before(&top.Before), top.NoComparison
	for i := range top.Rows {
		r := &top.Rows[i]
		j := &statementRowJSON{
			Digest: hex.EncodeToString(r.Digest[:]), Schema: r.Schema, User: r.User, Backend: r.Backend,
			Totals: (*TotalsJSON)(&r.Totals), Before: before(&r.Before),
			First: r.First.UTC(), Last: r.Last.UTC(), New: r.New, Points: r.Points,
		}
		if h.ChangeOf != nil {
			if c, ok := h.ChangeOf(r.Key); ok {
				c.Since = c.Since.UTC()
				j.Change = &c
			}
		}
		if !h.NoTexts {
			j.Text, j.TextCut = r.Text, r.TextCut
		}
		for _, b := range r.Durations {
			j.Durations = append(j.Durations, [2]float64{micros(b.Duration), float64(b.Count)})
		}
		a.Rows = append(a.Rows, j)
	}
	return a
}
