package demo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
)

// TestMain lets the test binary act as the demo's processes, under the names that the demo looks for.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case len(os.Args) > 1 && name == engineBinary && os.Args[1] == "engine":
		playEngine()
	case len(os.Args) > 1 && name == engineBinary && os.Args[1] == "workload":
		playWorkload()
	case len(os.Args) > 1 && name == "tare" && os.Args[1] == "serve":
		playGateway(os.Args[2:])
	default:
		goleak.VerifyTestMain(m)
	}
}

// cast creates a directory with the test binary under the names of Tare's programs, and returns the path of
// its tare. Misbehavior is requested through the environment, which all children inherit.
func cast(t *testing.T, misbehave string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"tare", engineBinary} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DEMO_MISBEHAVE", misbehave)
	t.Setenv("TARE_LISTEN", "the user's own, not to reach the children")
	return filepath.Join(dir, "tare")
}

// freeHTTP returns an address for the gateway's pages that no other process gets until the test ends, not even a demo of
// another run of the tests on this machine: each would take the default address.
func freeHTTP(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), // the gateway may listen on it
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	a, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.(*syscall.SockaddrInet4).Port))
}

func misbehaves(how string) bool { return os.Getenv("DEMO_MISBEHAVE") == how }

// untilTerminated catches SIGTERM from now on, and returns a function that waits for it. The demo may terminate a
// process as soon as it has said something.
func untilTerminated() (wait func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	return func() { <-c }
}

func die(words string) {
	fmt.Fprintln(os.Stderr, words)
	os.Exit(1)
}

func playEngine() {
	wait := untilTerminated()
	switch {
	case misbehaves("engine dies"):
		die("out of memory")
	case misbehaves("engine babbles"):
		fmt.Println("hello")
	default:
		fmt.Println(`{"address":"127.0.0.1:1","database":"shop","rows":10000}`)
	}
	wait()
}

func playWorkload() {
	if misbehaves("workload dies") {
		die("cannot connect")
	}
	wait := untilTerminated()
	fmt.Println(`{"statements":0,"errors":0,"expected_errors":0}`)
	wait()
	fmt.Println(`{"statements":40,"errors":0,"expected_errors":20}`)
}

// playGateway serves the pages of a gateway. Its log has a statement that takes 1 ms and one that fails after
// 3 ms, twenty times each, and 2 dropped records.
func playGateway(args []string) {
	wait := untilTerminated()
	if os.Getenv("TARE_LISTEN") != "" {
		die("the user's settings reached the demo's gateway")
	}
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	if flags["--backend"] != "mysql://127.0.0.1:1" || flags["--listen"] == "" {
		die("unexpected arguments: " + strings.Join(args, " "))
	}
	for _, dir := range []string{strings.TrimPrefix(flags["--bucket"], "file://"), flags["--data-dir"]} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			die("the history has no directory: " + strings.Join(args, " "))
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	var scrapes atomic.Int64
	if !misbehaves("gateway without count") {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: metricStatements}, func() float64 {
			if scrapes.Add(1) <= tareScrapes+2 {
				return 5 // before the workload: not counted by the demo
			}
			return 5 + 42
		}))
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("/-/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /api/v1/events", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/debug/querylog", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") != "json" {
			http.Error(w, "want JSON", http.StatusBadRequest)
			return
		}
		for i := range 20 {
			fmt.Fprintf(w, `{"kind":"statement","seq":%d,"total_ns":1000000,"digest":"aaaaaaaaaaaaaaaa","normalized":"select name from customers where id = ?","rows_returned":1}`+"\n", 2*i)
			fmt.Fprintf(w, `{"kind":"statement","seq":%d,"total_ns":3000000,"digest":"bbbbbbbbbbbbbbbb","normalized":"select id from wishlists","error_number":1146}`+"\n", 2*i+1)
		}
		fmt.Fprint(w, `{"kind":"dropped","records":2,"bytes":900}`+"\n")
		w.(http.Flusher).Flush()
		if misbehaves("stream breaks off") {
			return
		}
		<-r.Context().Done()
	})
	if misbehaves("gateway dies") {
		time.AfterFunc(100*time.Millisecond, func() { die("lost its mind") })
	}
	var listeners []net.Listener
	for _, addr := range []string{flags["--listen"], flags["--http"]} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			die(err.Error())
		}
		listeners = append(listeners, l)
	}
	srv := &http.Server{Handler: mux}
	go func() {
		if err := srv.Serve(listeners[1]); err != nil {
			die(err.Error())
		}
	}()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		die(err.Error())
	}
	wait()
}

// ownChildren returns the running child processes of this process.
func ownChildren(t *testing.T) []string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(os.Getpid()) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, thread := range threads {
		f, err := os.Open(filepath.Join(dir, thread.Name(), "children"))
		if err != nil {
			continue // the thread has exited
		}
		b, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			continue
		}
		pids = append(pids, strings.Fields(string(b))...)
	}
	return pids
}
