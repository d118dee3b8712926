package storegateway_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

var wholeMatrix = flag.Bool("s3-fault-matrix", false, "TestS3FaultMatrix has every wrong response to every call; otherwise one call for each")

// s3Calls are the kinds of requests that a store sends.
var s3Calls = map[string]func(*http.Request) bool{
	"list root":   func(r *http.Request) bool { return isList(r) && depth(r) == 1 },
	"list tenant": func(r *http.Request) bool { return isList(r) && depth(r) == 2 },
	"list marks": func(r *http.Request) bool {
		return isList(r) && strings.HasSuffix(r.URL.Query().Get("prefix"), "markers/")
	},
	"list block":    func(r *http.Request) bool { return isList(r) && depth(r) > 2 },
	"get meta.json": getOf("meta.json"),
	"get mark":      getOf("deletion-mark.json"),
	"get list":      getOf("bucket-index.json.gz"),
	"head":          func(r *http.Request) bool { return r.Method == http.MethodHead },
	"read index":    getOf("index"),
	"read chunks": func(r *http.Request) bool {
		return r.Method == http.MethodGet && path.Base(path.Dir(testbucket.Key(r.URL))) == "chunks"
	},
}

func depth(r *http.Request) int { return strings.Count(r.URL.Query().Get("prefix"), "/") }

func getOf(base string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && path.Base(testbucket.Key(r.URL)) == base
	}
}

// A matrixStore is a bucket of one layout behind a proxy, and the response of its whole content.
type matrixStore struct {
	layout  blocksync.Layout
	proxy   *testbucket.Proxy
	options storegateway.Options
	faulty  testpromql.Faulty
	target  string // of the query
	want    testpromql.Response

	mu       sync.Mutex
	requests map[string][]*http.Request // some of each kind
}

// record keeps a request if there is none of its kind, method, and parameters yet.
func (s *matrixStore) record(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for call, is := range s3Calls {
		same := func(o *http.Request) bool {
			return o.Method == r.Method && (o.Header.Get("Range") == "") == (r.Header.Get("Range") == "") &&
				o.URL.Query().Has("continuation-token") == r.URL.Query().Has("continuation-token")
		}
		if is(r) && !slices.ContainsFunc(s.requests[call], same) {
			s.requests[call] = append(s.requests[call], r)
		}
	}
}

// has reports whether a fault applies to a request of a kind that the store has sent.
func (s *matrixStore) has(fault testbucket.Fault, call string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.requests[call], fault.Fits)
}

// newMatrixStore uploads the blocks of dir in a layout.
func newMatrixStore(t *testing.T, layout blocksync.Layout, dir string, blocks []string, at int64, seed uint64) *matrixStore {
	t.Helper()
	server := testbucket.NewServer()
	s := &matrixStore{layout: layout, requests: make(map[string][]*http.Request), faulty: testpromql.Faulty{Bucket: "metrics", Blocks: blocks, Damaged: true}}
	prefix := "tsdb/"
	if layout == blocksync.LayoutPrometheus {
		s.faulty.Blocks = append(slices.Clone(blocks), "block markers") // a directory that may be a misnamed block
	}
	if layout == blocksync.LayoutMimir {
		prefix = "tsdb/anonymous/"
	}
	server.PutDir(t, prefix, dir)
	mark := fmt.Sprintf(`{"id":%q,"version":1,"deletion_time":%d}`, blocks[0], time.Now().Unix())
	server.Put(prefix+blocks[0]+"/deletion-mark.json", []byte(mark))
	server.Put(prefix+"markers/"+blocks[0]+"-deletion-mark.json", []byte(mark))
	s.proxy = testbucket.StartProxy(t, seed, server, server.Get)
	s.proxy.Watch(s.record)
	s.options = teststore.Options(t, s3Bucket(t, s.proxy))
	s.options.PlainBucket, s.options.Layout, s.options.CallTries = true, layout, 1
	s.target = "/api/v1/query?" + url.Values{"query": {`{__name__=~".+"}[3d]`}, "time": {strconv.FormatInt(at/1000, 10)}}.Encode()
	return s
}

// serve starts a store over the bucket.
func (s *matrixStore) serve(t *testing.T, fault testbucket.Fault, reporter *report.Reporter) (*storegateway.Gateway, string) {
	t.Helper()
	o := s.options
	if fault == testbucket.Hang || fault == testbucket.Stall {
		o.CallTimeout = time.Second // there is no response, and on a busy machine others are slow
	}
	o.DataDir, o.Cache, o.DamageHold = t.TempDir(), tsblock.NewCache(64<<10), time.Nanosecond
	g := teststore.New(t, o)
	return g, newAPI(t, g, reporter, requestLimit/2).base
}

// ask sends the query.
func (s *matrixStore) ask(ctx context.Context, base string) testpromql.Response {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+s.target, nil)
	if err != nil {
		return testpromql.Response{Err: err}
	}
	r.Header.Set("X-Scope-OrgID", "anonymous")
	return testpromql.Exchange(http.DefaultClient, r)
}

// try has a fault in all requests of one kind while the blocks are unknown, while they are known, and again without
// the fault. A store that is not ready yet responds with the cause.
func (s *matrixStore) try(t *testing.T, fault testbucket.Fault, call string, reporter *report.Reporter) (outcomes []string) {
	t.Helper()
	rules := testbucket.Rules{Kinds: []testbucket.Fault{fault}, Rate: 1, Spare: func(r *http.Request) bool { return !s3Calls[call](r) }}
	place := fmt.Sprintf("%s, %s, %s", s.layout, call, fault)
	judge := func(when string, g *storegateway.Gateway, base string) {
		got := s.ask(t.Context(), base)
		if !g.Ready() {
			if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body, "have failed since") {
				t.Errorf("%s, %s, not ready: %s", place, when, got)
			}
			outcomes = append(outcomes, "not ready")
			return
		}
		outcome, err := s.faulty.Judge(s.want, got)
		if err != nil {
			t.Errorf("%s, %s: %v; sync: %+v", place, when, err, g.Status())
		}
		outcomes = append(outcomes, string(outcome))
	}
	known, base := s.serve(t, fault, reporter)
	syncs := func() bool { return known.Sync(t.Context()) == nil } // on a busy machine a call may time out
	testwait.Until(t, "a sync", syncs)
	done := s.proxy.Done()[fault]
	s.proxy.Break(rules)
	if fault != testbucket.Flip && fault != testbucket.Lacks || !strings.HasPrefix(call, "list") { // a well-formed listing of the right bucket
		fresh, freshBase := s.serve(t, fault, reporter)
		_ = fresh.Sync(t.Context()) // may fail
		judge("unknown blocks", fresh, freshBase)
	}
	_ = known.Sync(t.Context()) // may fail
	judge("known blocks", known, base)
	if s.proxy.Done()[fault] == done {
		outcomes = nil // the layout has no such call
	}
	s.proxy.Heal()
	testwait.Until(t, place+": a sync after the fault", syncs)
	testwait.Until(t, place+": the response without the fault", func() bool { return s.ask(t.Context(), base) == s.want })
	return outcomes
}

// TestS3FaultMatrix has an S3 server respond wrongly in each way of testbucket.All and testbucket.Lies to each kind
// of request that a store sends, in each layout. Every response is the one without faults, has a warning that names
// blocks, or is an error; a store that knows no blocks yet is not ready and says why.
func TestS3FaultMatrix(t *testing.T) {
	seed := testseed.New(t)
	dir, blocks, end := matrixBlocks(t, seed)
	reporter := report.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	faults := slices.Concat(testbucket.All, testbucket.Lies)
	var calls []string
	for call := range s3Calls {
		calls = append(calls, call)
	}
	slices.Sort(calls)
	total, tried := make(map[string]int), 0
	const workers = 24 // the client pauses after failures
	var stores [workers]*matrixStore
	for w := range workers {
		layout := []blocksync.Layout{blocksync.LayoutThanos, blocksync.LayoutMimir, blocksync.LayoutPrometheus, blocksync.LayoutAuto}[w%4]
		s := newMatrixStore(t, layout, dir, blocks, end, seed)
		g, base := s.serve(t, "", reporter)
		if err := g.Sync(t.Context()); err != nil || len(g.Blocks()) != len(blocks) {
			t.Fatal(err, g.Blocks(), g.Skipped())
		}
		if s.want = s.ask(t.Context(), base); s.want.Code != http.StatusOK || !strings.Contains(s.want.Body, `"values":[`) {
			t.Fatal(s.want)
		}
		stores[w] = s
	}
	results, pairs := make(chan []string), 0
	for w, s := range stores {
		var chosen []int
		for pair := range len(faults) * len(calls) {
			if pairChosen(w, workers, pair, seed) {
				chosen = append(chosen, pair)
			}
		}
		pairs += len(chosen)
		go func() {
			for _, pair := range chosen {
				fault, call := faults[pair/len(calls)], calls[pair%len(calls)]
				var outcomes []string
				if s.has(fault, call) {
					t.Run(fmt.Sprintf("%s, %s, %s", s.layout, call, fault), func(t *testing.T) { // closes its stores
						outcomes = s.try(t, fault, call, reporter)
					})
				}
				results <- outcomes
			}
		}()
	}
	for range pairs {
		outcomes := testwait.Receive(t, "the next pair", results)
		if outcomes != nil {
			tried++
		}
		for _, o := range outcomes {
			total[o]++
		}
	}
	t.Logf("%d kinds of wrong responses, %d kinds of calls, %d pairs of a layout tried; responses: %v", len(faults), len(calls), tried, total)
	for _, o := range []string{"not ready", string(testpromql.Equal), string(testpromql.Failed)} {
		if total[o] == 0 {
			t.Errorf("no response was %s: %v", o, total)
		}
	}
}

// pairChosen reports whether a worker tries the pair of a fault and a kind of request. There are four layouts: of the whole matrix
// a worker of each tries the pair.
func pairChosen(worker, workers, pair int, seed uint64) bool {
	if *wholeMatrix {
		return pair%(workers/4) == worker/4
	}
	step := 5
	if testing.Short() {
		step = 10
	}
	return (pair+int(seed%7))%(workers*step) == worker
}

// matrixBlocks writes three blocks and returns the end of their samples.
func matrixBlocks(t *testing.T, seed uint64) (dir string, blocks []string, end int64) {
	t.Helper()
	dir = t.TempDir()
	o := testblock.RandomOptions{Series: 20, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	series := testblock.Random(rand.New(rand.NewPCG(seed, 4)), o)
	end = o.Start + int64(o.Samples)*o.Step
	third := (end - o.Start) / 3
	for n := range int64(3) {
		from := o.Start + n*third
		id, err := testblock.Write(dir, testblock.Between(series, from, from+third), testblock.Options{
			External: map[string]string{"region": "eu"}, ChunkRange: o.ChunkRange(),
		})
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, id.String())
	}
	return dir, blocks, end
}
