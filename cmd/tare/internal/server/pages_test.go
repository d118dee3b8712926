package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// A counted gatherer counts its calls.
type counted struct {
	prometheus.Gatherer
	calls int
}

func (c *counted) Gather() ([]*dto.MetricFamily, error) {
	c.calls++
	return c.Gatherer.Gather()
}

// TestPages requests each part of the HTTP server that is common to all services.
func TestPages(t *testing.T) {
	var log buffer
	s := newService(t, &log)
	s.Listen, s.Build, s.AllowedHosts = "", Build{Commit: "abc", Go: "go9"}, []string{"tare.example.com"}
	must(t, s.OpenQueryLog())
	gatherer := &counted{Gatherer: s.Metrics}
	o := web.Options{
		Gatherer: gatherer, Weight: &web.WeightSource{Statements: func() uint64 { return 1 }, StatementName: "query"},
		Routes: []web.Route{
			web.NewRoute(access.For(access.Viewer), "GET /panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("BUG: of a page") })),
			web.NewRoute(access.For(access.Viewer), "GET /open", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.inFlight.Stats().Open) })),
		},
	}
	end, err := s.ServePages(o, memory.Owner{Name: "a", Bytes: func() int64 { return 7 }})
	must(t, err)
	defer end()
	if gatherer.calls == 0 {
		t.Error("the metrics were not collected before the base of the heap was measured")
	}
	var owners []string
	for _, b := range o.Weight.Heap() {
		owners = append(owners, b.Owner)
	}
	if got := strings.Join(owners, " "); got != "a pages query_log base" {
		t.Errorf("owners on the page of the weight: %s", got)
	}
	url := s.Web.URL(s.HTTPListener.Addr())
	get := func(path, host string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, http.NoBody)
		must(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		if path == "/debug/querylog" { // a stream
			return response.StatusCode, ""
		}
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(text)
	}
	for _, c := range []struct {
		path, host string
		code       int
		text       string
	}{
		{"/", "", 200, "tare test"},
		{"/", "tare.example.com", 200, "tare test"},
		{"/", "other.example.com", 403, ""},
		{"/api/v1/status/buildinfo", "", 200, `"revision":"abc"`},
		{"/debug/querylog", "", 200, ""},
		{"/panic", "", 500, ""},
		{"/metrics", "", 200, `tare_http_login_failures_total{reason="wrong"} 0`},
		{"/metrics", "", 200, `tare_listener_limit{of="http_connections"} 100`},
		{"/metrics", "", 200, `tare_listener_limit{of="http_requests"} 100`},
		{"/open", "", 200, "1"},
		{"/metrics", "", 200, `tare_heap_bytes{owner="a"} 7`},
	} {
		if code, text := get(c.path, c.host); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s of %q: %d, want %d, %q in %s", c.path, c.host, code, c.code, c.text, text)
		}
	}
	if n := testutil.CollectAndCount(s.Panics); n == 0 || !strings.Contains(log.String(), "BUG: of a page") {
		t.Errorf("a panic is not reported: %d, %s", n, log.String())
	}
}

// TestPagesWithAccounts refuses requests without an account of the file.
func TestPagesWithAccounts(t *testing.T) {
	s := newService(t, io.Discard)
	s.Listen, s.AccountsFile = "", filepath.Join(t.TempDir(), "accounts")
	must(t, os.WriteFile(s.AccountsFile, []byte("x: {role: viewer, token_sha256: "+strings.Repeat("ab", 32)+"}\n"), 0o600))
	end, err := s.ServePages(web.Options{})
	must(t, err)
	defer end()
	response, err := http.Get(s.Web.URL(s.HTTPListener.Addr()) + "/")
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request without an account: %d", response.StatusCode)
	}
}

// TestWebConfigFails serves with a web configuration that has become invalid.
func TestWebConfigFails(t *testing.T) {
	s := newService(t, io.Discard)
	s.WebConfigFile = filepath.Join(t.TempDir(), "none")
	if err := s.OpenWeb(web.Options{}); err == nil || s.Web != nil {
		t.Errorf("%v", err)
	}
}

// TestConnectionsOfOptions has a limit of the protocol's connections if the options do.
func TestConnectionsOfOptions(t *testing.T) {
	for most, want := range map[int]string{0: "http_connections http_requests", 1: "grpc_connections http_connections http_requests"} {
		s := newService(t, io.Discard)
		s.MaxConnections = most
		before := len(s.Metrics.Collectors())
		must(t, s.listen())
		var limits []string
		families, err := s.Metrics.Gather()
		must(t, err)
		for _, f := range families {
			if f.GetName() != "tare_listener_limit" {
				continue
			}
			for _, m := range f.GetMetric() {
				limits = append(limits, m.GetLabel()[0].GetValue())
			}
		}
		if slices.Sort(limits); strings.Join(limits, " ") != want || len(s.Metrics.Collectors()) != before+1 {
			t.Errorf("at most %d connections: limits of %v, want %s", most, limits, want)
		}
		must(t, s.close())
	}
}

// TestQueryLogOptions completes the options of the query log.
func TestQueryLogOptions(t *testing.T) {
	for _, path := range []string{"", "x"} {
		s := newService(t, io.Discard)
		c := &s.Options.Server.Log
		c.Options.OriginalText, c.Redact, c.MoreRows, c.OneIn, c.PerDigest = true, querylog.RedactLiterals, 3, 4, 5
		c.Sink = querylog.SinkOptions{Path: path, QueueBytes: 9}
		o := s.queryLogOptions()
		got := fmt.Sprint(o.OriginalText, o.RingRedaction, o.Sampling.MoreRowsThan, o.Sampling.OneIn, o.Sampling.PerDigest, o.Slog == s.Log, len(o.Sinks))
		if want := fmt.Sprint(true, querylog.RedactLiterals, 3, 4, 5, true, len(path)); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
		if path != "" && (o.Sinks[0].Path != path || o.Sinks[0].Redaction != querylog.RedactLiterals || o.Sinks[0].QueueBytes != 9) {
			t.Errorf("%+v", o.Sinks[0])
		}
		if c.Sink.Redaction != 0 || len(c.Options.Sinks) != 0 {
			t.Errorf("the options have changed: %+v", c)
		}
	}
}

// TestSeqFileMissing reports a file of numbers that the previous process created and that is missing, and continues without one that can
// neither be used nor be set aside.
func TestSeqFileMissing(t *testing.T) {
	first := newService(t, io.Discard)
	must(t, first.OpenData("", true))
	must(t, first.OpenQueryLog())
	must(t, first.close())
	again := func() *service {
		s := newService(t, io.Discard)
		s.Options.Server.DataDir = first.Options.Server.DataDir
		must(t, s.OpenData("", true))
		return s
	}
	s := again()
	if losses := s.Data.Losses(); len(losses) != 0 {
		t.Errorf("losses %+v", losses)
	}
	file := s.Data.File("querylog.seq")
	must(t, s.close())
	must(t, os.Remove(file))
	s = again()
	if losses := s.Data.Losses(); len(losses) != 1 || losses[0].Piece != seqPiece {
		t.Errorf("losses of a missing file: %+v", losses)
	}
	if got := s.seqFile(); got != file {
		t.Errorf("the file is %q", got)
	}
	must(t, os.RemoveAll(s.Data.Path))
	must(t, os.WriteFile(s.Data.Path, nil, 0o600)) // a file in place of the directory
	if got := s.seqFile(); got != "" {
		t.Errorf("a damaged file is used: %q", got)
	}
	must(t, s.close())
}

// TestDataDirOfEnvironment opens the directory of the environment, and none.
func TestDataDirOfEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", dir)
	s := testServer(io.Discard)
	must(t, s.OpenData("serve", true))
	if want := filepath.Join(dir, ".local/state/tare/serve"); s.Data.Path != want {
		t.Errorf("%s, want %s", s.Data.Path, want)
	}
	must(t, s.Data.close())
	t.Setenv("HOME", "")
	var log strings.Builder
	s = testServer(&log)
	if err := s.OpenData("serve", true); err == nil || !strings.Contains(err.Error(), "name one with --data-dir") || s.Data != nil {
		t.Errorf("required without a default: %v", err)
	}
	must(t, s.OpenData("serve", false))
	if s.Data != nil || !strings.Contains(log.String(), "none of $STATE_DIRECTORY") {
		t.Errorf("%+v, %s", s.Data, &log)
	}
}

// TestParts has two parts fail: the error of the first is returned, and a part's context outlives that of Run until the drain is over.
func TestParts(t *testing.T) {
	s := newService(t, io.Discard)
	drained := make(chan error, 1)
	s.Go(func(ctx context.Context) error {
		<-ctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.calls, "drain") {
			drained <- errFails
		}
		close(drained)
		return nil
	})
	stop := s.run(t)
	must(t, stop())
	must(t, <-drained)
	if _, err := net.Dial("tcp", s.HTTPListener.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}
