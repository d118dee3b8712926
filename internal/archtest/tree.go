package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"iter"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Tree is the module being checked.
type Tree struct {
	Root     string // absolute directory
	Module   string
	Packages []Package
	Files    []string // relative slash paths of files that git tracks or would track

	parsed []*goFile
}

// A Package is the output of go list for one package.
type Package struct {
	ImportPath, Name                            string
	GoFiles, Imports, TestImports, XTestImports []string
}

// A Finding is one violation of a rule.
type Finding struct {
	Where  string // file, file:line or package, relative to the module
	What   string
	Remedy string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s; %s", f.Where, f.What, f.Remedy) }

// Checks returns the rules by name.
func Checks() map[string]func(*Tree) ([]Finding, error) {
	return map[string]func(*Tree) ([]Finding, error){
		"rooms": checkRooms, "files": checkFiles, "names": checkNames, "modules": checkModules, "apart": checkApart, "code": checkCode, "escapes": checkEscapes, "patterns": checkPatterns,
	}
}

// Ledgers of permitted exceptions, each with the reason.
const (
	exceptionsFile = "internal/archtest/testdata/exceptions.txt"
	escapeFile     = "internal/archtest/testdata/escape.txt"
)

// ledger returns the entries of a ledger by their line; a tree without the file has none.
func (t *Tree) ledger(name string) iter.Seq2[int, string] {
	return func(yield func(line int, entry string) bool) {
		text, _ := t.read(name)
		for n, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !yield(n+1, line) {
				return
			}
		}
	}
}

// Load reads the module whose root directory is given.
func Load(root string) (*Tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root}
	out, err := t.command("go", "list", "-m")
	if err != nil {
		return nil, err
	}
	t.Module = strings.TrimSpace(string(out))
	if t.Files, err = t.listFiles(); err != nil {
		return nil, err
	}
	out, err = t.command("go", "list", "-e", "-json=ImportPath,Name,GoFiles,Imports,TestImports,XTestImports", "./...") // unresolved imports are listed too
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return t, t.parse()
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		// A directory without a tracked file is a developer's scratch directory.
		if dir, _ := t.short(p.ImportPath); dir == "." || slices.ContainsFunc(t.Files, func(f string) bool { return within(f, dir) }) {
			t.Packages = append(t.Packages, p)
		}
	}
}

// command runs a program in the module's root and returns its output.
func (t *Tree) command(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.Root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// listFiles runs git ls-files.
func (t *Tree) listFiles() (files []string, err error) {
	out, err := t.command("git", "-c", "safe.directory="+t.Root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(t.Root, name)); err == nil { // not one that is being removed
			files = append(files, name)
		}
	}
	return files, err
}

// short returns an import path relative to the module, and whether it belongs to the module.
func (t *Tree) short(importPath string) (string, bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// within reports whether a path is parent or below it.
func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// read returns the content of a file of the tree.
func (t *Tree) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(t.Root, filepath.FromSlash(name)))
}

// A goFile is a parsed source file.
type goFile struct {
	name   string
	linked bool // it is part of a package, and not of its tests
	fset   *token.FileSet
	text   []byte
	*ast.File
}

// parse parses the Go files outside of testdata.
func (t *Tree) parse() error {
	linked := make(map[string]bool)
	for _, p := range t.Packages {
		for _, name := range p.GoFiles {
			dir, _ := t.short(p.ImportPath)
			linked[path.Join(dir, name)] = true
		}
	}
	for _, name := range t.Files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		f := &goFile{name: name, linked: linked[name], fset: token.NewFileSet()}
		var err error
		if f.text, err = t.read(name); err != nil {
			return err
		}
		if f.File, err = parser.ParseFile(f.fset, name, f.text, parser.SkipObjectResolution); err != nil {
			return err
		}
		t.parsed = append(t.parsed, f)
	}
	return nil
}

func (f *goFile) line(at token.Pos) int { return f.fset.Position(at).Line }

// function returns the name of the function that contains a line, "-" if there is none.
func (f *goFile) function(line int) string {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && f.line(fn.Pos()) <= line && line <= f.line(fn.End()) {
			return fn.Name.Name
		}
	}
	return "-"
}

// imports reports whether a file imports a package.
func (f *goFile) imports(wanted string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(wanted) })
}

// receiver returns "(*Type)." or "Type." for a method, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ, _, _ := strings.Cut(types.ExprString(f.Recv.List[0].Type), "[") // without parameters
	if strings.HasPrefix(typ, "*") {
		typ = "(" + typ + ")"
	}
	return typ + "."
}
