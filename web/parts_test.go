package web

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
)

// hostile is a name that an attacker may have chosen.
const hostile = `<script>alert("1")</script>'&`

// A seriesList is a SeriesSource that overwrites the labels that it has yielded, as the interface allows.
type seriesList [][]string

// ActiveSeries implements SeriesSource.
func (l seriesList) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return func(yield func(labels.Labels) bool) {
		var ls labels.Labels
		b := labels.NewScratchBuilder(8)
		for _, pairs := range l {
			b.Reset()
			for i := 0; i < len(pairs); i += 2 {
				b.Add(pairs[i], pairs[i+1])
			}
			b.Sort()
			b.Overwrite(&ls)
			if keep(ls) && !yield(ls) {
				return
			}
		}
	}
}

// partOptions returns options with each component, with data in them if full is set.
func partOptions(full bool) Options {
	o := testOptions()
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	o.Now = func() time.Time { return start.Add(time.Hour) }
	o.LogColumns = querylog.RecordColumns()
	plans, series, copies, store := memory.Plans{Capacity: 1 << 20}, seriesList(nil), Copies{Sockets: []string{"/run/tare"}}, storegateway.StatusPage{}
	if full {
		plans = memory.Plans{
			Bytes: 4096, Capacity: 8192, Overhead: 96, Entries: 1, Hits: 3, Misses: 1,
			Refused: []memory.ReasonCount{{Reason: "long", Count: 7}}, Evicted: []memory.ReasonCount{{Reason: "capacity", Count: 0}},
			Largest: []memory.Plan{{Digest: sqldigest.Digest{1}, Bytes: 4000, Type: "select", Verdict: "blocked", Tables: []memory.Table{{Schema: "shop", Name: hostile, Access: "read"}}}},
		}
		series = seriesList{
			{"__name__", "tare_queries_total", "schema", hostile, "digest", "01"},
			{"__name__", "tare_queries_total", "schema", "shop", "digest", "02"},
			{"__name__", "tare_digest_info", "digest", "02", "text", "SELECT secret"},
		}
		end := start.Add(30 * time.Second)
		copies.Target, copies.Problems = "db:3306", []string{"read it: " + hostile}
		copies.Jobs = []state.Job{
			{Target: "shop." + hostile, Phase: "finished", Spec: "where card = '4111'", Rows: 3000, Chunks: 3, Copied: 3, Started: start, Finished: &end},
			{Target: "shop.b", Phase: "copying", Chunks: 4, Copied: 1, Started: start},
		}
		copies.Running = []*telemetry.Status{{
			From: "a:3306", To: "b:3306", Phase: telemetry.RunCopying, Started: start,
			Tables:   []telemetry.TableStatus{{Source: hostile, Target: "x", Rows: 5, RowsEstimate: 10}},
			Throttle: throttle.Status{Share: 0.5, Most: 1, Reason: "lag " + hostile, Limits: []throttle.LimitStatus{{Name: "lag", Unit: "s", Bound: 5, Value: 9}}},
			Follow:   &telemetry.FollowStatus{Position: "bin.1 4", Lag: "3 s behind, confirmed 0.2 s ago", LagSeconds: new(float64(3)), LagBytes: new(int64(4096))}, Verify: &telemetry.VerifyStatus{Chunks: 10, Compared: 5, Mismatches: 2},
		}}
		store = manyBlocks(3)
		store.Sync.Error, store.Sync.Stranger, store.Sync.Foreign = "list: "+hostile, hostile, 1
		store.Skipped = []blocksync.SkippedBlock{{ID: "01", Tenant: hostile, Reason: "meta", Detail: hostile}}
	}
	o.Plans = func(int) memory.Plans { return plans }
	o.Series = series
	o.Copies = func(context.Context) Copies { return copies }
	o.Store = func() storegateway.StatusPage { return store }
	o.Weight = &WeightSource{
		Heap: func() []memory.OwnerBytes {
			return []memory.OwnerBytes{{Owner: "sessions", Bytes: 25}, {Owner: hostile, Bytes: 75}}
		},
		Statements: func() uint64 { return 7 }, StatementName: "command",
		Reload: func() *Reload {
			if !full {
				return nil
			}
			return &Reload{Rules: 4, Added: []string{"shop", hostile}, Changed: []string{"old"}, Restart: []string{"listen"}}
		},
	}
	return o
}

// manyBlocks returns n consecutive blocks of two hours each, every tenth of them compacted.
func manyBlocks(n int) storegateway.StatusPage {
	var p storegateway.StatusPage
	const length = int64(2 * time.Hour / time.Millisecond)
	for i := range n {
		b := blocksync.BlockInfo{
			ID: fmt.Sprintf("01BLOCK%019d", i), Tenant: []string{"a", hostile}[i%2], MinTime: int64(i) * length, MaxTime: int64(i+1) * length,
			Series: 100, Samples: 1000, Level: 1, Bytes: 1 << 20, Loaded: i%2 == 0, Labels: map[string]string{"region": hostile},
		}
		if i%10 == 9 {
			b.Level = 2
		}
		p.Blocks = append(p.Blocks, b)
	}
	p.Sync.Blocks = n
	return p
}

// TestParts requests each page with data and without.
func TestParts(t *testing.T) {
	full, empty := New(partOptions(true)).Handler(), New(partOptions(false)).Handler()
	for _, c := range []struct {
		path        string
		full, empty []string
	}{
		{"/live", []string{"Statement", "data-kind=\"duration\"", "This page needs scripts"}, nil},
		{"/plans", []string{"4 KiB", "50 %", "75 %", "blocked", "statement text too long", "01000000000000000000000000000000"}, []string{"no statement yet"}},
		{"/series", []string{"<b>3</b> active series", "tare_queries_total", "SELECT secret", "schema=\"shop\""}, []string{"No active series"}},
		{"/copies", []string{"finished", "3,000", "where card", "1 of 4, more to come", "confirmed 0.2 s ago, 4 KiB of binary log", "throttled", "rows differ", "Unreadable"}, []string{"is running (searched", "/run/tare", "--copies"}},
		{"/store", []string{"sync failed", "meta", "level 1", "3 MiB", "loaded"}, []string{"The bucket has not been synced yet"}},
		{"/weight", []string{"Per command", "Heap by owner", "75 %", "start with the third measurement", "4 rules in force", "Rules added", "Rules changed", "<code>--listen</code>"}, nil},
	} {
		code, body, _ := request(t, full, "GET", c.path)
		for _, want := range c.full {
			if code != http.StatusOK || !strings.Contains(body, strings.ReplaceAll(want, `"`, `&#34;`)) && !strings.Contains(body, want) {
				t.Errorf("%s: %d without %q:\n%s", c.path, code, want, body)
			}
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "ZgotmplZ") {
			t.Errorf("%s shows a name as markup", c.path)
		}
		code, body, _ = request(t, empty, "GET", c.path)
		for _, want := range c.empty {
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s without data: %d without %q:\n%s", c.path, code, want, body)
			}
		}
	}
}

// TestQueryLinks expects digests to link to the pages of statements if the server has them.
func TestQueryLinks(t *testing.T) {
	o := partOptions(true)
	o.Statements = &fakeStatements{rows: 1}
	h := New(o).Handler()
	for path, want := range map[string]string{"/plans": `href="/query/01000000000000000000000000000000"`, "/live": `data-query="/query/"`} {
		if _, body, _ := request(t, h, "GET", path); !strings.Contains(body, want) {
			t.Errorf("%s has no %s:\n%s", path, want, body)
		}
	}
}

// TestFirstPages requests / of servers without statements.
func TestFirstPages(t *testing.T) {
	asked := frontend.Overview{
		Peers:  []frontend.Peer{{URL: "http://" + hostile, Failed: 2, LastError: hostile}, {URL: "http://b", Responded: 4, Seconds: 2}},
		Latest: []frontend.RecentRequest{{Selector: `{job="` + hostile + `"}`, Status: 502, Error: hostile}}, Decoder: "strict", Requests: 1, Failed: 1,
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"store":    {func(o *Options) { o.Store = func() storegateway.StatusPage { return manyBlocks(3) } }, []string{"Blocks over time", `href="/"`, "Budgets in use"}},
		"frontend": {func(o *Options) { o.Frontend = func(bool) frontend.Overview { return asked } }, []string{"never succeeded", "500 ms", "502", "Downstreams: replicas"}},
		"rows": {func(o *Options) {
			o.Rows = func() wire.ServiceStats {
				return wire.ServiceStats{Rows: 5, Bytes: 200, Sent: 50, Follows: 7, FailedFollows: 2, Changes: 8, ChangeBytes: 1000, ChangeSent: 400}
			}
		}, []string{"25 %", "40 %", "7 finished", "<dd class=\"bad\">2<", "tare copy --from tare://"}},
	} {
		o := testOptions()
		c.change(&o)
		code, body, _ := request(t, New(o).Handler(), "GET", "/")
		for _, want := range append(c.want, "/-/ready") {
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d without %q:\n%s", name, code, want, body)
			}
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, `href="/store"`) {
			t.Errorf("%s shows a name as markup, or itself twice", name)
		}
	}
}

// TestPartsWithoutTexts requests pages with an account that may not see statement texts.
func TestPartsWithoutTexts(t *testing.T) {
	o := partOptions(true)
	o.Gate = testGate(t, o.Log)
	values := true
	o.Frontend = func(v bool) frontend.Overview { values = v; return frontend.Overview{} }
	o.FrontendValues = true
	o.Live = nil
	h := New(o).Handler()
	get := func(path string) (int, string) {
		t.Helper()
		return requestAs(t, h, "guest", path)
	}
	if code, _ := get("/live"); code != http.StatusForbidden {
		t.Errorf("/live: %d, want 403", code)
	}
	for path, secret := range map[string]string{"/plans": "SELECT", "/series": "secret", "/copies": "4111", "/store": "SELECT", "/weight": "SELECT"} {
		code, body := get(path)
		if code != http.StatusOK || strings.Contains(body, secret) || strings.Contains(body, `href="/live"`) {
			t.Errorf("%s: %d, with %q or a link to /live:\n%s", path, code, secret, body)
		}
	}
	if code, body := get("/series?selector=" + `{text=~"SELECT%20s.*"}`); code != http.StatusBadRequest || strings.Contains(body, "active") {
		t.Errorf("a selector that guesses texts: %d", code)
	}
	if get("/"); values {
		t.Error("the frontend was asked for values")
	}
	if _, body := requestAs(t, h, "dba", "/series"); !strings.Contains(body, "SELECT secret") {
		t.Error("who may see texts sees none")
	}
}

// TestManyBlocks expects ten thousand blocks to be rendered in the size of a few hundred.
func TestManyBlocks(t *testing.T) {
	sizes := make(map[int]int)
	for _, n := range []int{1000, 10_000} {
		o := testOptions()
		p := manyBlocks(n)
		for i := range n {
			p.Skipped = append(p.Skipped, blocksync.SkippedBlock{ID: fmt.Sprint(i), Reason: "meta", Detail: "none"})
		}
		o.Store = func() storegateway.StatusPage { return p }
		h := New(o).Handler()
		code, body, _ := request(t, h, "GET", "/")
		if code != http.StatusOK || len(body) > 256<<10 {
			t.Errorf("%d blocks: %d and %d bytes", n, code, len(body))
		}
		sizes[n] = len(body)
		if got := strings.Count(body, "<rect class=\"lane"); got > 2*laneSlots || got < laneSlots {
			t.Errorf("%d blocks are %d spans", n, got)
		}
		_, body, _ = request(t, h, "GET", "/?page=9&tenant=a")
		if n == 10_000 && !strings.Contains(body, "4,000 earlier") {
			t.Errorf("the tenth page of one tenant has no link to 4,000 more")
		}
	}
	if sizes[10_000] > sizes[1000]*12/10 {
		t.Errorf("pages of %v bytes", sizes)
	}
	o := testOptions()
	o.Store = func() storegateway.StatusPage { return manyBlocks(1) }
	for _, page := range []string{"-1", "x", "99999999999"} {
		if code, _, _ := request(t, New(o).Handler(), "GET", "/?page="+page); code != http.StatusBadRequest {
			t.Errorf("page %s: %d", page, code)
		}
	}
}
