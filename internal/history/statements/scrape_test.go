package statements_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/teststmt"
)

// scrape requests digests as protobuf.
func scrape(t *testing.T, h http.Handler, target string) map[string]*dto.MetricFamily {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	d := expfmt.NewDecoder(bufio.NewReader(w.Body), expfmt.ResponseFormat(w.Header()))
	families := make(map[string]*dto.MetricFamily)
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return families
		} else if err != nil {
			t.Fatal(err)
		}
		families[f.GetName()] = &f
	}
}

// TestScrapeDigests scrapes the digests with the most time: counts, native histograms and texts.
func TestScrapeDigests(t *testing.T) {
	table := openTable(t, stmtstats.Options{})
	defer func() { _ = table.Close() }()
	for n := range 5 {
		for range n + 1 {
			r := teststmt.Record(n, time.Duration(n+1)*time.Second)
			if n == 4 {
				r.ErrorNumber = 1213
			}
			table.Observe(r)
		}
	}
	without := teststmt.Record(0, time.Second)
	without.Digest = [16]byte{}
	table.Observe(without)
	log := slog.New(slog.DiscardHandler)
	h := statements.NewScrapeHandler(table, false, log)
	all := scrape(t, h, "/metrics/digests")
	if n := len(all[stmtseries.Queries.String()].GetMetric()); n != 6 {
		t.Errorf("%d digests, want 5 and other", n)
	}
	two := scrape(t, h, "/metrics/digests?limit=2")
	if n := len(two[stmtseries.Queries.String()].GetMetric()); n != 3 {
		t.Errorf("%d digests, want 2 and other", n)
	}
	if n := len(two[stmtseries.Errors.String()].GetMetric()); n != 1 || two[stmtseries.Errors.String()].GetMetric()[0].GetCounter().GetValue() != 5 {
		t.Errorf("errors: %v", two[stmtseries.Errors.String()])
	}
	if n := len(two[stmtseries.Info.String()].GetMetric()); n != 2 {
		t.Errorf("%d texts, want 2", n)
	}
	for _, m := range two[stmtseries.Duration.String()].GetMetric() {
		var label string
		for _, l := range m.GetLabel() {
			if l.GetName() == stmtseries.LabelDigest {
				label = l.GetValue()
			}
		}
		if !strings.HasPrefix(label, "01000004") {
			continue
		}
		if g := m.GetHistogram(); g.GetSampleCount() != 5 || g.GetSampleSum() != 25 || g.GetSchema() != stmtstats.Schema || len(g.GetPositiveSpan()) != 1 || g.GetPositiveDelta()[0] != 5 {
			t.Errorf("histogram %v", g)
		} else if want := teststmt.Record(4, 5*time.Second).Total; stmtstats.BucketOf(want)+1+stmtstats.FirstOctave*stmtstats.PerOctave != int(g.GetPositiveSpan()[0].GetOffset()) {
			t.Errorf("its bucket is %d", g.GetPositiveSpan()[0].GetOffset())
		}
	}
	if texts := scrape(t, statements.NewScrapeHandler(table, true, log), "/metrics/digests")[stmtseries.Info.String()]; texts != nil {
		t.Errorf("texts without leave: %v", texts)
	}
	for query, want := range map[string]int{
		"limit=0": 400, "limit=x": 400, "limit=20001": 400, "limit=1&limit=2": 400, "limits=1": 400, "limit=1&name[]=x": 400,
		"limit=": 200, "limit=1": 200, "limit=20000": 200,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/digests?"+query, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", query, w.Code, want)
		}
	}
}
