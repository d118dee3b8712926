package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

// Words checks that the comments of Go files, tests included, use no retired word. Generated files and directives are not checked.
func Words(t *Tree) ([]Finding, error) {
	files, err := t.goFiles(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	words := retiredWords()
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
