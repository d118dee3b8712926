package main

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/*.txtar. In them, "sizegen N args…" runs the program, which has
// to exit with N and leaves what it wrote in the files out and err.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"sizegen": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) == 0 {
					ts.Fatalf("usage: sizegen exitcode args...")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				var stdout, stderr bytes.Buffer
				got := run(args[1:], ts.MkAbs("."), &stdout, &stderr)
				ts.Check(os.WriteFile(ts.MkAbs("out"), stdout.Bytes(), 0o644))
				ts.Check(os.WriteFile(ts.MkAbs("err"), stderr.Bytes(), 0o644))
				ts.Logf("[stdout]\n%s[stderr]\n%s", stdout.Bytes(), stderr.Bytes())
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
		},
	})
}

// TestCommittedFilesAreFresh holds the generated files of this command to what it writes.
func TestCommittedFilesAreFresh(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-verify", "./internal/zoo/...", "./internal/sqlast"}, ".", &stdout, &stderr); code != exitOK {
		t.Errorf("sizegen -verify exits with %d; run go generate ./cmd/sizegen/...\n%s", code, &stderr)
	}
}
