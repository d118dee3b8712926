package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tare":      main,
		"holds-out": holdsOut,
	})
}

// TestScripts runs the command lines of testdata: what a user types, and what is answered.
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

// pages serves two files as the live figures and the statements of a gateway, to the account
// dba with the password "weight", and puts its address into URL: pages live.json statements.json.
func pages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pages live.json statements.json")
	}
	mux := http.NewServeMux()
	for i, path := range []string{"/api/v1/live", "/api/v1/statements"} {
		text := ts.ReadFile(args[i])
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "dba" || password != "weight" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, text)
		})
	}
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	ts.Setenv("URL", s.URL)
}

// holdsOut is a subcommand that does not end when it is asked to: it interrupts itself,
// waits for its context, and interrupts itself again.
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
