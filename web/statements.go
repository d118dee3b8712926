package web

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/taredb/tare/internal/chart"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// Statements ranks and describes statements in a time range. A history's Archive implements it, and a Table,
// which only knows the counts since its start.
type Statements interface {
	Top(context.Context, statements.TopQuery) (*statements.Top, error)
	Statement(context.Context, statements.StatementQuery) (*statements.Statement, error)
}

var (
	_ Statements = (*statements.ArchiveReader)(nil)
	_ Statements = statements.TableReader{}
	_ Statements = textless{}
)

// Latest has the values of the last seconds.
type Latest struct {
	Seconds            float64 // covered time
	Statements, Errors uint64
	PerSecond          float64
	P50, P99, P999     time.Duration
	Sessions           int // connected clients
}

// A statementReader reads statements as the account of a view may see them.
type statementReader struct {
	all Statements // nil: there are none
	log *slog.Logger
}

// of returns the source of statements, without texts if the view's account may not see them.
func (s *statementReader) of(v *view) Statements {
	if v.texts {
		return s.all
	}
	return textless{s.all}
}

// textRange is the time range that is searched for the names of statements.
const textRange = time.Hour

// names returns the names of the statements with the most time in the last hour.
func (s *statementReader) names(ctx context.Context, v *view) map[sqldigest.Digest]string {
	if s.all == nil || !v.texts {
		return nil
	}
	top, err := s.all.Top(ctx, statements.TopQuery{From: v.now.Add(-textRange), To: v.now, Limit: statements.MaxTopLimit})
	if err != nil {
		s.log.Debug("digests are shown without texts", "error", err)
		return nil
	}
	texts := make(map[sqldigest.Digest]string, len(top.Rows))
	for i := range top.Rows {
		if r := &top.Rows[i]; r.Text != "" {
			texts[r.Digest] = statementName(r.Text, r.TextCut, r.Digest)
		}
	}
	return texts
}

// textless hides texts, and rejects queries whose results would reveal them.
type textless struct{ all Statements }

// Top implements Statements.
func (t textless) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	if f, err := querylog.ParseFilter(q.Filter); err == nil && f.Names("normalized") {
		return nil, &problem{
			Status: http.StatusForbidden,
			What:   "This account sees no statement texts, so it cannot search for words in them.",
			Try:    []string{"Filter by digest=…, schema=…, user=… or backend=…."},
		}
	}
	top, err := t.all.Top(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range top.Rows {
		top.Rows[i].Text, top.Rows[i].TextCut = "", false
	}
	return top, nil
}

// Statement implements Statements.
func (t textless) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := t.all.Statement(ctx, q)
	if err != nil {
		return nil, err
	}
	st.Text, st.TextCut = "", false
	for i := range st.Slow {
		st.Slow[i].Text, st.Slow[i].TextCut = "", false
	}
	return st, nil
}

// sourceNotes describes the source of the values, unless it is obvious.
func sourceNotes(v *view, source string, from, to time.Time, notes []string) []string {
	var all []string
	switch source {
	case statements.SourceCounters:
		what := "No history is kept: values are since " + moment(from) + " " + utc + ", regardless of the range."
		if from.IsZero() {
			what = "No history is kept, and there was no statement since the start."
		}
		all = append(all, what+" Set option bucket to keep one.")
	case statements.SourceSamples:
		if least := max(v.span.Length()/100, time.Minute); from.After(v.span.From.Add(least)) && !from.After(v.span.To) {
			all = append(all, "The history starts at "+moment(from)+" "+utc+": values cover the time since then.")
		}
	case statements.SourceRollups:
		if from.After(v.span.From.Add(time.Minute)) || v.span.From.After(from.Add(time.Minute)) || to.Before(v.span.To.Add(-time.Minute)) {
			all = append(all, "Whole hours: "+moment(from)+" – "+moment(to)+" "+utc+".")
		}
	}
	for _, n := range notes {
		all = append(all, sentence(n))
	}
	return all
}

// A change is the comparison of a value with the previous range.
type change struct {
	Text  string // "+12 %"; "" if there is nothing to compare with
	Class string // style: warn, good or dim
}

// changeOf compares two values of ranges of the same length.
func changeOf(now, before float64) change {
	if !(before > 0) || !chart.IsNumber(now) {
		return change{}
	}
	f := now/before - 1
	switch {
	case f >= 9.5:
		return change{Text: "× " + short(now/before), Class: "warn"}
	case f >= 0.005:
		return change{Text: "+" + percent(f), Class: "warn"}
	case f <= -0.005:
		return change{Text: "−" + percent(-f), Class: "good"}
	}
	return change{Text: "±0 %", Class: "dim"}
}

// keyName returns the parts of a key besides its digest.
func keyName(k *stmtstats.Key) string {
	var parts []string
	for _, p := range []string{k.Schema, k.User, k.Backend} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, " · ")
}

// statementName returns a statement in one line: its text, or its digest if the text is unknown or hidden.
func statementName(text string, cut bool, digest [16]byte) string {
	if text == "" {
		return "digest " + hex.EncodeToString(digest[:])
	}
	if len(text) > maxLine {
		text, cut = text[:maxLine], true
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if cut {
		text += " …"
	}
	return text
}

// maxLine bounds the text in a row of a table.
const maxLine = 300

// statementProblem adds advice to an error of querying statements.
func statementProblem(err error) error {
	var p *problem
	if errors.As(err, &p) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, statements.ErrNoStatement) {
		return notFound("No call of this digest in this range.", "Choose a longer range.", "Search the queries.")
	}
	return err
}
