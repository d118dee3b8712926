package statements_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

// TestLiveStatement queries a statement whose text is longer than a label, from samples and from rollups, with calls that no round has
// written. What only the table has is that of the table: the complete text, the slowest calls, the first and the last one.
func TestLiveStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.start()
		text := "SELECT " + strings.Repeat("a, ", 3000) + "a FROM t"
		digest := sqldigest.OfText([]byte(text))
		var took []time.Duration
		var at []time.Time // when calls end
		call := func(d time.Duration) {
			r.table.Observe(&querylog.Record{Start: r.options.Now().Add(-d), Total: d, Digest: digest, Normalized: []byte(text), Text: []byte("SELECT 1"), Schema: "shop", User: "app", Backend: "db1", ConnectionID: 7})
			took, at = append(took, d), append(at, r.options.Now())
			r.call(3, time.Millisecond, false)
		}
		time.Sleep(150 * time.Second)
		began := r.options.Now()
		time.Sleep(time.Second)
		for i := range 27 {
			call(time.Duration(1+i%4) * time.Second)
			time.Sleep(20*time.Minute + time.Duration(i)*time.Second)
		}
		call(5 * time.Second)
		time.Sleep(2 * time.Second) // no round is written in between
		other := openTable(t, stmtstats.Options{})
		defer func() { _ = other.Close() }()
		for _, c := range []struct {
			from, to time.Time
			source   string
		}{
			{began, r.options.Now().Add(time.Minute), statements.SourceRollups},
			{began, r.options.Now().Truncate(time.Hour).Add(-100 * time.Minute), statements.SourceRollups}, // up to the end of an hour
			{r.options.Now().Add(-50 * time.Minute), r.options.Now().Add(time.Minute), statements.SourceSamples},
			{r.options.Now().Add(-50 * time.Minute), r.options.Now().Add(-15 * time.Minute), statements.SourceSamples},
		} {
			q := statements.StatementQuery{Digest: digest.String(), From: c.from, To: c.to, Points: 10}
			st, err := r.reader.Statement(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			n, seconds := uint64(0), 0.0
			for i := range at {
				if at[i].After(st.From) && !at[i].After(st.To) {
					n++
					seconds += took[i].Seconds()
				}
			}
			if n == 0 || st.Source != c.source || st.Calls != n || !near(st.Seconds, seconds) || len(st.Parts) != 1 || st.Parts[0].Calls != n {
				t.Errorf("%v to %v: %s, %d calls of %v s, %+v; want %d of %v s", st.From, st.To, st.Source, st.Calls, st.Seconds, st.Parts, n, seconds)
			}
			if st.Text != text || st.TextCut || len(st.Notes) != 0 {
				t.Errorf("%s: a text of %d bytes, cut %t, notes %q", c.source, len(st.Text), st.TextCut, st.Notes)
			}
			if !st.First.Equal(at[0]) || !st.Last.Equal(at[len(at)-1]) {
				t.Errorf("%s: the first call is of %v, the last of %v; want %v and %v", c.source, st.First, st.Last, at[0], at[len(at)-1])
			}
			slowest := slices.Sorted(slices.Values(took[len(took)-4:]))
			if len(st.Slow) == 0 || st.Slow[0].Duration != slowest[3] || st.Slow[0].ConnectionID != 7 || st.Slow[0].Text != "SELECT 1" {
				t.Errorf("%s: slow calls %+v, want %v first", c.source, st.Slow, slowest[3])
			}
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: c.from, To: c.to, Points: 10})
			if err != nil || len(top.Rows) != 2 {
				t.Fatalf("%+v, %v", top, err)
			}
			if end := top.Series.End; c.source == statements.SourceSamples && end.After(r.options.Now().Add(-2*time.Second)) || end.After(top.To) || top.To.Sub(end) > time.Hour {
				t.Errorf("%s: the points end at %v, the range at %v, and the newest round was more than 2 s before %v", c.source, end, top.To, r.options.Now())
			}
			if row := top.Rows[0]; row.Digest != digest || row.Calls != n || row.Text != text || row.TextCut {
				t.Errorf("%s: %d calls, a text of %d bytes, cut %t; want %d calls", c.source, row.Calls, len(row.Text), row.TextCut, n)
			}
			// Without the table the text is that of the label.
			st, err = statements.NewArchiveReader(r.archive, other).Statement(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(st.Text) < 100 || len(st.Text) >= len(text) || !strings.HasPrefix(text, st.Text) || !st.TextCut || st.Slow != nil {
				t.Errorf("%s, another table: a text of %d bytes, cut %t, slow calls %v", c.source, len(st.Text), st.TextCut, st.Slow)
			}
		}
		for _, q := range []statements.StatementQuery{
			{Digest: "x", From: began, To: r.options.Now()},
			{Digest: digest.String(), From: r.options.Now(), To: began},
			{Digest: digest.String(), From: began, To: r.options.Now(), Points: -1},
		} {
			if st, err := r.reader.Statement(t.Context(), q); err == nil || errors.Is(err, statements.ErrNoStatement) {
				t.Errorf("%+v: %+v, %v", q, st, err)
			}
			if top, err := r.reader.Top(t.Context(), statements.TopQuery{From: q.From, To: q.To, Points: q.Points}); (err == nil) != (q.Digest == "x") {
				t.Errorf("%+v: %+v, %v", q, top, err)
			}
		}
		r.stop()
	})
}

// A blockedWriter blocks its first write until it is released.
type blockedWriter struct {
	*httptest.ResponseRecorder
	blocked, release chan struct{}
}

func (w *blockedWriter) Write(b []byte) (int, error) {
	if w.blocked != nil {
		close(w.blocked)
		w.blocked = nil
		<-w.release
	}
	return w.ResponseRecorder.Write(b)
}

// TestScrapesAgain scrapes again and again: each has the calls up to then, and one at a time runs.
func TestScrapesAgain(t *testing.T) {
	table := openTable(t, stmtstats.Options{})
	defer func() { _ = table.Close() }()
	h := statements.NewScrapeHandler(table, false, slog.New(slog.DiscardHandler))
	calls := func() (n float64) {
		for _, m := range scrape(t, h, "/metrics/digests")[stmtseries.Queries.String()].GetMetric() {
			n += m.GetCounter().GetValue()
		}
		return n
	}
	for n := range 4 {
		if got := calls(); got != float64(n) {
			t.Errorf("%v calls, want %d", got, n)
		}
		table.Observe(&querylog.Record{Digest: [16]byte{byte(n/2) + 1}, Normalized: []byte("select ?"), Total: time.Second})
	}
	w := &blockedWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	blocked := w.blocked
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/digests", nil))
	}()
	testwait.Receive(t, "the scrape to write", blocked)
	second := httptest.NewRecorder()
	if h.ServeHTTP(second, httptest.NewRequest(http.MethodGet, "/metrics/digests", nil)); second.Code != http.StatusServiceUnavailable {
		t.Errorf("a second scrape at the same time: %d %s", second.Code, second.Body)
	}
	close(w.release)
	testwait.Receive(t, "the scrape to end", done)
	if got := calls(); got != 4 {
		t.Errorf("%v calls after it, want 4", got)
	}
}
