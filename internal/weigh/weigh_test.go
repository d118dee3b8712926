package weigh

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestOwnProcessIsWeighed(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	for last := before.CPU; last < before.CPU+20*time.Millisecond; {
		if last, err = p.CPU(); err != nil { // the reading itself uses CPU time
			t.Fatal(err)
		}
	}
	after, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU < before.CPU+20*time.Millisecond {
		t.Errorf("CPU went from %v to %v, want 20ms more at least", before.CPU, after.CPU)
	}
	if user, sys := after.Since(before); user < 0 || sys < 0 || user+sys != after.CPU-before.CPU {
		t.Errorf("user %v and system %v, want parts of %v", user, sys, after.CPU-before.CPU)
	}
	if after.RSS < 1<<20 || after.PeakRSS < after.RSS {
		t.Errorf("resident %d bytes, at most %d: want at least 1 MiB, and no more than the peak", after.RSS, after.PeakRSS)
	}
}

func TestCPUIsDividedByTicks(t *testing.T) {
	earlier := Usage{CPU: time.Second, UserTicks: 90, SysTicks: 10}
	later := Usage{CPU: 3 * time.Second, UserTicks: 140, SysTicks: 160}
	if user, sys := later.Since(earlier); user != 500*time.Millisecond || sys != 1500*time.Millisecond {
		t.Errorf("got user %v, system %v; want 500ms and 1.5s", user, sys)
	}
	later = Usage{CPU: earlier.CPU + time.Millisecond, UserTicks: 90, SysTicks: 10}
	if user, sys := later.Since(earlier); user != time.Millisecond || sys != 0 {
		t.Errorf("within a tick got user %v, system %v; want 1ms and 0s", user, sys)
	}
}

func TestEndedProcessIsDistinguished(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error reports the kill
	if _, err := p.Usage(); !errors.Is(err, ErrEnded) {
		t.Errorf("Usage of an ended process: %v, want ErrEnded", err)
	}
	if _, err := p.CPU(); !errors.Is(err, ErrEnded) {
		t.Errorf("CPU of an ended process: %v, want ErrEnded", err)
	}
	if _, err := Open(cmd.Process.Pid); !errors.Is(err, ErrEnded) {
		t.Errorf("Open of an ended process: %v, want ErrEnded", err)
	}
}

func TestStatWithAnAwkwardCommand(t *testing.T) {
	line := "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 0 0 20 0 8 0 9876 1 2 3"
	st, ok := parseStat([]byte(line))
	if want := (stat{user: 17, sys: 5, start: 9876}); !ok || st != want {
		t.Errorf("got %+v, %t; want %+v", st, ok, want)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2", strings.Replace(line, "17", "x", 1)} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q is taken for a stat line", bad)
		}
	}
}

// TestScrapeAgreesWithTheRuntime reads the metrics of this process through the collectors that Tare's servers
// use.
func TestScrapeAgreesWithTheRuntime(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	byType := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tare_statements_total"}, []string{"type"})
	reg.MustRegister(byType)
	byType.WithLabelValues("select").Add(3)
	byType.WithLabelValues("insert").Add(4)
	srv := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	defer srv.Close()

	runtime.GC() // CPU classes are as of the latest collection
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := ScrapeMetrics(t.Context(), srv.Client(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n, ok := s.Sum("tare_statements_total"); !ok || n != 7 {
		t.Errorf("the sum over labels is %v, %t; want 7", n, ok)
	}
	if _, ok := s.Sum("tare_no_such_metric"); ok {
		t.Error("a metric that is not there is reported as there")
	}
	r, err := s.Runtime()
	if err != nil {
		t.Fatal(err)
	}
	if r.HeapAllocBytes < float64(before.TotalAlloc) || r.HeapAllocBytes > float64(after.TotalAlloc) {
		t.Errorf("allocated bytes %v, want from %d to %d", r.HeapAllocBytes, before.TotalAlloc, after.TotalAlloc)
	}
	objects := r.HeapAllocObjects + r.TinyAllocs // MemStats counts tiny ones too
	if objects < float64(before.Mallocs) || objects > float64(after.Mallocs) {
		t.Errorf("allocated objects %v, want from %d to %d", objects, before.Mallocs, after.Mallocs)
	}
	if r.GCCPU <= 0 || r.GCCycles < 1 || r.HeapInUse <= 0 {
		t.Errorf("GC CPU %v s, %v cycles, heap %v bytes; want all above 0", r.GCCPU, r.GCCycles, r.HeapInUse)
	}
}

// TestOwnRuntimeAgreesWithMemStats checks that this runtime has each metric.
func TestOwnRuntimeAgreesWithMemStats(t *testing.T) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := OwnRuntime()
	runtime.ReadMemStats(&after)
	if r.HeapAllocBytes < float64(before.TotalAlloc) || r.HeapAllocBytes > float64(after.TotalAlloc) {
		t.Errorf("allocated bytes %v, want from %d to %d", r.HeapAllocBytes, before.TotalAlloc, after.TotalAlloc)
	}
	objects := r.HeapAllocObjects + r.TinyAllocs
	if objects < float64(before.Mallocs) || objects > float64(after.Mallocs) {
		t.Errorf("allocated objects %v, want from %d to %d", objects, before.Mallocs, after.Mallocs)
	}
	if r.GCCPU <= 0 || r.IdleCPU < 0 || r.HeapInUse <= 0 || r.GCCycles < float64(before.NumGC) || r.GCCycles > float64(after.NumGC) {
		t.Errorf("got %+v, want GC CPU, heap and from %d to %d cycles", r, before.NumGC, after.NumGC)
	}
}

func TestScrapeRefusesWhatIsNoMetricsPage(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"an error status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"a web page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
		},
		"malformed text": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			w.Write([]byte("a{b=} 1\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			if _, err := ScrapeMetrics(t.Context(), srv.Client(), srv.URL); err == nil {
				t.Error("the answer was accepted")
			}
		})
	}
	t.Run("a process that is not Go", func(t *testing.T) {
		s, err := parseScrape(strings.NewReader("up 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Runtime(); err == nil {
			t.Error("figures of a Go runtime were found in metrics without any")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ScrapeMetrics(ctx, http.DefaultClient, "http://127.0.0.1:1/metrics"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}
