package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A schema is the sources of a package with several mutants. Each mutant is a copy of its function, which the function calls if the
// mutant is selected. The sources have a number in place of an index: 1 for the first mutant.
type schema struct {
	files  map[string][]byte // by path
	ranges []lines           // the copies, then the functions that call them
}

// lines are those of a file that exist because of a mutant.
type lines struct {
	file         string // without its directory
	from, to, id int
}

// selector is the source that selects the mutant whose number is in the first two bytes of a file. The bytes behind, one for each mutant,
// are set to 1 when a statement with the mutant's place runs without it, in this process or in one that it starts.
const selector = `package %[1]s

import "syscall"

var mutant_selected, mutant_reached = func() (int, []byte) {
	fd, err := syscall.Open(%[2]q, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, make([]byte, %[3]d)
	}
	b, err := syscall.Mmap(fd, 0, %[3]d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return 0, make([]byte, %[3]d)
	}
	_ = syscall.Close(fd)
	return int(b[0]) | int(b[1])<<8, b
}()
`

// reachedAt returns where a mutant's byte is in the file that selects one, and selecting returns the file's content.
func reachedAt(id int) int { return id + 1 }

func selecting(id, mutants int) []byte {
	b := make([]byte, reachedAt(mutants)+1)
	b[0], b[1] = byte(id), byte(id>>8)
	return b
}

// newSchema returns the sources of a package with mutants, of which one is selected by the file named control.
func newSchema(dir, name, control string, mutants []mutant) (*schema, error) {
	s := &schema{files: make(map[string][]byte)}
	s.files[filepath.Join(dir, "mutant_selected.go")] = fmt.Appendf(nil, selector, name, control, len(selecting(0, len(mutants))))
	for _, m := range mutants {
		if s.files[m.file] != nil {
			continue
		}
		text, err := os.ReadFile(m.file)
		if err == nil {
			s.files[m.file], err = s.render(m.file, text, mutants)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// A replacement is text in place of length bytes of a file at an offset.
type replacement struct {
	offset, length int
	text           string
}

// render returns a file with those of the mutants that are its own. Lines keep their numbers; the copies follow them.
func (s *schema) render(path string, text []byte, mutants []mutant) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.PositionFor(p, false).Offset }
	var changes []replacement
	var functions []lines
	copies := []byte("\n")
	line := bytes.Count(text, copies) + 2
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		from, to, name := offset(fn.Pos()), offset(fn.End()), offset(fn.Name.End())
		call := ""
		for i, m := range mutants {
			if m.file != path || m.offset < from || m.offset >= to {
				continue
			}
			id := i + 1
			if call == "" {
				var named []replacement
				call, named = callOf(fn, offset)
				changes = append(changes, named...)
			}
			suffix := "_mutant" + strconv.Itoa(id)
			changes = append(changes,
				replacement{offset(fn.Body.Lbrace) + 1, 0, fmt.Sprintf(" if mutant_selected == %d { %s };", id, strings.Replace(call, "_mutant", suffix, 1))},
				replacement{statementAt(fn, m.offset, offset), 0, fmt.Sprintf(" mutant_reached[%d] = 1; ", reachedAt(id))})
			changed := m.apply(text)
			function := slices.Concat(changed[from:name], []byte(suffix), changed[name:to+len(m.after)-len(m.before)], []byte("\n"))
			next := line + bytes.Count(function, []byte("\n"))
			s.ranges = append(s.ranges, lines{filepath.Base(path), line, next - 1, id})
			functions = append(functions, lines{filepath.Base(path), set.PositionFor(fn.Pos(), false).Line, set.PositionFor(fn.End(), false).Line, id})
			copies, line = append(copies, function...), next
		}
	}
	s.ranges = append(s.ranges, functions...)
	slices.SortStableFunc(changes, func(a, b replacement) int { return a.offset - b.offset })
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, text[at:c.offset]...), c.text...)
		at = c.offset + c.length
	}
	return slices.Concat(out, text[at:], copies), nil
}

// callOf returns the statements that call a function's copy, whose name ends in _mutant, with all parameters, and the names of those that
// have none.
func callOf(fn *ast.FuncDecl, offset func(token.Pos) int) (call string, named []replacement) {
	var values []string
	list := func(fields *ast.FieldList) {
		if fields == nil {
			return
		}
		for _, field := range fields.List {
			dots := ""
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				dots = "..."
			}
			for _, id := range field.Names {
				value := id.Name
				if value == "_" {
					value = fmt.Sprintf("mutant_parameter%d", offset(id.Pos()))
					named = append(named, replacement{offset(id.Pos()), 1, value})
				}
				values = append(values, value+dots)
			}
			if len(field.Names) == 0 {
				value := fmt.Sprintf("mutant_parameter%d", offset(field.Type.Pos()))
				named = append(named, replacement{offset(field.Type.Pos()), 0, value + " "})
				values = append(values, value+dots)
			}
		}
	}
	call = fn.Name.Name + "_mutant"
	if fn.Recv != nil {
		list(fn.Recv)
		call, values = values[0]+"."+call, nil
	}
	if types := fn.Type.TypeParams; types != nil {
		var names []string
		for _, field := range types.List {
			for _, id := range field.Names {
				names = append(names, id.Name)
			}
		}
		call += "[" + strings.Join(names, ", ") + "]"
	}
	list(fn.Type.Params)
	call += "(" + strings.Join(values, ", ") + ")"
	if fn.Type.Results != nil {
		return "return " + call, named
	}
	return call + "; return", named
}

// statementAt returns the offset of the innermost statement of a list that contains an offset.
func statementAt(fn *ast.FuncDecl, at int, offset func(token.Pos) int) int {
	found := offset(fn.Body.Lbrace) + 1
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, s := range list {
			switch s.(type) {
			case *ast.CaseClause, *ast.CommClause: // no statement can precede it
			default:
				if offset(s.Pos()) <= at && at < offset(s.End()) {
					found = offset(s.Pos())
				}
			}
		}
		return true
	})
	return found
}

// overlay writes the sources below a directory and returns the flag that has the compiler read them.
func (s *schema) overlay(dir string) (flag string, err error) {
	replace := make(map[string]string)
	for path, text := range s.files {
		file, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[file], text, 0o600); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	list := filepath.Join(dir, "overlay.json")
	return "-overlay=" + list, errors.Join(err, os.WriteFile(list, content, 0o600))
}

// compileError is a position in what the compiler prints.
var compileError = regexp.MustCompile(`(?m)^(?:\S*/)?([^/\s:]+\.go):(\d+):`)

// invalid returns the numbers of the mutants that errors of the compiler are about.
func (s *schema) invalid(errors []byte) map[int]bool {
	ids := make(map[int]bool)
	for _, found := range compileError.FindAllSubmatch(errors, -1) {
		line, _ := strconv.Atoi(string(found[2]))
		if i := slices.IndexFunc(s.ranges, func(l lines) bool { return l.file == string(found[1]) && l.from <= line && line <= l.to }); i >= 0 {
			ids[s.ranges[i].id] = true
		}
	}
	return ids
}
