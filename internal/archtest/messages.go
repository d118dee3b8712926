package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// messageCalls are the functions with user-visible text: errors, log lines, printed output.
var messageCalls = []string{"Errorf", "New", "Info", "Warn", "Error", "Debug", "Fprintf", "Fprintln", "refuse", "refuseSetting", "badRequest", "restart", "stop", "unknown", "unproven"}

// messageFields are the user-visible fields of errors.
var messageFields = []string{"Message", "Try", "What", "msg", "try", "what"}

// A message is a text shown by the program.
type message struct {
	where string // file:line
	text  string
}

// messages returns the constant texts of errors and log lines, in the order of the files.
func messages(t *Tree) ([]message, error) {
	files, err := t.goFiles(func(name string) bool { return !strings.HasSuffix(name, "_test.go") && !foreignText(name) })
	if err != nil {
		return nil, err
	}
	var all []message
	for _, f := range files {
		if ast.IsGenerated(f.File) {
			continue
		}
		for n := range ast.Preorder(f.File) {
			for _, e := range shownTexts(n) {
				if s, ok := constantText(e); ok && strings.Contains(s, " ") {
					all = append(all, message{fmt.Sprintf("%s:%d", f.name, f.line(e)), s})
				}
			}
		}
	}
	return all, nil
}

// foreignText reports whether a file's texts are not shown by the product: benchmarks, test support and
// testdata.
func foreignText(name string) bool {
	dir := "/" + path.Dir(name) + "/"
	return strings.Contains(dir, "/testdata/") || strings.HasPrefix(dir, "/bench/") || strings.HasPrefix(dir, "/e2e/") ||
		strings.HasPrefix(dir, "/internal/archtest/") || strings.HasPrefix(dir, "/internal/test")
}

// shownTexts returns the expressions of a node that are messages, if they are constant.
func shownTexts(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if showsMessage(n) {
			return n.Args
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(messageFields, key.Name) {
			return []ast.Expr{n.Value}
		}
	}
	return nil
}

// showsMessage reports whether a call's constant texts are messages.
func showsMessage(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if f.Sel.Name == "New" {
			x, ok := f.X.(*ast.Ident)
			return ok && x.Name == "errors"
		}
		return slices.Contains(messageCalls, f.Sel.Name)
	case *ast.Ident:
		return f.Name != "New" && slices.Contains(messageCalls, f.Name)
	}
	return false
}

// constantText returns the text of a literal, or of concatenated literals.
func constantText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		left, ok := constantText(e.X)
		right, ok2 := constantText(e.Y)
		if !ok2 {
			right = "…"
		}
		if !ok {
			left = "…"
		}
		return left + right, e.Op == token.ADD && (ok || ok2)
	}
	return "", false
}

// Messages checks that errors and log lines use none of the retired words of Prose.
func Messages(t *Tree) ([]Finding, error) {
	all, err := messages(t)
	if err != nil {
		return nil, err
	}
	words := retiredWords()
	var findings []Finding
	for _, m := range all {
		if found, ok := retired(words, m.text); ok {
			found.Where = m.where
			findings = append(findings, found)
		}
	}
	return findings, nil
}
