package doccommands

import (
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A Call is one program that a command starts.
type Call struct {
	Dir  string // set by a cd before it, "." without one
	Args []string
}

// Calls parses a command line like a POSIX shell and returns the programs that it starts, expanded with an
// environment. Command substitutions are not executed: each yields 1.
func Calls(text string, env map[string]string) ([]Call, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("parse command: %w", err)
	}
	config := &expand.Config{
		Env: expand.FuncEnviron(func(name string) string { return env[name] }),
		CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error {
			_, err := io.WriteString(w, "1")
			return err
		},
	}
	dir := "."
	var calls []Call
	var failed error
	syntax.Walk(file, func(n syntax.Node) bool {
		if _, ok := n.(*syntax.CmdSubst); ok {
			return false
		}
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || failed != nil {
			return true
		}
		args, err := expand.Fields(config, call.Args...)
		if err != nil {
			failed = fmt.Errorf("expand command: %w", err)
			return false
		}
		if args[0] == "cd" && len(args) == 2 {
			dir = args[1]
			return false
		}
		calls = append(calls, Call{Dir: dir, Args: args})
		return false
	})
	return calls, failed
}
