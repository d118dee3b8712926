package archtest

import (
	"fmt"
	"regexp"
	"strings"
)

const securityFile = "SECURITY.md"

// testName matches the name of a test in a document.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`")

// Security checks that each promise of SECURITY.md, an item that starts with a bold sentence below "What Tare
// promises", names at least one test, and that every test named there exists.
func Security(t *Tree) ([]Finding, error) {
	text, err := t.read(securityFile)
	if err != nil {
		return nil, err
	}
	tests, err := t.testNames()
	if err != nil {
		return nil, err
	}
	_, promises, ok := strings.Cut(string(text), "\n## What Tare promises\n")
	if !ok {
		return []Finding{{securityFile, "has no section What Tare promises", "write it"}}, nil
	}
	promises, _, _ = strings.Cut(promises, "\n## ")
	var findings []Finding
	items := strings.Split("\n"+promises, "\n- **")
	for _, item := range items[1:] {
		title, _, _ := strings.Cut(item, "**")
		if !testName.MatchString(item) {
			findings = append(findings, Finding{securityFile, fmt.Sprintf("the promise %q names no test", title), "name the test that holds it"})
		}
	}
	if len(items) < 2 {
		findings = append(findings, Finding{securityFile, "has no promises", "list them as bold items"})
	}
	for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
		if !tests[m[1]] {
			findings = append(findings, Finding{securityFile, m[1] + " does not exist", "name the test that holds the promise"})
		}
	}
	return findings, nil
}

// testFunction is the head of a test or fuzz target.
var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)

// testNames returns the names of all tests, including those behind build tags.
func (t *Tree) testNames() (map[string]bool, error) {
	names := make(map[string]bool)
	for _, name := range t.Files {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	return names, nil
}
