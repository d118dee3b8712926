package main

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func TestMain(m *testing.M) {
	if err := testdir.UseMemory(); err != nil { // histories are synced
		log.Fatal(err)
	}
	testscript.Main(m, map[string]func(){
		"tare":      main,
		"holds-out": holdsOut,
	})
}

// opened opens a service until the test ends.
func opened[S server.Service](t *testing.T, s S) S {
	t.Helper()
	must(t, server.Open(t.Context(), s))
	t.Cleanup(func() { must(t, server.Close(s)) })
	return s
}

// TestScripts runs the command lines of testdata: the input of a user and the expected output.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *rewrite,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Values[scriptServer{}] = &scriptServer{}
			given, err := modes(env.WorkDir)
			env.Defer(func() {
				for _, name := range exposed(env, given) {
					env.T().Log("others may read or change " + name)
					env.T().FailNow()
				}
			})
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"pages":  pages,
			"server": database,
			"sql":    sqlStatements,
			"holds":  holds,
			"during": during,
		},
	})
}

// exits runs a command line of tare and compares its exit code: exits 64 serve --nope.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits code [argument...]")
	}
	err := ts.Exec("tare", args[1:]...)
	code := 0
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run tare: %v", err)
	}
	if want := args[0]; fmt.Sprint(code) != want {
		ts.Fatalf("tare exits with %d, want %s", code, want)
	}
}

// A scriptServer is the MySQL server of a script.
type scriptServer struct {
	*testmysql.Server                   // nil: not started
	held              *mysqlconn.Client // nil: no table is held
}

// database starts a MariaDB with a binary log, whose address is in ADDR, and its URL for --on in ON: server.
func database(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: server")
	}
	s, err := testmysql.New(testmysql.WithBinlog())
	ts.Check(err)
	server := ts.Value(scriptServer{}).(*scriptServer)
	server.Server = s
	ts.Defer(func() {
		if server.held != nil {
			_ = server.held.Close() // the script is over
		}
		ts.Check(s.Close())
	})
	ts.Setenv("ADDR", s.Addr)
	ts.Setenv("ON", "mysql://"+testmysql.RootUser+":"+testmysql.Password+"@"+s.Addr)
}

// serverOf returns the server of the script.
func serverOf(ts *testscript.TestScript) *scriptServer {
	s := ts.Value(scriptServer{}).(*scriptServer)
	if s.Server == nil {
		ts.Fatalf("no server was started")
	}
	return s
}

// sqlStatements executes statements at the server: sql 'CREATE DATABASE shop'.
func sqlStatements(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sql statement...")
	}
	ts.Check(serverOf(ts).Exec(args...))
}

// holds has a transaction hold the metadata lock of a table until the next call, without a table: holds shop.orders.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	s := serverOf(ts)
	if neg || len(args) > 1 {
		ts.Fatalf("usage: holds [table]")
	}
	if len(args) == 0 {
		ts.Check(s.held.Close())
		s.held = nil
		return
	}
	ctx := context.Background()
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	ts.Check(err)
	s.held = c
	for _, statement := range []string{"START TRANSACTION", "SELECT COUNT(*) FROM " + args[0]} {
		_, err := c.Exec(ctx, statement)
		ts.Check(err)
	}
}

// during runs a command line of tare, executes a statement at the server, or sends SIGTERM, when a text appears on standard error, and
// compares the exit code: during 'next try' SIGTERM 130 alter --on $ON ….
func during(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: during text statement|SIGTERM code argument...")
	}
	text, act, want := args[0], args[1], args[2]
	exe, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(exe, args[3:]...)
	cmd.Args[0], cmd.Dir, cmd.Env = "tare", ts.MkAbs("."), append(os.Environ(), "XDG_RUNTIME_DIR="+ts.Getenv("WORK"))
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	deadline := time.AfterFunc(testwait.Limit, func() { _ = cmd.Process.Kill() }) // its exit code is compared
	defer deadline.Stop()
	seen := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		ts.Logf("%s", lines.Text())
		if seen || !strings.Contains(lines.Text(), text) {
			continue
		}
		seen = true
		if act == "SIGTERM" {
			ts.Check(cmd.Process.Signal(syscall.SIGTERM))
			continue
		}
		ts.Check(serverOf(ts).Exec(act))
	}
	_ = cmd.Wait() // its exit code is compared
	if code := fmt.Sprint(cmd.ProcessState.ExitCode()); !seen || code != want {
		ts.Fatalf("tare exits with %s, want %s; %q was seen: %t", code, want, text, seen)
	}
}

// pages serves two files as the live metrics and the statements of a ready gateway, to the account dba with
// the password "weight" or the token "balance": pages live.json statements.json. Its address is in URL, the
// one with TLS in TLS_URL, whose authority is in ca.pem.
func pages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pages live.json statements.json")
	}
	mux := http.NewServeMux()
	for path, text := range map[string]string{"/api/v1/live": ts.ReadFile(args[0]), "/api/v1/statements": ts.ReadFile(args[1]), "/-/ready": "ready\n"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			switch credentials := r.Header.Get("Authorization"); {
			case credentials == "Bearer scale":
				http.Error(w, path+" requires the role viewer; the account \"ci\" has the role metrics.", http.StatusForbidden)
			case user == "dba" && password == "weight", credentials == "Bearer balance":
				_, _ = io.WriteString(w, text)
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	}
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients that do not trust the authority
	secure.StartTLS()
	ts.Defer(plain.Close)
	ts.Defer(secure.Close)
	ts.Setenv("URL", plain.URL)
	ts.Setenv("TLS_URL", secure.URL)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
}

// holdsOut is a subcommand that does not stop when interrupted: it interrupts itself, waits for its context,
// and interrupts itself again.
func holdsOut() {
	ctx, stop := untilInterrupted(context.Background())
	defer stop()
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
	fmt.Println("asked to end:", context.Cause(ctx))
	if len(os.Args) > 1 && os.Args[1] == "again" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {}
	}
	os.Exit(report(ctx, os.Stderr, "holds-out", fmt.Errorf("relay: %w", ctx.Err())))
}
