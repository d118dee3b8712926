package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// waitingWriter notifies a test when a text was written.
type waitingWriter struct {
	text  string
	found chan struct{}

	mu  sync.Mutex
	all bytes.Buffer
}

// String returns everything written.
func (w *waitingWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func (w *waitingWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.all.String(), w.text)
	w.all.Write(b)
	if !before && strings.Contains(w.all.String(), w.text) {
		close(w.found)
	}
	return len(b), nil
}

// TestCopyCtl watches a copy that its limit pauses, changes the limit and reads the report.
func TestCopyCtl(t *testing.T) {
	from, to := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t)
	must(t, from.Exec("CREATE OR REPLACE DATABASE ctl", "CREATE TABLE ctl.t (id INT PRIMARY KEY)", "INSERT INTO ctl.t SELECT seq FROM test.seq_1_to_100",
		"CREATE TABLE ctl.jobs (id INT)", "INSERT INTO ctl.jobs VALUES (1), (2), (3)"))
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	account := func(s *testmysql.Server) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
	}
	var stdout bytes.Buffer
	stderr := &waitingWriter{text: "the copy paused: the answer to the throttle query is 3, over 1", found: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{
			"copy", "--from", account(from), "--to", account(to), "--tables", "ctl.t",
			"--throttle-query", "SELECT COUNT(*) FROM ctl.jobs", "--throttle-above", "1", "--http", "127.0.0.1:0", "--diag-format", "json",
		}, &stdout, stderr)
	}()
	select {
	case <-stderr.found:
	case code := <-ended:
		t.Fatalf("exit %d: %s", code, stderr)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the copy to pause")
	}
	ctl := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"copy", "ctl"}, args...), &out, &errs); code != want {
			t.Errorf("%v: exit %d: %s", args, code, &errs)
		}
		return out.String() + errs.String()
	}
	status := ctl(exitOK, "status")
	for _, want := range []string{from.Addr + " to " + to.Addr + ": ", "paused: the answer to the throttle query is 3, over 1", "ctl.t", "LIMIT"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	served := regexp.MustCompile(`"http":"(http://[^"]*)"`).FindStringSubmatch(stderr.String())
	if served == nil {
		t.Fatalf("no address of the metrics in %s", stderr)
	}
	var metrics string
	testwait.UntilState(t, "the metrics of a copy that waits for its throttle", func() (string, bool) {
		resp, err := http.Get(served[1] + "/metrics")
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		metrics = string(text)
		for _, want := range []string{`tare_copy_phase{phase="copying"} 1`, "tare_copy_throttle_rate 0\n", `tare_copy_wait_seconds{wait="the throttle"}`, "tare_copy_rows_total 0\n"} {
			if !strings.Contains(metrics, want) {
				return fmt.Sprintf("no %q in\n%s", want, metrics), false
			}
		}
		return "", true
	})
	if strings.Contains(metrics, "tare_copy_lag_seconds") {
		t.Error("a copy that does not follow has a lag")
	}
	var s telemetry.Status
	must(t, json.Unmarshal([]byte(ctl(exitOK, "status", "--json")), &s))
	if s.Version != 1 || !s.Throttle.Stopped || s.Throttle.Limits[0].Kind != throttle.LimitQuery {
		t.Errorf("%+v", s)
	}
	sockets, err := os.ReadDir(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "tare"))
	if err != nil || len(sockets) != 1 || !strings.HasPrefix(sockets[0].Name(), "copy-ctl.t-") {
		t.Errorf("%v, %v", sockets, err)
	}
	if got := ctl(exitFailed, "throttle", "--max-p99", "3ms"); !strings.Contains(got, "started without --max-p99") {
		t.Error(got)
	}
	if got := ctl(exitFailed, "finish"); !strings.Contains(got, "does not follow its source") {
		t.Error(got)
	}
	ctl(exitOK, "throttle", "--throttle-above", "10")
	if code := testwait.Receive(t, "the copy to finish", ended); code != exitOK || !strings.Contains(stdout.String(), "ctl.t: copied to ctl.t: 100 rows in 1 chunk") {
		t.Errorf("exit %d: %s%s", code, &stdout, stderr)
	}
	stopped := func(how string) {
		t.Helper()
		for _, args := range [][]string{{"status"}, {"status", "--socket", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "tare", sockets[0].Name())}} {
			if got := ctl(exitFailed, args...); !strings.Contains(got, from.Addr+" to "+to.Addr+", process ") || !strings.Contains(got, how) {
				t.Errorf("%v: %s, want %q", args, got, how)
			}
		}
		if got := ctl(exitFailed, "status"); !strings.Contains(got, "no running copy") {
			t.Error(got)
		}
	}
	stopped(" finished at ")
	must(t, from.Exec("CREATE TABLE ctl.u (id INT PRIMARY KEY)"))
	must(t, to.Exec("CREATE TABLE ctl.u (id INT PRIMARY KEY)", "INSERT INTO ctl.u VALUES (1)"))
	refused := []string{"copy", "--from", account(from), "--to", account(to), "--tables", "ctl.u", "--control-socket", filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "tare", sockets[0].Name())}
	var errs bytes.Buffer
	if code := run(t.Context(), refused, io.Discard, &errs); code != exitFailed {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	stopped(": " + strings.TrimPrefix(strings.TrimSpace(errs.String()[strings.LastIndex(errs.String(), "tare copy: "):]), "tare copy: "))
}

// TestCopyVerify verifies a finished copy, before and after its target was modified.
func TestCopyVerify(t *testing.T) {
	from, to := testmysql.Start(t, testmysql.WithBinlog()), testmysql.Start(t)
	must(t, from.Exec("CREATE OR REPLACE DATABASE verify", "CREATE TABLE verify.t (id INT PRIMARY KEY)", "INSERT INTO verify.t SELECT seq FROM test.seq_1_to_100"))
	account := func(s *testmysql.Server) string {
		return "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + s.Addr
	}
	verify := func(want int, texts ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		args := []string{"copy", "--from", account(from), "--to", account(to), "--tables", "verify.t", "--control-socket", "off", "--verify"}
		if code := run(t.Context(), args, &out, &errs); code != want {
			t.Errorf("exit %d, want %d: %s", code, want, &errs)
		}
		for _, text := range texts {
			if all := out.String() + errs.String(); !strings.Contains(all, text) {
				t.Errorf("no %q in\n%s", text, all)
			}
		}
	}
	verify(exitOK, "verify.t: verified: 100 rows in 1 chunk equal, checksum ")
	must(t, to.Exec("DELETE FROM verify.t WHERE id = 50", "INSERT INTO verify.t VALUES (-7)"))
	verify(exitPartial, "NOT EQUAL: rows missing in the target: 1, only there: 1, with other values: 0", "  missing 50\n", "  extra -7\n",
		"copied by an earlier run", "tare copy: 2 rows differ between the two sides")
}
