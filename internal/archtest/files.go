package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const maxLines = 600

// bannedNames say nothing about a package's contents.
var bannedNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "pkg", "shared", "base"}

// Sizes checks the maximum length of files.
func Sizes(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, name := range t.Files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines && !generated(text) {
			findings = append(findings, Finding{
				name, fmt.Sprintf("%d lines, at most %d", n, maxLines),
				"split it by concept, one noun a file",
			})
		}
	}
	return findings, nil
}

// Formats checks that Go files are formatted as gofmt does it. Files in testdata may be anything.
func Formats(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, name := range t.Files {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
			findings = append(findings, Finding{name, "not formatted", "run gofmt -w on it"})
		}
	}
	return findings, nil
}

var generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func generated(text []byte) bool { return generatedLine.Match(text) }

// Names checks that no directory has a meaningless name.
func Names(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, p := range t.Packages {
		dir, _ := t.short(p.ImportPath)
		for element := range strings.SplitSeq(dir, "/") {
			if slices.Contains(bannedNames, element) {
				findings = append(findings, Finding{dir, "is named " + element, "name it after what it holds, in the field's words"})
			}
		}
	}
	return findings, nil
}

// Docs checks that each package has a doc.go with its comment.
func Docs(t *Tree) ([]Finding, error) {
	var findings []Finding
	for _, p := range t.Packages {
		dir, _ := t.short(p.ImportPath)
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
			continue // tests only
		}
		finding := Finding{dir, "has no doc.go with a package comment", "write one: what the package is, its terms, its data flow, what it does not do"}
		if !slices.Contains(p.GoFiles, "doc.go") {
			findings = append(findings, finding)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, "doc.go"), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		subject := "Package " + p.Name + " "
		if p.Name == "main" {
			subject = "Command " + path.Base(dir) + " "
		}
		if file.Doc == nil {
			findings = append(findings, finding)
		} else if !strings.HasPrefix(file.Doc.Text(), subject) {
			findings = append(findings, Finding{dir + "/doc.go", "the comment does not begin with " + strings.TrimSpace(subject), "let it, as go doc shows the first sentence"})
		}
	}
	return findings, nil
}

// Inits checks that no package works before main: that would slow every start of every binary that links it,
// and cannot return an error.
func Inits(t *Tree) ([]Finding, error) {
	files, err := t.linkedFiles()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range files {
		if ast.IsGenerated(f.File) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				findings = append(findings, f.finding(fn, "an init function", "let a constructor do it, or sync.OnceValue on first use"))
			}
		}
	}
	return findings, nil
}

// foreignPath matches paths of a developer's machine and hosts of private package registries, which are
// introduced by pasted output.
var foreignPath = regexp.MustCompile(`(?:^|[\s"'=(:,\x60])/(?:work|root|home/\w+|Users/\w+)/[\w.-]+|` +
	`https?://(?:[\w.-]*(?:artifactory|nexus)[\w.-]*|(?:10|172|192)\.\d+\.\d+\.\d+)[:/]`)

// Paths checks that no file names a path or a registry of the machine it was written on.
func Paths(t *Tree, except string) ([]Finding, error) {
	var findings []Finding
	for _, name := range t.Files {
		if within(name, except) {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue // binary
		}
		n := 0
		for line := range bytes.Lines(text) {
			n++
			m := foreignPath.Find(line)
			if m == nil {
				continue
			}
			findings = append(findings, Finding{
				fmt.Sprintf("%s:%d", name, n), fmt.Sprintf("names %q of some machine", strings.Trim(string(m), " \t\"'=(:,`")),
				"use a path inside the module, a temporary directory or a public address",
			})
		}
	}
	return findings, nil
}
