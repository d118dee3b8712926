package frontend

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/taredb/tare/fleet/activeseries"
)

// TestOverview queries a fleet with one failing replica: the overview has counts per replica, and shows
// values of labels only to accounts that may see them.
func TestOverview(t *testing.T) {
	fails := func(w http.ResponseWriter, _ *http.Request, _ string) {
		http.Error(w, "no such luck, job=api", http.StatusServiceUnavailable)
	}
	l := newFleet(t, false, func(o *Options) {
		o.Decoding = Decoding{By: activeseries.Strict, Compare: 1}
		o.Downstreams[0].User = url.UserPassword("tare", "secret")
	}, hasSeries(2), fails)
	selector := url.QueryEscape(`up{job="api"}`)
	l.ask(http.MethodGet, "/api/v1/cardinality/active_series?selector="+selector, nil).series(t)
	l.ask(http.MethodGet, "/api/v1/cardinality/active_series?selector="+url.QueryEscape(`up{job=`), nil)

	o := l.frontend.Overview(true)
	if len(o.Peers) != 2 || strings.Contains(o.Peers[0].URL, "secret") || !strings.Contains(o.Peers[0].URL, "tare") {
		t.Fatalf("peers: %+v", o.Peers)
	}
	good, bad := o.Peers[0], o.Peers[1]
	if good.Responded != 4 || good.Failed != 0 || good.Seconds <= 0 || good.LastErrorAt != nil {
		t.Errorf("the replica that answers: %+v", good)
	}
	if bad.Responded != 0 || bad.Failed != 2 || !strings.Contains(bad.LastError, "no such luck") || bad.LastErrorAt == nil {
		t.Errorf("the replica that fails: %+v", bad)
	}
	if o.Requests != 2 || o.Failed != 1 || o.Retries != 2 || o.Compared != 1 || o.Differences != 0 || o.Decoder != "strict" || o.Shards != 4 {
		t.Errorf("overview: %+v", o)
	}
	if len(o.Latest) != 2 || o.Latest[0].Status != http.StatusBadRequest || o.Latest[0].Error == "" {
		t.Fatalf("latest: %+v", o.Latest)
	}
	if a := o.Latest[1]; a.Selector != `{job="api",__name__="up"}` || a.Items != 8 || a.Status != http.StatusOK || a.Shards != 4 {
		t.Errorf("the first request: %+v", a)
	}
	o = l.frontend.Overview(false)
	if text := fmt.Sprintf("%+v", o); strings.Contains(text, "api\"") || strings.Contains(text, "luck") {
		t.Errorf("without values: %s", text)
	}
	if got := o.Peers[1].LastError; got != "returned status 503" {
		t.Errorf("without values: %q", got)
	}
	if a := o.Latest[1]; a.Selector != `{job="?",__name__="up"}` {
		t.Errorf("without values: %q", a.Selector)
	}
}

// TestLatestIsBounded records more and longer requests than are kept.
func TestLatestIsBounded(t *testing.T) {
	var l latest
	for i := range latestRequests + 7 {
		l.record(&record{Selector: fmt.Sprint(i, strings.Repeat("é", latestText)), ErrorText: strings.Repeat("\xff", 3*latestText)})
	}
	l.recordDifference(activeseries.Difference{Shard: strings.Repeat("1", 2*latestText)})
	var o Overview
	l.read(&o, true)
	if len(o.Latest) != latestRequests || o.Requests != latestRequests+7 || o.Differences != 1 {
		t.Fatalf("%d remembered of %d", len(o.Latest), o.Requests)
	}
	for i, a := range o.Latest {
		if want := fmt.Sprint(latestRequests+6-i, "é"); !strings.HasPrefix(a.Selector, want) {
			t.Errorf("request %d begins %q, want %q", i, a.Selector[:8], want)
		}
		if len(a.Selector) > latestText+len("…") || len(a.Error) > latestText+len("…") {
			t.Errorf("request %d: %d and %d bytes of text", i, len(a.Selector), len(a.Error))
		}
	}
	if n := len(o.LastDifference.Text); n > latestText+len("…") {
		t.Errorf("%d bytes of a difference", n)
	}
}
