package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

// retiredParts returns the words that no declared name contains, each with its replacement: idioms where the glossary
// (docs/reference/glossary.md) has a term.
func retiredParts() map[string]string {
	return map[string]string{
		"anew": "a verb with re-", "answer": "response or result", "answers": "responses or results", "answered": "responded",
		"everybody": "the subject", "nobody": "the subject", "somebody": "the subject", "who": "the subject", "whoever": "the subject", "whose": "the owner",
		"tell": "report or notify", "tells": "reports", "telling": "reporting", "told": "reported or notified",
	}
}

// Words checks the comments of Go files, tests included, and the names that they declare: neither uses a retired word.
// Generated files and directives are not checked.
func Words(t *Tree) ([]Finding, error) {
	files, err := t.goFiles(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	words, parts := retiredWords(), retiredParts()
	var findings []Finding
	for _, f := range files {
		if ast.IsGenerated(f.File) {
			continue
		}
		for _, group := range f.Comments {
			if strings.HasPrefix(group.Text(), "Output:") { // of an example
				continue
			}
			for _, c := range group.List {
				findings = append(findings, f.commentWords(c, words)...)
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			for _, id := range declared(n) {
				for _, part := range nameParts(id.Name) {
					if write, ok := parts[part]; ok {
						findings = append(findings, Finding{fmt.Sprintf("%s:%d", f.name, f.line(id)), fmt.Sprintf("the name %s contains %q", id.Name, part), "name it by " + write})
					}
				}
			}
			return true
		})
	}
	return findings, nil
}

var directive = regexp.MustCompile(`^//[a-z]+:|^//nolint`)

// commentWords reports the first retired word of each line of a comment.
func (f *goFile) commentWords(c *ast.Comment, words vocabulary) (findings []Finding) {
	if directive.MatchString(c.Text) {
		return nil
	}
	for i, line := range strings.Split(c.Text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "/*"))
		if line != "" && unicode.IsLower(rune(line[0])) {
			line = "· " + line // it continues a sentence
		}
		if found, ok := retired(words, prose(quotation.ReplaceAllString(line, "·"))); ok {
			p := f.fset.Position(c.Pos())
			found.Where = fmt.Sprintf("%s:%d", f.name, p.Line+i)
			findings = append(findings, found)
		}
	}
	return findings
}

var quotation = regexp.MustCompile(`"[^"]*"`)

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok.String() != ":=" {
			return nil
		}
		var names []*ast.Ident
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok {
				names = append(names, id)
			}
		}
		return names
	}
	return nil
}

// nameParts splits a name at changes of case, digits and underscores: readHTTPAnswer is read, http and the last word.
func nameParts(name string) (parts []string) {
	start, r := 0, []rune(name)
	cut := func(end int) {
		if end > start {
			parts = append(parts, strings.ToLower(string(r[start:end])))
		}
		start = end
	}
	for i := 1; i < len(r); i++ {
		switch {
		case !unicode.IsLetter(r[i]):
			cut(i)
			start = i + 1
		case unicode.IsUpper(r[i]) && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])):
			cut(i)
		}
	}
	cut(len(r))
	return parts
}
