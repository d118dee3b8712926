//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/vtcodec"
)

var (
	liesTable  = flag.String("storelies.table", "", "file for the table of TestStoreLies")
	liesFaults = flag.String("storelies.faults", "", "faults of TestStoreLies and TestServeLies, separated by commas, or all; default: a third of them")
)

// A lieOutcome is the outcome of a query of a store whose bucket responds wrongly.
type lieOutcome string

const (
	lieComplete lieOutcome = "complete"
	lieMarked   lieOutcome = "warning"
	lieError    lieOutcome = "error"
	lieNotReady lieOutcome = "not ready"
	lieExits    lieOutcome = "exits"
	lieHangs    lieOutcome = "no response"
	lieSilent   lieOutcome = "**incomplete**" // without a warning
)

// lieTime bounds the start of a store under wrong responses, and a query: far more than the limits of its calls.
const lieTime = 10 * time.Second

// A lyingStore is a store over a bucket behind a proxy: Tare's or Thanos'.
type lyingStore struct {
	*child
	http, grpc string
	thanos     bool
}

// A lyingBucket is an S3 server with blocks, and the chunks of a store without faults.
type lyingBucket struct {
	proxy *testbucket.Proxy
	want  string
}

func newLyingBucket(t *testing.T, dir string, seed uint64) *lyingBucket {
	t.Helper()
	server := testbucket.NewServer()
	server.PutDir(t, "tsdb/", dir)
	return &lyingBucket{proxy: testbucket.StartProxy(t, seed, server, server.Get)}
}

// start starts a store. Its calls fail early, and are repeated once.
func (b *lyingBucket) start(t *testing.T, thanos bool) *lyingStore {
	t.Helper()
	s := &lyingStore{http: freeAddr(t), grpc: freeAddr(t), thanos: thanos}
	data := t.TempDir()
	cmd := exec.Command(binary, "store", "--http", s.http, "--grpc", s.grpc, "--data-dir", data, "--bucket", plainURL(b.proxy),
		"--sync-interval", "1s", "--bucket-timeout", "1s", "--bucket-tries", "2", "--index-cache-bytes", "1MiB", "--log-file", "-")
	if thanos {
		path, err := exec.LookPath("thanos")
		if err != nil {
			t.Fatalf("%v: run e2e/run, which builds it", err)
		}
		config := fmt.Sprintf("{type: S3, prefix: tsdb, config: {bucket: %s, endpoint: %q, region: eu-test, access_key: %s, secret_key: %s, insecure: true, bucket_lookup_type: path, max_retries: 2, http_config: {response_header_timeout: 1s}}}",
			s3Bucket, b.proxy.Addr, s3Key, s3Secret)
		cmd = exec.Command(path, "store", "--http-address", s.http, "--grpc-address", s.grpc, "--data-dir", data, "--sync-block-duration", "1s",
			"--index-cache.config", "{type: IN-MEMORY, config: {max_size: 1MB, max_item_size: 512KB}}", "--objstore.config", config)
	}
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+s3Key, "AWS_SECRET_ACCESS_KEY="+s3Secret)
	s.child = startChild(t, cmd, func([]byte) {})
	return s
}

// get returns the status and the body of a response, 0 without one.
func (s *lyingStore) get(ctx context.Context, path string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, lieTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// started waits until the store is ready, has failed to sync, or has exited, for at most limit.
func (s *lyingStore) started(t *testing.T, limit time.Duration) lieOutcome {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	over := time.After(limit)
	for {
		code, body := s.get(t.Context(), "/-/ready")
		switch {
		case code == http.StatusOK:
			return ""
		case !s.thanos && strings.Contains(body, "have failed since"):
			return lieNotReady
		}
		select {
		case <-s.exited:
			return lieExits
		case <-over:
			return lieNotReady
		case <-ticker.C:
		}
	}
}

// query returns the chunks of all series as text, and whether a warning came with them.
func (s *lyingStore) query(ctx context.Context) (chunks string, warned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lieTime)
	defer cancel()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return "", false, err
	}
	defer conn.Close()
	stream, err := storepb.NewStoreClient(conn).Series(ctx, &storepb.SeriesRequest{
		MinTime: math.MinInt64 / 2, MaxTime: math.MaxInt64 / 2,
		Matchers: []*storepb.LabelMatcher{{Type: storepb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
	})
	if err != nil {
		return "", false, err
	}
	var lines []string
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			slices.Sort(lines)
			return strings.Join(slices.Compact(lines), "\n"), warned, nil
		}
		if err != nil {
			return "", warned, err
		}
		warned = warned || r.GetWarning() != ""
		for _, series := range append([]*storepb.Series{r.GetSeries()}, r.GetBatch().GetSeries()...) {
			for _, c := range series.GetChunks() {
				lines = append(lines, fmt.Sprintf("%v %d %d %x", series.GetLabels(), c.GetMinTime(), c.GetMaxTime(), c.GetRaw().GetData()))
			}
		}
	}
}

// judge queries the store.
func (b *lyingBucket) judge(t *testing.T, s *lyingStore) lieOutcome {
	t.Helper()
	got, warned, err := s.query(t.Context())
	switch {
	case errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "DeadlineExceeded"):
		return lieHangs
	case err != nil:
		return lieError
	case warned:
		return lieMarked
	case got == b.want:
		return lieComplete
	}
	return lieSilent
}

// try starts a store while all its requests have a fault, and then has the fault in all requests of a store that has
// synced. It returns what the query returned: of the first store, of the second at once, and of it after its next sync.
func (b *lyingBucket) try(t *testing.T, fault testbucket.Fault, thanos bool) (outcomes [3]lieOutcome) {
	t.Helper()
	rules := testbucket.Rules{Kinds: []testbucket.Fault{fault}, Rate: 1}
	b.proxy.Break(rules)
	s := b.start(t, thanos)
	if outcomes[0] = s.started(t, lieTime); outcomes[0] == "" {
		outcomes[0] = b.judge(t, s)
	}
	b.proxy.Heal()
	s.end(syscall.SIGKILL)

	s = b.start(t, thanos)
	defer s.end(syscall.SIGKILL)
	if o := s.started(t, testwait.Limit); o != "" {
		t.Fatalf("without a fault a store is %s:\n%s", o, s.text())
	}
	var lists, listsBefore int
	var mu sync.Mutex
	b.proxy.Watch(func(r *http.Request) {
		if r.URL.Query().Get("list-type") != "" {
			mu.Lock()
			lists++
			mu.Unlock()
		}
	})
	b.proxy.Break(rules)
	outcomes[1] = b.judge(t, s)
	mu.Lock()
	listsBefore = lists
	mu.Unlock()
	// Two more syncs have begun, so one has finished, or the time is over: a store may stop to list.
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(lieTime / 3); ; {
		mu.Lock()
		done := lists >= listsBefore+4
		mu.Unlock()
		if done {
			break
		}
		select {
		case <-ticker.C:
			continue
		case <-over:
		}
		break
	}
	outcomes[2] = b.judge(t, s)
	b.proxy.Heal()
	b.proxy.Watch(nil)
	return outcomes
}

// faultsToTry returns the wrong responses of a test.
func faultsToTry(seed uint64) []testbucket.Fault {
	all := slices.Concat(testbucket.All, testbucket.Lies)
	switch *liesFaults {
	case "all":
		return all
	case "":
		var some []testbucket.Fault
		for i := int(seed % 3); i < len(all); i += 3 {
			some = append(some, all[i])
		}
		return some
	}
	return slices.DeleteFunc(all, func(f testbucket.Fault) bool { return !slices.Contains(strings.Split(*liesFaults, ","), string(f)) })
}

// TestStoreLies runs Tare's store and Thanos' store over an S3 server that responds wrongly to every request, in each
// way of testbucket.All and testbucket.Lies: from the start, and after a sync. Tare's responses over the StoreAPI are
// complete, have a warning, or are errors. Those of Thanos are in the table that it logs.
func TestStoreLies(t *testing.T) {
	seed := testseed.New(t)
	b := newRandomBlocks(t, rand.New(rand.NewPCG(seed, 1)))
	faults := faultsToTry(seed)
	type row [2][3]lieOutcome
	rows := make([]row, len(faults))
	work := make(chan int)
	var all sync.WaitGroup
	const workers = 4 // most of the time the stores pause
	for range workers {
		bucket := newLyingBucket(t, b.dir, seed)
		s := bucket.start(t, false)
		if o := s.started(t, testwait.Limit); o != "" {
			t.Fatal(o, s.text())
		}
		var err error
		if bucket.want, _, err = s.query(t.Context()); err != nil || bucket.want == "" {
			t.Fatal(len(bucket.want), err)
		}
		s.end(syscall.SIGKILL)
		all.Go(func() {
			for n := range work {
				t.Run(string(faults[n]), func(t *testing.T) {
					for i, thanos := range []bool{false, true} {
						rows[n][i] = bucket.try(t, faults[n], thanos)
					}
					for i, o := range rows[n][0] {
						// A well-formed listing of the bucket cannot be doubted before another has been seen.
						known := i > 0 || faults[n] != testbucket.Lacks && faults[n] != testbucket.Flip
						// A bucket that does not exist ends the command with an error.
						exits := i == 0 && o == lieExits && (faults[n] == testbucket.NoBucket || faults[n] == testbucket.NoPage)
						if known && !exits && o != lieComplete && o != lieMarked && o != lieError && o != lieNotReady {
							t.Errorf("the store's response %d: %s", i+1, o)
						}
					}
				})
			}
		})
	}
	for n := range faults {
		work <- n
	}
	close(work)
	testwait.Group(t, "the workers", &all)
	var text strings.Builder
	text.WriteString("| fault | Thanos: from the start | after a sync | after another | Tare: from the start | after a sync | after another |\n|---|---|---|---|---|---|---|\n")
	total := [2]map[lieOutcome]int{{}, {}}
	for n, f := range faults {
		fmt.Fprintf(&text, "| `%s` |", f)
		for _, i := range []int{1, 0} {
			for _, o := range rows[n][i] {
				total[i][o]++
				fmt.Fprintf(&text, " %s |", o)
			}
		}
		text.WriteByte('\n')
	}
	t.Logf("Tare: %v; Thanos: %v\n%s", total[0], total[1], text.String())
	if *liesTable != "" {
		must(t, os.WriteFile(*liesTable, []byte(text.String()), 0o644))
	}
}
