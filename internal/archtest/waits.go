package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
)

// testFiles parses the files of tests, including internal/test…, which only tests import.
func (t *Tree) testFiles() ([]*goFile, error) {
	return t.goFiles(func(name string) bool {
		return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/test")
	})
}

// Waits checks that each wait of a test has a deadline and a description, by the functions of the given
// package: no loop pauses between polls, and code with access to a test neither receives from a channel nor
// waits for a sync.WaitGroup directly. Files that use testing/synctest are excluded, since a bubble detects a
// hang. A pause that is not a wait marks its line by "// paces: " and the reason.
func Waits(t *Tree, helper string) ([]Finding, error) {
	files, err := t.testFiles()
	if err != nil {
		return nil, err
	}
	groups := make(map[string]map[string]bool) // the names of sync.WaitGroups, by directory
	for _, f := range files {
		dir := path.Dir(f.name)
		if groups[dir] == nil {
			groups[dir] = make(map[string]bool)
		}
		f.waitGroups(groups[dir])
	}
	var findings []Finding
	for _, f := range files {
		dir := path.Dir(f.name)
		if dir == helper || imports(f.File, "testing/synctest") {
			continue
		}
		w := waits{goFile: f, helper: path.Base(helper), groups: groups[dir], paced: f.endings("// paces: "), timers: f.timers()}
		w.loops()
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && (takesTest(fn.Type) || ownTest(fn.Body)) {
				w.body(fn.Body)
			}
		}
		findings = append(findings, w.findings...)
	}
	return findings, nil
}

// waitGroups adds the names of variables and fields that are a sync.WaitGroup.
func (f *goFile) waitGroups(names map[string]bool) {
	add := func(list []*ast.Ident, of ast.Expr) {
		if isCall(of, "sync", "WaitGroup") {
			for _, n := range list {
				names[n.Name] = true
			}
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			add(n.Names, n.Type)
		case *ast.Field:
			add(n.Names, n.Type)
		}
		return true
	})
}

// timers returns the names that are assigned a result of time.After.
func (f *goFile) timers() map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(f.File, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 {
			if call, ok := a.Rhs[0].(*ast.CallExpr); ok && isCall(call.Fun, "time", "After") {
				names[last(a.Lhs[0])] = true
			}
		}
		return true
	})
	return names
}

type waits struct {
	*goFile
	helper   string
	groups   map[string]bool
	paced    map[int]bool
	timers   map[string]bool // names assigned by time.After
	findings []Finding
}

func (w *waits) add(n ast.Node, what, remedy string) {
	w.findings = append(w.findings, w.finding(n, what, remedy))
}

// loops finds loops that poll: with a pause in them, or with an empty body.
func (w *waits) loops() {
	ast.Inspect(w.File, func(n ast.Node) bool {
		switch loop := n.(type) {
		case *ast.ForStmt:
			if len(loop.Body.List) == 0 && loads(loop.Cond) {
				w.add(loop, "a loop that only polls", w.until())
				return true
			}
			if loop.Init != nil && loop.Post != nil && loop.Cond != nil && counts(loop.Post) {
				return true // a counted loop
			}
			w.pauses(loop.Body)
			w.pauses(loop.Post)
		case *ast.RangeStmt:
			if call, ok := loop.X.(*ast.CallExpr); ok && isCall(call.Fun, "time", "Tick") && !w.paced[w.line(call)] {
				w.add(loop, "a loop that polls by a ticker", w.until())
			}
		}
		return true
	})
}

func (w *waits) until() string {
	return "use " + w.helper + ".Until, which has a deadline; a pause that waits for nothing ends its line with // paces: and the reason"
}

// counts reports whether a loop's post statement is i++ or the like.
func counts(post ast.Stmt) bool {
	_, ok := post.(*ast.IncDecStmt)
	return ok
}

// loads reports whether a condition reads an atomic value, which another goroutine has to change.
func loads(cond ast.Expr) (found bool) {
	if cond != nil {
		ast.Inspect(cond, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			found = found || ok && len(call.Args) == 0 && last(call.Fun) == "Load"
			return true
		})
	}
	return found
}

// pauses finds the pauses in a loop's body, excluding inner loops.
func (w *waits) pauses(body ast.Node) {
	if body == nil {
		return
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if w.isDeadline(n) {
				return false
			}
		case *ast.SelectorExpr:
			for _, pause := range [][2]string{{"time", "Sleep"}, {"time", "After"}, {"runtime", "Gosched"}} {
				if isCall(n, pause[0], pause[1]) && !w.paced[w.line(n)] {
					w.add(n, "a loop that pauses by "+pause[0]+"."+pause[1], w.until())
				}
			}
		}
		return true
	})
}

// body finds bare waits in code that runs on a test's goroutine: a function with a test parameter, excluding
// the functions in it that run on other goroutines.
func (w *waits) body(body ast.Node) {
	var inspect func(ast.Node) bool
	inspect = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return takesTest(n.Type)
		case *ast.GoStmt:
			return false
		case *ast.DeferStmt:
			w.same(n.Call.Fun, inspect)
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Cleanup" && len(n.Args) == 1 {
				w.same(n.Args[0], inspect)
			}
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Wait" && len(n.Args) == 0 && w.groups[last(s.X)] {
				w.add(n, "waits for a sync.WaitGroup without a deadline", "use "+w.helper+".Group")
			}
		case *ast.SelectStmt:
			if !w.bounded(n) {
				w.add(n, "a select without a deadline", "add a case of a time-out, or use "+w.helper+".Receive")
			}
			for _, clause := range n.Body.List {
				for _, stmt := range clause.(*ast.CommClause).Body {
					ast.Inspect(stmt, inspect)
				}
			}
			return false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				w.add(n, "receives from a channel without a deadline", "use "+w.helper+".Receive")
			}
		}
		return true
	}
	ast.Inspect(body, inspect)
}

// same inspects a function literal that runs on the same goroutine as the surrounding code.
func (w *waits) same(fn ast.Expr, inspect func(ast.Node) bool) {
	if lit, ok := fn.(*ast.FuncLit); ok && !takesTest(lit.Type) {
		ast.Inspect(lit.Body, inspect)
	}
}

// isDeadline reports whether a call is time.After(helper.Limit).
func (w *waits) isDeadline(call *ast.CallExpr) bool {
	return isCall(call.Fun, "time", "After") && len(call.Args) == 1 && isCall(call.Args[0], w.helper, "Limit")
}

// bounded reports whether a select has a default, a timer, or a context's Done.
func (w *waits) bounded(s *ast.SelectStmt) bool {
	for _, clause := range s.Body.List {
		comm := clause.(*ast.CommClause).Comm
		if comm == nil {
			return true
		}
		timed := false
		ast.Inspect(comm, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.SelectorExpr:
				timed = timed || x.Sel.Name == "Done" || x.Sel.Name == "C" || isCall(x, "time", "After")
			case *ast.Ident:
				timed = timed || w.timers[x.Name]
			}
			return true
		})
		if timed {
			return true
		}
	}
	return false
}

// takesTest reports whether a function has a test parameter that can stop the test.
func takesTest(fn *ast.FuncType) bool {
	for _, p := range fn.Params.List {
		of := p.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if isCall(of, "testing", "T") || isCall(of, "testing", "TB") || isCall(of, "testing", "F") {
			return true
		}
	}
	return false
}

// ownTest reports whether a method has its test in a field, and marks itself a helper of it.
func ownTest(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	stmt, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok || last(call.Fun) != "Helper" {
		return false
	}
	_, field := call.Fun.(*ast.SelectorExpr).X.(*ast.SelectorExpr)
	return field
}

// isCall reports whether an expression is pkg.name.
func isCall(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// last returns the last name of a.b.c.
func last(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
