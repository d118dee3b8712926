package history_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/remotewrite"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testseed"
)

// A receiver is a remote-write receiver over Prometheus' database, in a process that also scrapes others. Requests can
// fail before the receiver has them, after it has written them, or in the middle of a kill of the sender.
type receiver struct {
	*httptest.Server
	db      *tsdb.DB
	handler http.Handler

	down    bool        // refuse requests
	lie     int         // this many requests are written and get an error as the response
	onWrite func(n int) // called before the response to the n-th request
	writes  int         // requests written
	refused func()      // called when a request was refused
}

func newReceiver(t *testing.T, version remotewrite.Version) *receiver {
	t.Helper()
	o := tsdb.DefaultOptions()
	o.NoLockfile = true
	db, err := tsdb.Open(t.TempDir(), slog.New(slog.DiscardHandler), nil, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.DisableCompactions()
	accepted := remote.WriteV2MessageType
	if version == remotewrite.V1 {
		accepted = remote.WriteV1MessageType
	}
	r := &receiver{db: db}
	r.handler = remote.NewWriteHandler(r, remote.MessageTypes{accepted})
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.down {
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		r.refused()
		return
	}
	got := httptest.NewRecorder()
	r.handler.ServeHTTP(got, req)
	r.writes++
	if r.onWrite != nil {
		r.onWrite(r.writes)
	}
	if r.lie > 0 {
		r.lie--
		http.Error(w, "the connection to the database was lost", http.StatusBadGateway)
		return
	}
	maps.Copy(w.Header(), got.Header())
	w.WriteHeader(got.Code)
	_, _ = w.Write(got.Body.Bytes())
}

// scrape appends a sample of another target: the receiver takes no samples that are an hour older from then on.
func (r *receiver) scrape(t *testing.T, at time.Time) {
	t.Helper()
	app := r.db.Appender(t.Context())
	if _, err := app.Append(0, labels.FromStrings("__name__", "up", "job", "other"), at.UnixMilli(), 1); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// A remoteRun is an hourglass whose samples are sent to a receiver.
type remoteRun struct {
	*hourglass
	receiver *receiver
	sender   *remotewrite.Sender
	options  remotewrite.Options
	copies   int
}

func newRemoteRun(t *testing.T, version remotewrite.Version, bytes int) *remoteRun {
	t.Helper()
	r := &remoteRun{hourglass: newHourglass(t, nil), receiver: newReceiver(t, version)}
	to, err := url.Parse(r.receiver.URL + "/api/v1/write")
	r.must(err)
	r.options = remotewrite.Options{
		Receiver: remotewrite.Receiver{URL: to, Version: version, Backoff: time.Millisecond}, Bytes: bytes,
		Instances: func() (out []remotewrite.Instance) {
			for _, in := range r.archive.Instances() {
				out = append(out, remotewrite.Instance{Name: in.Hash, Samples: in.Samples, Until: in.Settled})
			}
			return out
		},
		Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler),
	}
	r.open()
	return r
}

// open opens a sender, as a process that starts does.
func (r *remoteRun) open() {
	r.t.Helper()
	dir := r.archive.Options().Dir
	r.options.File, r.options.State = filepath.Join(dir, "remote-write.json"), localstate.Open(dir, r.options.Now, r.options.Log)
	var err error
	r.sender, err = remotewrite.New(r.options)
	r.must(err)
}

// outage sends while the receiver refuses all, until it has refused a few requests.
func (r *remoteRun) outage() {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	left := 3
	r.receiver.down, r.receiver.refused = true, func() {
		if left--; left == 0 {
			cancel()
		}
	}
	r.sender.CatchUp(ctx)
	r.receiver.down = false
}

// killed sends, and continues with the files as they are while the receiver has the n-th request and the sender does not know that.
func (r *remoteRun) killed(n int) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	dir := ""
	r.receiver.writes, r.receiver.onWrite = 0, func(written int) {
		if written == n && dir == "" {
			r.copies++
			dir = filepath.Join(r.t.TempDir(), fmt.Sprint(r.copies))
			if err := os.CopyFS(dir, os.DirFS(r.archive.Options().Dir)); err != nil {
				r.t.Error(err)
			}
			r.receiver.lie = 1
			cancel()
		}
	}
	r.sender.CatchUp(ctx)
	r.receiver.onWrite, r.receiver.lie = nil, 0
	if dir == "" {
		return // there were fewer requests
	}
	r.must(r.db().Close())
	r.reopenIn(dir)
	r.open()
}

// restart closes all in order and opens it again.
func (r *remoteRun) restart() {
	r.t.Helper()
	r.must(r.archive.Close())
	r.reopen()
	r.open()
}

// results are those of queries over the whole time, as text.
func (r *remoteRun) results(of storage.Queryable, from time.Time) map[string]string {
	r.t.Helper()
	out := make(map[string]string)
	for _, query := range []string{
		`{__name__=~"tare_.*"}`,
		`sum(tare_queries_total)`,
		`sum by (digest) (rate(tare_queries_total[2m]))`,
		`sum by (digest) (increase(tare_query_errors_total[3m]))`,
		`histogram_quantile(0.9, sum by (digest) (rate(tare_query_duration_seconds[2m])))`,
		`histogram_count(sum(tare_query_duration_seconds))`,
		`sum(resets(tare_queries_total[5m]))`,
		`count by (__name__) (last_over_time({__name__=~"tare_.*"}[10s]))`,
	} {
		q, err := r.engine.NewRangeQuery(r.t.Context(), of, nil, query, from, r.now, 7*time.Second)
		r.must(err)
		m, err := q.Exec(r.t.Context()).Matrix()
		r.must(err)
		out[query] = matrixText(m)
		q.Close()
	}
	return out
}

// matrixText is the text of a matrix without the hints of histograms, which say where a chunk starts.
func matrixText(m promql.Matrix) string {
	var b strings.Builder
	for _, s := range m {
		fmt.Fprintf(&b, "%s\n", s.Metric)
		for _, p := range s.Floats {
			fmt.Fprintf(&b, "%d %x\n", p.T, p.F)
		}
		for _, p := range s.Histograms {
			fmt.Fprintf(&b, "%d %s\n", p.T, p.H)
		}
	}
	return b.String()
}

// TestRemoteWriteRandom lets statements run while the receiver fails, the gateway is restarted and killed, and the two
// cannot reach each other for up to 50 minutes. At the end PromQL has the same results on both sides.
func TestRemoteWriteRandom(t *testing.T) {
	for _, test := range []struct {
		version remotewrite.Version
		bytes   int // 0: the default
	}{{remotewrite.V2, 0}, {remotewrite.V2, 5000}, {remotewrite.V1, 0}, {remotewrite.V1, 3000}, {remotewrite.V1, 600}} {
		t.Run(fmt.Sprintf("%s of %d bytes", test.version, test.bytes), func(t *testing.T) {
			rnd := testseed.Rand(t)
			r := newRemoteRun(t, test.version, test.bytes)
			start := r.now
			steps := 12
			if testing.Short() || test.bytes > 0 && test.bytes < 1000 { // thousands of requests
				steps = 4
			}
			for range steps {
				r.remoteStep(rnd)
			}
			r.round(10 * time.Second)
			r.sender.CatchUp(t.Context())
			want := r.results(r.current().Samples, start)
			got := r.results(r.receiver.db, start)
			for query := range want {
				if want[query] != got[query] {
					t.Errorf("%s differs: %s", query, firstDifference(got[query], want[query]))
				}
			}
			if want[`sum(tare_queries_total)`] == "" {
				t.Error("there are no samples")
			}
			if lost := r.sender.Lost(); len(lost) > 0 {
				t.Errorf("lost: %+v", lost)
			}
		})
	}
}

// remoteStep runs statements, writes them, and sends them with whatever happens then.
func (r *remoteRun) remoteStep(rnd *rand.Rand) {
	r.t.Helper()
	for range rnd.IntN(30) {
		at := r.now.Add(time.Duration(rnd.IntN(9000)) * time.Millisecond)
		switch n := rnd.IntN(40); n {
		case 0:
			r.model.untracked(at, time.Millisecond)
		case 1:
			r.model.evict(rnd.IntN(60), at)
		default:
			r.model.call(rnd.IntN(60), at, time.Duration(rnd.IntN(1e9)), n == 2)
		}
	}
	r.round(time.Duration(10+rnd.IntN(20)) * time.Second)
	r.receiver.scrape(r.t, r.now)
	switch n := rnd.IntN(20); {
	case n < 3: // nothing is sent for a while
		for range 1 + rnd.IntN(80) {
			r.model.call(rnd.IntN(60), r.now, time.Millisecond, false)
			r.round(time.Duration(5+rnd.IntN(30)) * time.Second)
			r.receiver.scrape(r.t, r.now)
		}
		r.outage()
	case n == 3:
		r.receiver.lie = 1 + rnd.IntN(3)
	case n == 4:
		r.killed(1 + rnd.IntN(3))
	case n == 5:
		r.outage()
		r.restart()
	case n == 6:
		r.restart()
	}
	r.sender.CatchUp(r.t.Context())
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	series := ""
	for i := range w {
		if strings.HasPrefix(w[i], "{") {
			series = w[i]
		}
		if i >= len(g) || g[i] != w[i] {
			have := "nothing"
			if i < len(g) {
				have = g[i]
			}
			return fmt.Sprintf("line %d of %d and %d, %s: %s, want %s", i, len(g), len(w), series, have, w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
