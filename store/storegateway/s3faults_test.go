package storegateway_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/bucketurl"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

var faultRequests = flag.Int("s3-fault-requests", 8, "random requests of TestS3Faults for each kind of fault")

// An s3Twin is a gateway that reads blocks through an S3 client and a proxy with faults, and one that reads the same
// blocks from a directory.
type s3Twin struct {
	proxy   *testbucket.Proxy
	server  *testbucket.Server
	gateway *faultGateway
	faulty  testpromql.Faulty
	all     []labels.Labels
	o       testblock.RandomOptions
	dir     string

	bucket   objstore.Bucket
	data     string // local files of the tested gateway
	reporter *report.Reporter

	healthy, tested api
}

// An api is a gateway's two APIs.
type api struct {
	base   string
	series storepb.StoreClient
}

func newAPI(t *testing.T, g *storegateway.Gateway, reporter *report.Reporter, timeout time.Duration) api {
	t.Helper()
	h, err := storegateway.NewHTTPAPI(g, storegateway.HTTPOptions{Log: slog.New(slog.DiscardHandler), Panics: reporter, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return api{server.URL, storepb.NewStoreClient(teststore.Dial(t, storeapi.New(g, storeapi.Options{Panics: reporter, Timeout: timeout}).NewServer()))}
}

// s3Bucket opens the bucket behind a proxy. Its client does not retry, since the gateway does.
func s3Bucket(t *testing.T, proxy *testbucket.Proxy) objstore.Bucket {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	config := filepath.Join(t.TempDir(), "bucket.yaml")
	write(t, config, "type: S3\nconfig:\n  max_retries: 1\n")
	u, err := bucketurl.Parse("s3://metrics/tsdb?region=eu-test&path_style=true&insecure=true&endpoint=" + proxy.Addr + "&config_file=" + config)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

func newS3Twin(t *testing.T, seed uint64) *s3Twin {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	w := &s3Twin{dir: t.TempDir(), server: testbucket.NewServer()}
	w.o = testblock.RandomOptions{Series: 60, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(r, w.o)
	end := w.o.Start + int64(w.o.Samples)*w.o.Step
	third := (end - w.o.Start) / 3
	for n := range int64(3) {
		from := w.o.Start + n*third
		id, err := testblock.Write(w.dir, testblock.Between(series, from, from+third+n*third/4), testblock.Options{
			External: map[string]string{"region": "eu"}, ChunkRange: w.o.ChunkRange(), SegmentBytes: 64 << 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.faulty.Blocks = append(w.faulty.Blocks, id.String())
	}
	for _, s := range series {
		w.all = append(w.all, s.Labels)
	}
	w.server.PutDir(t, "tsdb/", w.dir)
	w.proxy = testbucket.StartProxy(t, seed, w.server, w.server.Get)
	w.faulty.Bucket = "metrics"

	reporter := report.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	w.healthy = newAPI(t, teststore.Open(t, w.dir, func(o *storegateway.Options) { o.Layout = blocksync.LayoutThanos }), reporter, time.Minute)
	w.reporter, w.bucket, w.data = reporter, s3Bucket(t, w.proxy), t.TempDir()
	w.start(t)
	t.Cleanup(func() {
		registry := prometheus.NewRegistry()
		registry.MustRegister(reporter)
		for name, n := range gathered(t, registry) {
			if n != 0 {
				t.Errorf("%s is %v", name, n)
			}
		}
	})
	return w
}

// start starts the tested gateway, with the local files of the previous one.
func (w *s3Twin) start(t *testing.T) {
	t.Helper()
	o := teststore.Options(t, w.bucket)
	o.PlainBucket, o.DataDir, o.DamageHold = true, w.data, time.Nanosecond
	o.Layout, o.CallTimeout, o.CallTries, o.CallHedge, o.Cache = blocksync.LayoutThanos, 150*time.Millisecond, 2, 40*time.Millisecond, tsblock.NewCache(64<<10)
	w.gateway = &faultGateway{teststore.New(t, o), o}
	testwait.Until(t, "a sync that goes through", func() bool { return w.gateway.Sync(t.Context()) == nil })
	w.tested = newAPI(t, w.gateway.Gateway, w.reporter, requestLimit/2)
}

// A seriesProbe is a request of the StoreAPI.
type seriesProbe struct{ request *storepb.SeriesRequest }

func (p seriesProbe) String() string { return "StoreAPI " + p.request.String() }

// do returns the response in HTTP's form.
func (p seriesProbe) do(ctx context.Context, a api) testpromql.Response {
	responses, _, err := teststore.Receive(a.series.Series(ctx, p.request))
	var b strings.Builder
	var warnings []byte
	for _, r := range responses {
		if w := r.GetWarning(); w != "" {
			warnings = append(warnings, w...)
			continue
		}
		for _, s := range seriesIn(r) {
			fmt.Fprintf(&b, "%v %x\n", s.GetLabels(), s.GetChunks())
		}
	}
	return asHTTP(b.String(), string(warnings), err)
}

// asHTTP converts a response of the StoreAPI to HTTP's form.
func asHTTP(body, warnings string, err error) testpromql.Response {
	switch code := status.Code(err); {
	case err == nil:
		return testpromql.Response{Code: http.StatusOK, Body: body, Warnings: warnings}
	case code == codes.Unavailable || code == codes.DeadlineExceeded:
		return testpromql.Response{Code: http.StatusServiceUnavailable, Body: err.Error()}
	case code == codes.DataLoss || code == codes.Internal:
		return testpromql.Response{Code: http.StatusInternalServerError, Body: err.Error()}
	}
	return testpromql.Response{Err: err}
}

// seriesIn returns the series of a message, which may have several.
func seriesIn(r *storepb.SeriesResponse) []*storepb.Series {
	if s := r.GetSeries(); s != nil {
		return []*storepb.Series{s}
	}
	return r.GetBatch().GetSeries()
}

// probe returns a random request of any kind.
func (w *s3Twin) probe(r *rand.Rand, g *testpromql.Generator) (name string, do func(context.Context, api) testpromql.Response) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	switch r.IntN(6) {
	case 0:
		from := g.Time()
		p := seriesProbe{&storepb.SeriesRequest{
			MinTime: from, MaxTime: from + r.Int64N(int64(w.o.Samples)*w.o.Step), SkipChunks: r.IntN(4) == 0,
			Matchers: []*storepb.LabelMatcher{teststore.Regexp("__name__", fmt.Sprintf("metric_[0-%d]", r.IntN(7)))},
		}}
		return p.String(), p.do
	case 1:
		p := g.Read()
		return p.String(), func(ctx context.Context, a api) testpromql.Response { return p.Do(ctx, client, a.base) }
	}
	p := g.Request()
	return p.String(), func(ctx context.Context, a api) testpromql.Response { return p.Do(ctx, client, a.base) }
}

// requestLimit bounds the time of a request, regardless of the number of faults. It is above the request's
// time-out, which is not reached since bucket calls have their own.
const requestLimit = time.Minute

// compare sends a request to both gateways and compares the response of the tested one.
func (w *s3Twin) compare(ctx context.Context, f testpromql.Faulty, do func(context.Context, api) testpromql.Response) (testpromql.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	want := do(ctx, w.healthy)
	got := do(ctx, w.tested)
	f.Damaged = f.Damaged || f.Over // a load that started under faults may be shared
	outcome, err := f.Judge(want, got)
	for f.Over && outcome == testpromql.Failed && ctx.Err() == nil { // on a busy machine a bucket call may time out
		got = do(ctx, w.tested)
		outcome, err = f.Judge(want, got)
	}
	for range unstableTries { // results may depend on map order in the engine
		if err == nil || want.Code != http.StatusOK || ctx.Err() != nil {
			break
		}
		if again := do(ctx, w.healthy); again != want && ctx.Err() == nil {
			return testpromql.Equal, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("%w\nwithout faults: %s", err, want)
	}
	return outcome, err
}

// run sends n random requests from several clients, with syncs in between, and damages local files.
func (w *s3Twin) run(t *testing.T, seed uint64, n int, f testpromql.Faulty) map[testpromql.Outcome]int {
	t.Helper()
	const clients = 4
	outcomes := make(map[testpromql.Outcome]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range uint64(clients) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, c))
			g := testpromql.New(r, w.all, w.o.Start, w.o.Start+int64(w.o.Samples)*w.o.Step)
			for range max(n/clients, 1) {
				switch k := r.IntN(6); {
				case k < 3:
					_ = w.gateway.Sync(t.Context()) // may fail: the blocks are still served
				case k == 3:
					w.gateway.UnloadIdle()
				case k == 4 && f.Damaged:
					w.damageLocal(r)
				}
				name, do := w.probe(r, g)
				outcome, err := w.compare(t.Context(), f, do)
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	testwait.Group(t, "the clients", &wg)
	return outcomes
}

// damageLocal truncates, changes or removes a local file of a block.
func (w *s3Twin) damageLocal(r *rand.Rand) {
	names, _ := filepath.Glob(filepath.Join(w.gateway.options.DataDir, "*", "*")) // the pattern is well-formed
	if len(names) == 0 {
		return
	}
	name := names[r.IntN(len(names))]
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return // removed concurrently
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	at := r.Int64N(info.Size())
	switch r.IntN(3) {
	case 0:
		_ = os.Remove(name) // may be removed already
	case 1:
		_ = f.Truncate(at) // a failure damages nothing
	case 2:
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err == nil {
			b[0] ^= 1 << r.IntN(8)
			_, _ = f.WriteAt(b[:], at) // a failure damages nothing
		}
	}
}

// recovered waits until the gateway serves all blocks after the faults have stopped.
func (w *s3Twin) recovered(t *testing.T) {
	t.Helper()
	testwait.UntilState(t, "all blocks to be served again", func() (string, bool) {
		err := w.gateway.Sync(t.Context())
		return fmt.Sprint(err, w.gateway.Skipped()), err == nil && len(w.gateway.Blocks()) == len(w.faulty.Blocks) && len(w.gateway.Skipped()) == 0
	})
}

// isList reports whether a request lists the bucket.
func isList(r *http.Request) bool { return testbucket.Key(r.URL) == "" }

// TestS3Faults lets the S3 server refuse, stall, cut, damage and lie, separately and combined. Every response
// equals the one without faults, has warnings that name blocks, or is an error that names block and bucket;
// no request hangs or panics. When the faults stop, all responses are correct again without a restart.
func TestS3Faults(t *testing.T) {
	seed := testseed.New(t)
	w := newS3Twin(t, seed)
	rounds := []testbucket.Rules{{Kinds: testbucket.All, Rate: 0.15}, {Kinds: testbucket.All, Rate: 0.6}, {Kinds: testbucket.All, Rate: 0.3, Spare: isList}}
	for _, kind := range testbucket.All {
		rounds = append(rounds, testbucket.Rules{Kinds: []testbucket.Fault{kind}, Rate: 0.7})
	}
	total := make(map[testpromql.Outcome]int)
	for n, rules := range rounds {
		w.proxy.Break(rules)
		if rules.Spare != nil { // after a restart, blocks missing from every listing are unknown
			w.start(t)
		}
		f := w.faulty
		f.Damaged = slices.Contains(rules.Kinds, testbucket.Flip) || slices.Contains(rules.Kinds, testbucket.Short)
		for try := range uint64(50) {
			for outcome, k := range w.run(t, seed+uint64(n)+1000*try, *faultRequests, f) {
				total[outcome] += k
			}
			if len(rules.Kinds) > 1 || w.proxy.Done()[rules.Kinds[0]] > 0 {
				break // else no request of the kind that the fault applies to was made
			}
		}
		w.proxy.Heal()
		w.recovered(t)
		f.Over, f.Damaged = true, false
		if got := w.run(t, seed+uint64(100+n), *faultRequests/2, f); got[testpromql.Failed]+got[testpromql.Warned] > 0 {
			t.Errorf("after %v: %v, want no errors and no warnings", rules.Kinds, got)
		}
		if t.Failed() {
			t.Fatalf("in round %d: %v", n, rules.Kinds)
		}
	}
	testwait.Until(t, "the queries to release all", func() bool { return w.gateway.check() == nil })
	done := w.proxy.Done()
	t.Logf("faults: %v; responses: %v", done, total)
	for _, kind := range testbucket.All {
		if done[kind] == 0 {
			t.Errorf("no request had the fault %s: %v", kind, slices.Sorted(maps.Keys(done)))
		}
	}
	if total[testpromql.Equal] == 0 || total[testpromql.Failed] == 0 {
		t.Errorf("responses: %v", total)
	}
}
