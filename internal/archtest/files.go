package archtest

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

const (
	maxLines   = 600 // of a Go file
	maxFiles   = 40  // of a package, excluding tests
	howToLines = 150 // of a page under docs/start, docs/tasks or docs/operate
)

var (
	generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	howTo         = regexp.MustCompile(`^docs/(start|tasks|operate)/[^/]+\.md$`)

	// foreignPath matches paths of a developer's machine and hosts of private package registries, which are
	// introduced by pasted output.
	foreignPath = regexp.MustCompile(`(?:^|[\s"'=(:,\x60])(/(?:work|root|home/\w+|Users/\w+)/[\w.-]+)|` +
		`(https?://(?:[\w.-]*(?:artifactory|nexus)[\w.-]*|(?:10|172|192)\.\d+\.\d+\.\d+))[:/]`)
)

// checkFiles checks the sizes of files and packages, and that no file names a path of the machine that it was written on.
func checkFiles(t *Tree) (findings []Finding, err error) {
	add := func(where, remedy, what string, args ...any) {
		findings = append(findings, Finding{where, fmt.Sprintf(what, args...), remedy})
	}
	files := make(map[string]int)
	for _, name := range t.Files {
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		lines := bytes.Count(text, []byte("\n"))
		if strings.HasSuffix(name, ".go") && lines > maxLines && !generatedLine.Match(text) {
			add(name, "split it by concept, one noun a file", "%d lines, at most %d", lines, maxLines)
		}
		if dir := path.Dir(name); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "testdata/") {
			if files[dir]++; files[dir] == maxFiles+1 {
				add(dir, "split it by subject, one package each", "more than %d files", maxFiles)
			}
		}
		if howTo.MatchString(name) && lines > howToLines {
			add(name, "move formats, fields and measurements to docs/reference or docs/background", "%d lines, at most %d", lines, howToLines)
		}
		if !within(name, "internal/archtest/testdata") && bytes.IndexByte(text[:min(len(text), 8000)], 0) < 0 {
			for n, line := range strings.Split(string(text), "\n") {
				if m := foreignPath.FindStringSubmatch(line); m != nil {
					add(fmt.Sprintf("%s:%d", name, n+1), "use a path inside the module, a temporary directory or a public address", "names %q of some machine", m[1]+m[2])
				}
			}
		}
	}
	return findings, nil
}
