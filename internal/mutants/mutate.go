package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one change of a file.
type mutant struct {
	file     string // path
	line     int
	function string
	kind     string
	offset   int // of before in the file
	before   string
	after    string
	nth      int // 0 for the first change of its function that reads the same
}

// key identifies a mutant while the lines above it change.
func (m *mutant) key() string {
	key := fmt.Sprintf("%s %s: %s: %s => %s", m.file, m.function, m.kind, oneLine(m.before), oneLine(m.after))
	if m.nth > 0 {
		key += fmt.Sprintf(" (%d)", m.nth+1)
	}
	return key
}

// oneLine returns a piece of source in one line, shortened.
func oneLine(s string) string {
	const most = 120
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// apply returns the file's text with the change.
func (m *mutant) apply(text []byte) []byte {
	return slices.Concat(text[:m.offset], []byte(m.after), text[m.offset+len(m.before):])
}

// swaps are the operators that are exchanged for others.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GTR}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ, token.LSS}, token.GEQ: {token.GTR},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND}, token.ADD: {token.SUB}, token.SUB: {token.ADD},
}

// mutantsOf returns the mutants of a package's files that are built here, without generated ones and tests.
func mutantsOf(dir string, files []string) ([]mutant, error) {
	var all []mutant
	for _, name := range files {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(path, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// mutantsIn returns the mutants of one file.
func mutantsIn(path string, text []byte) ([]mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	f := &fileMutants{set: set, path: path, text: text}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		f.function = functionName(fn)
		ast.Inspect(fn.Body, f.visit)
	}
	seen := make(map[string]int)
	for i := range f.all {
		key := f.all[i].key()
		f.all[i].nth = seen[key]
		seen[key]++
	}
	return f.all, nil
}

// functionName returns a function's name with its receiver's type.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// fileMutants collects the mutants of a file.
type fileMutants struct {
	set      *token.FileSet
	path     string
	text     []byte
	function string
	all      []mutant
}

func (f *fileMutants) add(kind string, from, to token.Pos, after string) {
	start, end := f.set.Position(from), f.set.Position(to)
	f.all = append(f.all, mutant{f.path, start.Line, f.function, kind, start.Offset, string(f.text[start.Offset:end.Offset]), after, 0})
}

func (f *fileMutants) source(n ast.Node) string {
	return string(f.text[f.set.Position(n.Pos()).Offset:f.set.Position(n.End()).Offset])
}

func (f *fileMutants) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return !isPanic(n)
	case *ast.BinaryExpr:
		for _, op := range swaps[n.Op] {
			f.add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String())
		}
	case *ast.IfStmt:
		f.condition(n)
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.number(n)
		}
	case *ast.BlockStmt:
		for _, s := range n.List {
			f.statement(s)
		}
	case *ast.CaseClause:
		for _, s := range n.Body {
			f.statement(s)
		}
	case *ast.CommClause:
		for _, s := range n.Body {
			f.statement(s)
		}
	}
	return true
}

// isPanic reports whether an expression is a call of panic: an assertion, which no test reaches.
func isPanic(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == "panic"
}

// condition negates the condition of an if, or has an error pass.
func (f *fileMutants) condition(n *ast.IfStmt) {
	text := f.source(n.Cond)
	if strings.HasSuffix(text, "rr != nil") && n.Else == nil {
		f.add("error passes", n.Cond.Pos(), n.Cond.End(), "("+text+") && false")
		return
	}
	f.add("negation", n.Cond.Pos(), n.Cond.End(), "!("+text+")")
}

func (f *fileMutants) number(n *ast.BasicLit) {
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if err != nil {
		return
	}
	f.add("number", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
}

// statement leaves a statement out, or has it return no error.
func (f *fileMutants) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE || s.Tok == token.BREAK {
			f.add("no "+s.Tok.String(), s.Pos(), s.End(), "{}")
		}
	case *ast.ExprStmt:
		if !isPanic(s.X) {
			f.add("no statement", s.Pos(), s.End(), "{}")
		}
	case *ast.DeferStmt, *ast.IncDecStmt, *ast.SendStmt:
		f.add("no statement", s.Pos(), s.End(), "{}")
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			f.add("no assignment", s.Pos(), s.End(), "{}")
		}
	case *ast.ReturnStmt:
		if len(s.Results) == 0 {
			return
		}
		last := s.Results[len(s.Results)-1]
		if id, ok := last.(*ast.Ident); ok && id.Name == "err" {
			f.add("nil error", last.Pos(), last.End(), "nil")
		}
	}
}

// draw returns all mutants in a random order in which the kinds take turns.
func draw(all []mutant, rnd *rand.Rand) []mutant {
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	turn := make(map[string]int)
	type ranked struct {
		mutant
		turn int
	}
	order := make([]ranked, len(all))
	for i, m := range all {
		order[i] = ranked{m, turn[m.kind]}
		turn[m.kind]++
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return a.turn - b.turn })
	for i := range order {
		all[i] = order[i].mutant
	}
	return all
}
