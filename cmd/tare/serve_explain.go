package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// explainRange is the time range of the heaviest statements to explain, if a history is kept.
const explainRange = 15 * time.Minute

// openExplain creates the Prober that explains the heaviest statements through the control account; it is nil
// without the account, without HTTP, or if digests are not counted.
func (s *service) openExplain() error {
	counted := s.history.statements()
	if s.cfg.Control.Addr == "" || s.cfg.Explain != config.On || s.markers == nil || counted == nil {
		return nil
	}
	var err error
	s.explain, err = explain.New(explain.Options{
		Login: s.controlLogin,
		Kill:  s.options.Kill,
		Candidates: func(ctx context.Context) ([]explain.Candidate, error) {
			return heaviest(ctx, counted, s.history.now())
		},
		Changed: s.markPlanChange,
		Log:     s.Log,
	})
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	s.options.Observers = append(s.options.Observers, s.explain)
	s.Metrics.MustRegister(s.explain)
	s.Go(s.explain.Run)
	return nil
}

// controlLogin returns the login of the control account at the sessions' server.
func (s *service) controlLogin() mysqlconn.Config { return s.controlAt(s.activeAddr()) }

// activeAddr returns the address of the sessions' server.
func (s *service) activeAddr() string {
	if s.cfg.Standby == "" {
		return string(s.cfg.Backend)
	}
	_, addr := s.gateway.Active()
	return addr
}

// openServerCounts creates the Reader of the server's counts; it is nil without the account or HTTP, or if digests are not
// counted.
func (s *service) openServerCounts() (err error) {
	if s.cfg.Control.Addr == "" || s.cfg.ServerCounts != config.On || s.markers == nil || s.history.statements() == nil {
		return nil
	}
	var busy *gateway.BusyWatch
	s.counts, err = serverstats.New(serverstats.Options{
		Login: s.controlLogin,
		Slow: func() int { // called by Run only, which starts after the gateway was created
			if busy == nil {
				busy = s.gateway.NewBusyWatch()
			}
			return busy.Same()
		},
		Locked: s.markLock,
		ClientOf: func(connection uint32) (string, bool) {
			client, ok := s.gateway.ClientOf(connection)
			return netip.AddrPortFrom(client.Addr().Unmap(), client.Port()).String(), ok && client.IsValid()
		},
		TablesOf: s.markers.store.TablesOf,
		Log:      s.Log,
	})
	if err != nil {
		return fmt.Errorf("--server-counts: %w", err)
	}
	s.Metrics.MustRegister(s.counts)
	s.Go(s.counts.Run)
	return nil
}

// countSource returns the source of the server's counts for the pages.
func (s *service) countSource() web.CountSource {
	if s.counts == nil {
		return nil
	}
	return s.counts
}

// countBytes returns the heap bytes charged for the server's counts.
func (s *service) countBytes() int64 {
	if s.counts == nil {
		return 0
	}
	return s.counts.HeapBytes()
}

// openTags creates the counts by tags.
func (s *service) openTags() (err error) {
	if s.cfg.HTTP == "" {
		return nil
	}
	if s.tags, err = calls.NewTagCounts(s.cfg.TagLabels, s.cfg.TagValues); err != nil {
		return fmt.Errorf("--tag-labels: %w", err)
	}
	s.Metrics.MustRegister(s.tags)
	if len(s.cfg.TagLabels) > 0 {
		s.options.Observers = append(s.options.Observers, s.tags)
	}
	return nil
}

// openCalls creates the sample of calls.
func (s *service) openCalls() (err error) {
	if s.cfg.CallSampleBytes == 0 {
		return nil
	}
	if s.calls, err = calls.New(calls.Options{Bytes: int64(s.cfg.CallSampleBytes)}); err != nil {
		return fmt.Errorf("--call-sample-bytes: %w", err)
	}
	s.options.Observers = append(s.options.Observers, s.calls)
	return nil
}

// callSource returns the source of sampled calls for the pages.
func (s *service) callSource() web.CallSource {
	if s.calls == nil {
		return nil
	}
	return s.calls
}

// callBytes returns the heap bytes charged for the sample of calls and the counts by tags.
func (s *service) callBytes() (n int64) {
	if s.tags != nil {
		n = s.tags.HeapBytes()
	}
	if s.calls == nil {
		return n
	}
	return n + s.calls.HeapBytes()
}

// attention returns what needs attention.
func (s *service) attention() web.Attention {
	return web.Attention{LeastLoad: s.cfg.AttentionLoad, Interval: s.cfg.History.Archive.Interval}
}

// watchRises starts the detection of statements that became heavier, if a history is kept.
func (s *service) watchRises() {
	h := s.history
	if s.cfg.HTTP == "" || h.archive == nil {
		return
	}
	h.rises = web.NewRiseWatch(h.statements(), s.attention(), h.archive.Now, s.Log)
	s.Metrics.MustRegister(h.rises)
	s.Go(h.rises.Run)
}

// heaviest returns the statements with most load.
func heaviest(ctx context.Context, counted web.Statements, now func() time.Time) ([]explain.Candidate, error) {
	if now == nil {
		now = time.Now
	}
	to := now()
	top, err := counted.Top(ctx, statements.TopQuery{From: to.Add(-explainRange), To: to, By: statements.BySeconds, Limit: 2 * explain.MaxCandidates})
	if err != nil {
		return nil, err
	}
	all := make([]explain.Candidate, 0, len(top.Rows))
	for i := range top.Rows {
		r := &top.Rows[i]
		all = append(all, explain.Candidate{Digest: r.Digest, Schema: r.Schema, Text: r.Text, TextCut: r.TextCut})
	}
	return all, nil
}

// markPlanChange records that the server has chosen another plan.
func (s *service) markPlanChange(digest sqldigest.Digest, c explain.Change) {
	s.markers.store.Add(markers.Marker{
		Kind: markers.KindPlan, Time: c.At, Title: "Plan changed", Digest: digest.String(), Link: "/query/" + digest.String(),
	})
}

// markLock records that sessions wait for locks of one session.
func (s *service) markLock(w serverstats.LockWait) {
	h := &w.Holder
	m := markers.Marker{
		Kind: markers.KindLock, Time: w.From, End: w.To, Title: fmt.Sprintf("Connection %d held a %s lock", h.Connection, w.Kind),
		Tables: []string{w.Table}, User: h.User, Client: h.Client,
	}
	m.Text = fmt.Sprintf("%s on %s", m.Title, w.Table)
	if h.Transaction > 0 {
		m.Text += fmt.Sprintf(", its transaction was %s old", h.Transaction.Round(time.Second))
	}
	if h.Text != "" {
		m.Text += ", its last statement: " + h.Text
		m.TextCut = h.TextCut
	}
	if s.cfg.Log.Redact == querylog.RedactAll {
		m = m.Textless()
	}
	s.markers.store.Add(m)
}

// schemaChanged schedules statements for EXPLAIN whose tables have changed.
func (s *service) schemaChanged(m markers.Marker) {
	if s.explain != nil && m.SchemaChange() {
		s.explain.SchemaChanged(m.Tables)
	}
}

// planSource returns the source of plans for the pages.
func (s *service) planSource() web.PlanSource {
	if s.explain == nil {
		return nil
	}
	return s.explain
}

// explainBytes returns the heap bytes charged for explained statements and their plans.
func (s *service) explainBytes() int64 {
	if s.explain == nil {
		return 0
	}
	return s.explain.HeapBytes()
}
