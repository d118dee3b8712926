//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	loadShards     = 128
	loadShardBytes = 100 << 20
	loadMayTake    = 64 << 20 // resident memory in addition to the initial one
)

// TestFrontendUnderLoad merges 128 shards of 100 MB for a client that first reads slowly and then stops:
// backpressure reaches the shards, and the frontend's memory grows by at most 64 MiB. Then the client reads
// the rest.
func TestFrontendUnderLoad(t *testing.T) {
	item := []byte(`{"__name__":"http_requests_total","instance":"instance-17","job":"prometheus","path":"/api/v1/items"},`)
	chunk := bytes.Repeat(item, 64<<10/len(item))
	chunks := loadShardBytes / len(chunk)
	var sent atomic.Int64 // by all shards
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write := func(b []byte) bool {
			n, err := w.Write(b)
			sent.Add(int64(n))
			return err == nil
		}
		ok := write([]byte(`{"data":[`))
		for i := 0; ok && i < chunks; i++ {
			if i == chunks-1 {
				ok = write(chunk[:len(chunk)-1])
				break
			}
			ok = write(chunk)
		}
		write([]byte(`]}`))
	}))
	defer downstream.Close()
	p := start(t, []string{
		"frontend", "--downstream", downstream.URL, "--http", "127.0.0.1:0", "--shards", strconv.Itoa(loadShards),
		"--diag-format", "json", "--timeout", "20m",
	})
	get(t, p.http+"/metrics")
	idle := residentBytes(t, p.cmd.Process.Pid, "VmRSS")

	resp, err := http.Get(p.http + "/api/v1/cardinality/active_series?selector=http_requests_total")
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	buf := make([]byte, 16<<10)
	body := &tail{}
	for range 64 {
		n, err := io.ReadFull(resp.Body, buf)
		must(t, err)
		_, _ = body.Write(buf[:n])
		time.Sleep(time.Millisecond) // polls: nothing, it is the slow client itself
	}
	// The client stops. Writers fill the kernel's buffers, and wait.
	last := int64(-1)
	eventually(t, "all shards held back", func() bool {
		now := sent.Load()
		held := now == last
		last = now
		time.Sleep(300 * time.Millisecond) // polls: whether shards still write
		return held
	})
	if most := int64(loadShards) * loadShardBytes / 4; last > most {
		t.Errorf("shards sent %d MiB to a client that has stopped, want at most %d", last>>20, most>>20)
	}
	stalled := residentBytes(t, p.cmd.Process.Pid, "VmHWM") - idle
	begin := time.Now()
	n, err := io.CopyBuffer(body, struct{ io.Reader }{resp.Body}, make([]byte, 256<<10))
	must(t, err)
	took := time.Since(begin)
	peak := residentBytes(t, p.cmd.Process.Pid, "VmHWM") - idle
	t.Logf("%d shards of %d MiB: idle %.1f MiB, with a client that stopped at most %.1f MiB more, to the end %.1f MiB more; shards had sent %d MiB when it stopped; the rest at %.2f GB/s",
		loadShards, loadShardBytes>>20, mib(idle), mib(stalled), mib(peak), last>>20, float64(n)/took.Seconds()/1e9)
	if peak > loadMayTake {
		t.Errorf("resident memory rose by %.1f MiB, want at most %.0f", mib(peak), mib(loadMayTake))
	}
	if got := resp.Trailer.Get("Tare-Error"); got != "" || !strings.HasSuffix(string(body.last), `"}]}`) {
		t.Errorf("the answer ends with %q, trailer %q", body.last, got)
	}
	if want := int64(loadShards)*int64(chunks)*int64(len(chunk)) + int64(len(`{"data":[]}`)) - 1; body.bytes != want {
		t.Errorf("the answer has %d bytes, want %d", body.bytes, want)
	}
}

// TestFrontendOverFrontends queries a frontend over two others: frontends can be members too.
func TestFrontendOverFrontends(t *testing.T) {
	downstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"data":[{"job":"a","selector":%q}]}`, r.FormValue("selector"))
	}))
	defer downstream.Close()
	frontend := func(args ...string) *tare {
		return start(t, append([]string{"frontend", "--http", "127.0.0.1:0", "--diag-format", "json"}, args...))
	}
	below := []*tare{frontend("--downstream", downstream.URL), frontend("--downstream", downstream.URL)}
	above := frontend("--member", below[0].http+","+below[1].http, "--shards", "3")
	_, text := get(t, above.http+"/prometheus/api/v1/cardinality/active_series?selector=up")
	var respond struct{ Data []map[string]string }
	must(t, json.Unmarshal([]byte(text), &respond))
	if len(respond.Data) != 3 {
		t.Errorf("got %s, want each of 3 shards once", text)
	}
	// Members count independently: here both have the same series.
	if _, text = get(t, above.http+"/api/v1/cardinality/active_series?selector=up&count_by=job"); text != `{"data":[{"job":"a","__count__":"6"}]}` {
		t.Errorf("got %s", text)
	}
}

// A tail keeps the end of its input.
type tail struct {
	last  []byte
	bytes int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes += int64(len(p))
	t.last = append(t.last, p[max(0, len(p)-16):]...)
	t.last = t.last[max(0, len(t.last)-16):]
	return len(p), nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// residentBytes returns a field of /proc/PID/status: VmRSS, currently resident, or VmHWM, its maximum.
func residentBytes(t *testing.T, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			must(t, err)
			return n << 10
		}
	}
	t.Fatalf("no %s in /proc/%d/status", field, pid)
	return 0
}
