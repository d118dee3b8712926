//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testextremes"
	"github.com/taredb/tare/internal/testwait"
)

// An extremeServer is a subcommand that TestExtremes starts.
type extremeServer struct {
	flags map[string]string // values that give as many options as possible an effect
	use   func(t *testing.T, listen, http string)
}

// TestExtremes starts each server with each numeric option at the ends of its range: it refuses the value by
// an error that names the option, or it serves, and it exits gracefully. The options are those that tare
// config print lists, and the values depend on their kind.
func TestExtremes(t *testing.T) {
	bucket, empty := "file://"+t.TempDir(), "file://"+t.TempDir()
	downstream := start(t, []string{"store", "--bucket", empty, "--http", "127.0.0.1:0", "--data-dir", t.TempDir(), "--diag-format", "json"})
	for name, s := range map[string]extremeServer{
		"serve": {map[string]string{
			"listen": "127.0.0.1:0", "http": "127.0.0.1:0", "backend": "mysql://" + mariadb.Addr, "bucket": bucket, "log-file": "query.log",
			"log-rotate-size": "1MiB", "drain-timeout": "10s",
		}, queryOnce},
		"store": {map[string]string{
			"http": "127.0.0.1:0", "bucket": empty, "log-file": "query.log", "log-rotate-size": "1MiB",
		}, requestOnce},
		"frontend": {map[string]string{
			"http": "127.0.0.1:0", "downstream": downstream.http, "log-file": "query.log", "log-rotate-size": "1MiB",
		}, requestOnce},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := optionKinds(t, name)
			if _, ok := kinds["data-dir"]; ok {
				s.flags["data-dir"] = "data"
			}
			for option, kind := range kinds {
				for _, value := range testextremes.Of(kind) {
					t.Run(option+"="+value, func(t *testing.T) { s.try(t, name, option, value) })
				}
			}
		})
	}
}

// optionKinds returns the kinds of a subcommand's options, by name.
func optionKinds(t *testing.T, subcommand string) map[string]string {
	t.Helper()
	out, err := exec.Command(binary, "config", "print", subcommand, "--json").Output()
	must(t, err)
	var printed struct {
		Sections []struct {
			Options []struct{ Name, Kind string }
		}
	}
	must(t, json.Unmarshal(out, &printed))
	kinds := make(map[string]string)
	for _, o := range printed.Sections[0].Options {
		kinds[o.Name] = o.Kind
	}
	if len(kinds) < 20 {
		t.Fatalf("tare config print %s lists %d options", subcommand, len(kinds))
	}
	return kinds
}

// try runs the server with one option, unless the parser of options refuses its value.
func (s *extremeServer) try(t *testing.T, name, option, value string) {
	dir := t.TempDir()
	flags := map[string]string{"diag-format": "json"}
	for k, v := range s.flags {
		v = strings.Replace(v, "query.log", dir+"/query.log", 1)
		if k == "data-dir" {
			v = dir
		}
		flags[k] = v
	}
	flags[option] = value
	args := []string{name}
	for k, v := range flags {
		args = append(args, "--"+k+"="+v)
	}
	if out, err := exec.Command(binary, append([]string{"config", "print"}, args...)...).CombinedOutput(); err != nil {
		if !strings.Contains(string(out), "--"+option) {
			t.Errorf("refused by %v, %s: want --%s in it", err, out, option)
		}
		return
	}
	addresses := make(chan [2]string, 1)
	c := startChild(t, exec.Command(binary, args...), func(line []byte) {
		var l struct{ Msg, Listen, HTTP string }
		if json.Unmarshal(line, &l) == nil && (l.Msg == "listening" || l.Msg == "store listens" || l.Msg == "frontend listens") {
			select {
			case addresses <- [2]string{l.Listen, l.HTTP}:
			default:
			}
		}
	})
	select {
	case <-c.exited:
		code := c.cmd.ProcessState.ExitCode()
		if log := c.text(); code <= 0 || code == 2 || strings.Contains(log, "goroutine ") || !strings.Contains(log, option) && !strings.Contains(log, strings.ReplaceAll(option, "-", " ")) {
			t.Errorf("it exits with %d and no error about --%s:\n%.2000s", code, option, log)
		}
		return
	case at := <-addresses:
		s.use(t, at[0], at[1])
	case <-time.After(testwait.Limit):
		t.Fatalf("waited too long for tare %s to listen:\n%.2000s", name, c.text())
	}
	// 3: the drain timeout has passed.
	if code := c.end(syscall.SIGTERM); code != 0 && !(code == 3 && option == "drain-timeout") {
		t.Errorf("it exits with %d:\n%.2000s", code, c.text())
	}
	if log := c.text(); strings.Contains(log, "panic") || strings.Contains(log, "BUG:") || strings.Contains(log, "goroutine ") {
		t.Errorf("its log:\n%.4000s", log)
	}
}

// queryOnce runs a small query and one of nearly 16 MiB. Each may fail with an error of the gateway: a limit
// may be too small.
func queryOnce(t *testing.T, listen, _ string) {
	t.Helper()
	db := openAs(t, listen, "app", "", false)
	defer db.Close()
	for _, size := range []int{1, 16<<20 - 100} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var n int
		err := db.QueryRowContext(ctx, "select length('"+strings.Repeat("x", size)+"')").Scan(&n)
		cancel()
		if err == nil && n == size {
			continue
		}
		if _, ok := errors.AsType[*mysql.MySQLError](err); !ok && !errors.Is(err, mysql.ErrInvalidConn) {
			t.Errorf("a query of %d bytes: %d, %v", size, n, err)
		}
	}
}

// requestOnce runs a query over HTTP. It may be refused.
func requestOnce(t *testing.T, _, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, path := range []string{"/api/v1/query?query=up", "/metrics"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			if !errors.Is(err, io.EOF) { // a time limit may close the connection
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body) // a time limit may close the connection
		resp.Body.Close()
	}
}
