//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// Set by TestMain and constant afterwards.
var (
	binary  string            // the built tare
	mariadb *testmysql.Server // with TLS
)

var program = flag.String("tare", "", "the program under test, such as another release's; built from this module if it is empty")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	if os.Getenv(floodSinkEnv) != "" {
		return floodSink()
	}
	if os.Getenv(floodEnv) != "" {
		return floodClient()
	}
	dir, err := os.MkdirTemp("", "tare-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	flag.Parse()
	if binary = *program; binary == "" {
		binary = filepath.Join(dir, "tare")
		build := exec.Command("go", "build", "-C", repository, "-o", binary, "./cmd/tare")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build tare: %v\n%s", err, out)
			return 1
		}
	}
	// Room for a thousand clients.
	if mariadb, err = testmysql.New(testmysql.WithTLS(), testmysql.WithArgs("--max-connections=1300")); err != nil {
		fmt.Fprintf(os.Stderr, "start MariaDB: %v\n", err)
		return 1
	}
	defer func() {
		if err := mariadb.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop MariaDB: %v\n", err)
			code = 1
		}
	}()
	defer func() {
		for _, s := range []*mysqlServer{&mysqlGTID, &mysqlPlain} {
			if err := s.close(); err != nil {
				fmt.Fprintf(os.Stderr, "stop MySQL: %v\n", err)
				code = 1
			}
		}
	}()
	code = m.Run()
	if *pooled != "" && pooledLent.Load() == 0 {
		fmt.Fprintf(os.Stderr, "-pool=%s: no gateway lent a connection\n", *pooled)
		code = 1
	}
	return code
}

// A tare is one process of the binary.
type tare struct {
	*child
	addr string // for MySQL clients
	grpc string // for Thanos queriers
	http string // URL of the pages

	history bool // it writes a history
	asked   bool // the test stops it itself
}

// startTare runs `tare serve` in front of the backend.
func startTare(t *testing.T, backend string, args ...string) *tare {
	t.Helper()
	args = append([]string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--backend", "mysql://" + backend, "--diag-format", "json",
		"--log-file", filepath.Join(t.TempDir(), "query.log"), "--data-dir", t.TempDir(),
	}, args...)
	return start(t, args)
}

// start runs a server of tare until it reports its addresses.
func start(t *testing.T, args []string) *tare {
	t.Helper()
	return startOf(t, binary, args)
}

// startOf is start with another binary.
func startOf(t *testing.T, program string, args []string) *tare {
	t.Helper()
	type addresses struct{ Msg, Listen, GRPC, HTTP string }
	reported := make(chan addresses, 1)
	ready := []string{"listening", "gateway is ready", "store listens", "frontend listens", "rowstream is ready"}
	args = append(args, poolArgs(t, args)...)
	p := &tare{history: args[0] == "serve" && slices.Contains(args, "--bucket")}
	p.child = startChild(t, exec.Command(program, args...), func(text []byte) {
		var line addresses
		if json.Unmarshal(text, &line) != nil || !slices.Contains(ready, line.Msg) {
			return
		}
		select {
		case reported <- line:
		default: // a later line: the first one has the addresses
		}
	})
	t.Cleanup(func() { p.stop(t) })
	select {
	case line := <-reported:
		p.addr, p.grpc, p.http = line.Listen, line.GRPC, line.HTTP
	case <-p.exited:
		t.Fatalf("tare ended with code %d before it was ready:\n%s", p.cmd.ProcessState.ExitCode(), p.text())
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the ready line")
	}
	return p
}

// stop stops the process gracefully, unless the test has, and fails the test if that does not succeed.
func (p *tare) stop(t *testing.T) {
	t.Helper()
	if !p.asked {
		if code := p.end(t); code != 0 {
			t.Errorf("tare ends with code %d; its log:\n%s", code, p.text())
		}
	}
	if text := p.text(); strings.Contains(text, "panic:") || strings.Contains(text, `"BUG:`) {
		t.Errorf("tare panicked:\n%s", text)
	} else if strings.Contains(text, "history differs from its ledger") {
		t.Errorf("a self-check failed:\n%s", text)
	}
}

// checkHistory fails the test if the samples of a gateway's history differ from its ledger.
func (p *tare) checkHistory(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
		return
	default:
	}
	if !p.history {
		return
	}
	for _, name := range []string{"tare_history_unexplained_samples", "tare_history_unexplained_calls"} {
		if n := metricValue(t, p, name); n != 0 {
			t.Errorf("%s is %v, want 0\n%s", name, n, p.text())
		}
	}
}

// end sends SIGTERM and waits for the exit.
func (p *tare) end(t *testing.T) (code int) {
	t.Helper()
	p.asked = true
	p.checkHistory(t)
	p.countLent(t)
	return p.child.end(syscall.SIGTERM)
}

// kill kills the process.
func (p *tare) kill() {
	p.asked = true
	p.child.end(syscall.SIGKILL)
}

// newSchema creates an empty schema that is dropped with the test.
func newSchema(t *testing.T, s *testmysql.Server, name string) string {
	t.Helper()
	must(t, s.Exec("create or replace database "+name+" character set utf8mb4"))
	t.Cleanup(func() {
		if err := s.Exec("drop database if exists " + name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// open returns a pool of connections to an address.
func open(t *testing.T, addr, schema string) *sql.DB {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = testmysql.AppUser, testmysql.Password, "tcp", addr, schema
	cfg.Logger = silent{}
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// silent is a go-sql-driver logger for tests that break connections on purpose.
type silent struct{}

func (silent) Print(...any) {}

// scan scans the first row of a query.
func scan(t *testing.T, db *sql.DB, query string, dest ...any) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(dest...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// command runs a program to its end.
func command(t *testing.T, stdin, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err = cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%v: run e2e/run, which installs what is missing", err)
	}
	return out.String(), errs.String(), err
}

// mustRun is command for programs that must succeed.
func mustRun(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := command(t, stdin, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	must(t, err)
	return p
}

// eventually polls another process every 20 ms.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	testwait.Until(t, what, func() bool {
		if yes() {
			return true
		}
		time.Sleep(20 * time.Millisecond) // polls: another process
		return false
	})
}

// awaitReady waits until a server's /-/ready succeeds.
func awaitReady(t *testing.T, what, addr string) {
	t.Helper()
	var last string
	defer func() {
		if last != "" {
			t.Logf("%s is not ready: %s", what, last)
		}
	}()
	eventually(t, what+" is ready", func() bool {
		response, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			last = err.Error()
			return false
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			last = ""
			return true
		}
		text, err := io.ReadAll(response.Body)
		last = fmt.Sprintf("%s %s %v", response.Status, text, err)
		return false
	})
}
