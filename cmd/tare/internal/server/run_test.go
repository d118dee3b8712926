package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// A service records the calls of its life, one of which fails.
type service struct {
	*Server
	fails string // the call that fails
	left  int    // of Drain
	web   bool   // OpenWeb is called with owners

	mu    sync.Mutex
	calls []string
	ready chan struct{} // closed once it has announced
}

var errFails = errors.New("it fails")

func (s *service) call(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	if s.fails == name {
		return errFails
	}
	return nil
}

func (s *service) Check() error { return s.call("check") }

func (s *service) Open(context.Context) error {
	if err := s.call("open"); err != nil {
		return err
	}
	if err := s.OpenQueryLog(); err != nil {
		return err
	}
	s.Go(func(ctx context.Context) error {
		if err := s.call("part"); err != nil {
			return err
		}
		<-ctx.Done()
		return s.call("part ends")
	})
	if s.web {
		return s.OpenWeb(web.Options{}, memory.Owner{Name: "a", Bytes: func() int64 { return 7 }})
	}
	return s.OpenWeb(web.Options{})
}

func (s *service) Announce() string {
	_ = s.call("announce")
	close(s.ready)
	return "serves"
}

func (s *service) Drain(ctx context.Context) int {
	_ = s.call("drain")
	if s.left > 0 {
		<-ctx.Done()
	}
	return s.left
}

func (s *service) Close() error { return s.call("close") }

// newService returns a service that listens for its protocol and for HTTP.
func newService(t *testing.T, log io.Writer) *service {
	return &service{ready: make(chan struct{}), Server: New(Options{
		Name: "test", Purpose: "clients (--listen)", Listen: "127.0.0.1:0", MaxConnections: 64, Unit: "queries", Alive: func() {}, Log: slog.New(slog.NewTextHandler(log, nil)),
		Server: config.Server{
			HTTPAccess: config.HTTPAccess{HTTP: "127.0.0.1:0", HTTPConns: 100}, DataDir: t.TempDir(), DrainTimeout: time.Second,
			Log: config.QueryLog{Sink: querylog.SinkOptions{Path: filepath.Join(t.TempDir(), "log")}},
		},
	})}
}

// A buffer is a log that goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run starts a service and returns a function that stops it and returns its result.
func (s *service) run(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, s) }()
	select {
	case <-s.ready:
	case err := <-ended:
		ended <- err
	}
	return func() error {
		cancel()
		return testwait.Receive(t, "the service to end", ended)
	}
}

// TestRun has each call of a service's life fail: Run closes the opened parts in order and returns the error.
func TestRun(t *testing.T) {
	for fails, want := range map[string]string{
		"":          "check open announce part drain part ends close",
		"check":     "check",
		"open":      "check open close",
		"part":      "check open announce part drain close",
		"part ends": "check open announce part drain part ends close",
		"close":     "check open announce part drain part ends close",
	} {
		s := newService(t, io.Discard)
		s.fails = fails
		stop := s.run(t)
		if fails != "check" && fails != "open" {
			testwait.Until(t, "the part", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return slices.Contains(s.calls, "part")
			})
		}
		if fails == "part" {
			testwait.Until(t, "the end of the service, whose part has failed", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return slices.Contains(s.calls, "close")
			})
		}
		err := stop()
		if errors.Is(err, errFails) != (fails != "") || fails == "" && err != nil {
			t.Errorf("%q fails: %v", fails, err)
		}
		if got := strings.Join(s.calls, " "); got != want {
			t.Errorf("%q fails: %s, want %s", fails, got, want)
		}
		for _, l := range []net.Listener{s.Listener, s.HTTPListener} {
			if l != nil {
				if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("%q fails: a listener is open: %v", fails, err)
				}
			}
		}
		if (s.Listener == nil) != (fails == "check") {
			t.Errorf("%q fails: it listens at %v", fails, s.Listener)
		}
	}
}

// TestServes has a running service serve pages and its protocol, take signals, notify its manager, and drain.
func TestServes(t *testing.T) {
	for _, drainHTTP := range []bool{false, true} {
		m := newManager(t, filepath.Join(t.TempDir(), "notify"))
		t.Setenv("NOTIFY_SOCKET", m.name)
		var log buffer
		s := newService(t, &log)
		s.DrainHTTP, s.left, s.web, s.DrainTimeout = drainHTTP, 3, true, 10*time.Millisecond
		reloaded := make(chan struct{}, 1)
		s.Reload = func() { reloaded <- struct{}{} }
		must(t, s.OpenData("", true))
		stop := s.run(t)
		if got := m.hear(t); got != "READY=1\nSTATUS=serves" {
			t.Errorf("ready: %q", got)
		}
		metrics := body(t, s.Web.URL(s.HTTPListener.Addr())+"/metrics")
		for _, want := range []string{
			`tare_heap_bytes{owner="a"} 7`, `tare_heap_bytes{owner="pages"}`, `tare_heap_bytes{owner="query_log"}`, `tare_heap_bytes{owner="base"}`, "tare_querylog_seq ", "tare_querylog_held_records 0",
			"tare_querylog_unaccounted_records_total 0", "tare_querylog_readers 0", `tare_querylog_records_total{outcome="offered",sink="` + s.Options.Server.Log.Sink.Path, `outcome="written"`, `outcome="dropped"`,
			"tare_querylog_bytes_total{", "tare_querylog_queued_bytes{", "go_build_info{", "process_open_fds ", "go_sched_gomaxprocs",
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("/metrics has no %s", want)
			}
		}
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		must(t, c.Close())
		must(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		testwait.Receive(t, "the reload", reloaded)
		if got := m.hear(t); !strings.HasPrefix(got, "RELOADING=1") {
			t.Errorf("reload: %q", got)
		}
		if got := m.hear(t); got != "READY=1" {
			t.Errorf("reloaded: %q", got)
		}
		must(t, os.Rename(s.Options.Server.Log.Sink.Path, s.Options.Server.Log.Sink.Path+".1"))
		must(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
		testwait.Until(t, "the new log", func() bool { return strings.Contains(log.String(), "query log reopened") })
		if _, err := os.Stat(s.Options.Server.Log.Sink.Path); err != nil {
			t.Error(err)
		}
		err = stop()
		if drain, ok := errors.AsType[*DrainError](err); !ok || drain.Error() != "3 queries did not finish within --drain-timeout 10ms and were ended" || fmt.Sprint(err) != drain.Error() {
			t.Errorf("drain: %v", err)
		}
		if got := m.hear(t); got != "STOPPING=1\nSTATUS=draining" {
			t.Errorf("stop: %q", got)
		}
		again := newService(t, io.Discard)
		again.Options.Server.DataDir = s.Options.Server.DataDir
		must(t, again.OpenData("", true)) // it is not in use any more
		must(t, again.Data.close())
	}
}

func body(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return string(text)
}

// TestReopenFails reopens a log whose directory was removed.
func TestReopenFails(t *testing.T) {
	var log buffer
	s := newService(t, &log)
	dir := filepath.Dir(s.Options.Server.Log.Sink.Path)
	must(t, s.OpenQueryLog())
	must(t, os.RemoveAll(dir))
	s.reopenLog()
	if text := log.String(); !strings.Contains(text, "query log not reopened; continuing in the old file") || strings.Contains(text, "query log reopened") {
		t.Error(text)
	}
	must(t, s.close())
}

// TestOpenFails opens services whose options or parts cannot be opened: nothing stays open.
func TestOpenFails(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer used.Close()
	inUse := config.Address(used.Addr().String())
	for want, change := range map[string]func(*service){
		"listen for clients (--listen): ": func(s *service) { s.Listen = inUse },
		"listen for HTTP (--http): ":      func(s *service) { s.HTTP = inUse },
		"listen for other (--x): ":        func(s *service) { s.Listen, s.Purpose = "127.0.0.1:none", "other (--x)" },
		"query log: ": func(s *service) {
			s.Options.Server.Log.Options.OriginalText, s.Options.Server.Log.Sink.Path = true, filepath.Join(t.TempDir(), "no", "dir", "x")
		},
		"no such file or directory": func(s *service) { s.WebConfigFile = filepath.Join(t.TempDir(), "none") },
		"none.accounts":             func(s *service) { s.AccountsFile = filepath.Join(t.TempDir(), "none.accounts") },
		"it fails":                  func(s *service) { s.fails = "open" },
	} {
		s := newService(t, io.Discard)
		change(s)
		if err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		for _, l := range []net.Listener{s.Listener, s.HTTPListener} {
			if l != nil {
				if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s: a listener is open: %v", want, err)
				}
			}
		}
	}
}

// TestNoHTTP runs a service without HTTP and without a protocol.
func TestNoHTTP(t *testing.T) {
	var log buffer
	s := newService(t, &log)
	s.HTTP, s.Listen, s.WebConfigFile = "", "", "none"
	stop := s.run(t)
	if s.Web != nil || s.HTTPListener != nil || s.Listener != nil || s.HTTPFiles() != 0 {
		t.Errorf("it serves %v, %v", s.HTTPListener, s.Listener)
	}
	must(t, stop())
	end, err := s.ServePages(web.Options{})
	must(t, err)
	end()
}

// TestServePages serves pages beside other work.
func TestServePages(t *testing.T) {
	var log buffer
	s := newService(t, &log)
	s.Listen = ""
	end, err := s.ServePages(web.Options{})
	must(t, err)
	url := s.Web.URL(s.HTTPListener.Addr())
	if text := body(t, url+"/metrics"); !strings.Contains(text, "go_build_info") || strings.Contains(text, "tare_heap_bytes") {
		t.Error(text)
	}
	end()
	if _, err := s.HTTPListener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is still served: %v", err)
	}
	if text := log.String(); !strings.Contains(text, "metrics are served") || !strings.Contains(text, url) || strings.Contains(text, "no longer") {
		t.Error(text)
	}
	used := newService(t, &log)
	used.Listen, used.HTTP = "", "127.0.0.1:none"
	if _, err := used.ServePages(web.Options{}); err == nil || !strings.Contains(err.Error(), "listen for HTTP") {
		t.Error(err)
	}
	broken := newService(t, &log)
	broken.Listen, broken.AccountsFile = "", "none.accounts"
	if end, err := broken.ServePages(web.Options{}); err == nil || !strings.Contains(err.Error(), "none.accounts") {
		t.Error(err)
	} else if _, acceptErr := broken.HTTPListener.Accept(); !errors.Is(acceptErr, net.ErrClosed) {
		t.Errorf("it listens: %v", acceptErr)
	} else {
		end()
	}
	closed := newService(t, &log)
	closed.Listen = ""
	if end, err = closed.ServePages(web.Options{}); err != nil {
		t.Fatal(err)
	}
	must(t, closed.HTTPListener.Close())
	testwait.Until(t, "the report", func() bool { return strings.Contains(log.String(), "metrics are no longer served") })
	end()
}

// TestConnections bounds connections by the options and by the open files.
func TestConnections(t *testing.T) {
	most := connlimit.OpenFiles() / 8
	for n, want := range map[int]int{0: 2, 1: 2, 2: 2, 3: 3, most - 1: most - 1, most: most, most + 1: most, 1 << 30: most} {
		if got := share(n); got != want {
			t.Errorf("%d of %d open files: %d, want %d", n, connlimit.OpenFiles(), got, want)
		}
		var log buffer
		s := newService(t, &log)
		s.HTTPConns = n
		must(t, s.listen())
		if s.HTTPFiles() != want || strings.Contains(log.String(), "open files limit is low") != (want < n) {
			t.Errorf("%d: %d, logged %s", n, s.HTTPFiles(), log.String())
		}
		must(t, s.close())
	}
	// A connection more than there may be is closed.
	s := newService(t, io.Discard)
	s.MaxConnections = 2
	must(t, s.listen())
	defer func() { must(t, s.close()) }()
	go func() {
		for {
			if _, err := s.Listener.Accept(); err != nil {
				return
			}
		}
	}()
	refused := false
	for range 3 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		defer c.Close()
		must(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			refused = true
		}
	}
	if !refused {
		t.Error("a third connection of two is accepted")
	}
}

// TestRegistry registers collectors once, and lists them.
func TestRegistry(t *testing.T) {
	r := EmptyRegistry()
	one := prometheus.NewCounter(prometheus.CounterOpts{Name: "one"})
	r.MustRegister(one)
	if err := r.Register(one); err == nil || len(r.Collectors()) != 1 || testutil.CollectAndCount(r) != 1 {
		t.Errorf("%v, %d collectors", err, len(r.Collectors()))
	}
	log, err := querylog.New(querylog.Options{})
	must(t, err)
	defer func() { must(t, log.Close(t.Context())) }()
	for name, c := range map[string]prometheus.Collector{"query log": NewQueryLogCollector(log), "data directory": (*DataDir)(nil)} {
		must(t, r.Register(c))
		if err := r.Register(c); err == nil {
			t.Errorf("%s: its metrics are registered twice", name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a second one with the name is registered")
		}
	}()
	r.MustRegister(one)
}

// TestBuild describes this build, and ones with a version and a commit of the linker, of Go, of both and of neither.
func TestBuild(t *testing.T) {
	b := ThisBuild("", "")
	if b.Version == "" || !strings.HasPrefix(b.Go, "go") || !strings.Contains(b.Platform, "/") {
		t.Errorf("%+v", b)
	}
	recorded := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: "v1"}, Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "cde"}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, c := range []struct {
		info            *debug.BuildInfo
		version, commit string
		want            Build
	}{
		{nil, "", "", Build{Version: "unknown"}},
		{nil, "1.2", "abc", Build{Version: "1.2", Commit: "abc"}},
		{recorded("false"), "", "", Build{Version: "v1", Commit: "cde"}},
		{recorded("true"), "", "", Build{Version: "v1", Commit: "cde", Modified: true}},
		{recorded("true"), "1.2", "", Build{Version: "1.2", Commit: "cde", Modified: true}},
		{recorded("true"), "1.2", "abc", Build{Version: "1.2", Commit: "abc"}},
	} {
		c.want.Go, c.want.Platform = b.Go, b.Platform
		if got := buildOf(c.info, c.version, c.commit); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	b.Commit = "abc"
	if p := b.Prometheus(); p.Revision != "abc" || p.GoVersion != b.Go || p.Version == "" {
		t.Errorf("%+v", p)
	}
}

// TestLock opens data directories whose lock is no file, and which cannot be created.
func TestLock(t *testing.T) {
	var log buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "lock", "x"), 0o700))
	d, err := lockDataDir(dir, logger)
	must(t, err)
	must(t, d.close())
	entries, _ := filepath.Glob(filepath.Join(dir, "lock*"))
	if !strings.Contains(log.String(), "data directory's lock is not a file: replaced") || len(entries) != 2 {
		t.Errorf("%v, %s", entries, log.String())
	}
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := lockDataDir(filepath.Join(file, "x"), logger); err == nil || !strings.Contains(err.Error(), "create data directory: ") {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "replaced") != 1 {
		t.Error(text)
	}
	var none *DataDir
	if none.Losses() != nil || testutil.CollectAndCount(none) != 0 {
		t.Error("no directory has losses")
	}
}

// TestSeqFile opens the query log of a data directory whose file of numbers is damaged: it is set aside and counted.
func TestSeqFile(t *testing.T) {
	for damaged, want := range map[bool]int{false: 0, true: 1} {
		s := newService(t, io.Discard)
		must(t, s.OpenData("", true))
		if damaged {
			must(t, os.WriteFile(s.Data.File("querylog.seq"), []byte("x"), 0o600))
		}
		must(t, s.OpenQueryLog())
		if n := len(s.Data.Losses()); n != want || testutil.CollectAndCount(s.Data) != want {
			t.Errorf("damaged %t: %d losses", damaged, n)
		}
		if info, err := os.Stat(s.Data.File("querylog.seq")); err != nil || info.Size() != 4096 {
			t.Errorf("%v, %v", info, err)
		}
		must(t, s.close())
	}
}

// TestCheckFiles loads certificates and authorities that are missing or no PEM.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, text := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "text")
	writeCertificate(t, cert, key, 1)
	must(t, os.WriteFile(text, []byte("x"), 0o600))
	for _, tt := range []struct{ cert, key, ca, want string }{
		{cert, key, "", ""},
		{cert, key, cert, ""},
		{"", "", "", ""},
		{"", key, cert, ""},
		{text, key, "", "load --x-cert and --x-key: "},
		{cert, "none", "", "load --x-cert and --x-key: "},
		{cert, key, "none", "load --x-client-ca: open none"},
		{cert, key, text, "load --x-client-ca: no certificate in " + text},
	} {
		c, err := LoadServerTLS("--x", tt.cert, tt.key, tt.ca)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.HasPrefix(err.Error(), tt.want) || c != nil) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err != nil || tt.cert == "" {
			continue
		}
		if len(c.Certificates) != 1 || (c.ClientAuth != 0) != (tt.ca != "") || (c.ClientCAs != nil) != (tt.ca != "") {
			t.Errorf("%+v: %+v", tt, c)
		}
	}
}
