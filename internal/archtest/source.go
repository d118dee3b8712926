package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// A goFile is a parsed source file.
type goFile struct {
	name string
	fset *token.FileSet
	*ast.File
}

func (f *goFile) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

func (f *goFile) finding(n ast.Node, what, remedy string) Finding {
	return Finding{fmt.Sprintf("%s:%d", f.name, f.line(n)), what, remedy}
}

// parse parses a file of the tree once. Its callers share the result.
func (t *Tree) parse(name string) (*goFile, error) {
	parse, _ := t.parsed.LoadOrStore(name, sync.OnceValues(func() (*goFile, error) {
		f := &goFile{name: name, fset: token.NewFileSet()}
		var err error
		f.File, err = parser.ParseFile(f.fset, filepath.Join(t.Root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
		return f, err
	}))
	return parse.(func() (*goFile, error))()
}

// goFiles parses the Go files outside of testdata that keep accepts.
func (t *Tree) goFiles(keep func(name string) bool) ([]*goFile, error) {
	var files []*goFile
	for _, name := range t.Files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+path.Dir(name)+"/", "/testdata/") || !keep(name) {
			continue
		}
		f, err := t.parse(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// linkedFiles parses the files of the packages, excluding tests.
func (t *Tree) linkedFiles() ([]*goFile, error) {
	var files []*goFile
	for _, p := range t.Packages {
		for _, name := range p.GoFiles {
			f, err := t.parse(t.rel(filepath.Join(p.Dir, name)))
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// endings returns the lines that have a comment which starts with one of the words.
func (f *goFile) endings(words ...string) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range f.Comments {
		for _, c := range group.List {
			for _, word := range words {
				if strings.HasPrefix(c.Text, word) {
					lines[f.line(c)] = true
				}
			}
		}
	}
	return lines
}
