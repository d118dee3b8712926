package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/taredb/tare/internal/server"
)

func TestMain(m *testing.M) {
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
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"pages": pages,
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
