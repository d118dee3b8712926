package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

const stagesFile = ".ci/e2e.stages"

var (
	makeVariable = regexp.MustCompile(`(?m)^([A-Z0-9]+) :?= (.*)`)
	makeUse      = regexp.MustCompile(`\$\(([A-Z0-9]+)\)|"?\$([A-Z][A-Z0-9]*)"?`)
	testPattern  = regexp.MustCompile(`(?:-run|-skip|conform) (?:'([^']*)'|([^\s'-]\S*))`)
	testModule   = regexp.MustCompile(`go test -C (\S+)`)
)

// checkPatterns checks that each alternative of the patterns of tests that the Makefile and the stages of make e2e run or skip matches a
// test of the packages on these lines, and that a table describes each stage.
func checkPatterns(t *Tree) (findings []Finding, err error) { //nolint:unparam // the type of checks
	tests := make(map[string][]string) // by directory
	for _, f := range t.parsed {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasSuffix(f.name, "_test.go") && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[path.Dir(f.name)] = append(tests[path.Dir(f.name)], fn.Name.Name)
			}
		}
	}
	variables := make(map[string]string)
	type use struct {
		where string
		dirs  map[string]bool
	}
	uses := make(map[string]*use) // by pattern
	for _, name := range []string{"Makefile", stagesFile} {
		text, _ := t.read(name) // a tree without the file runs nothing
		if name == "Makefile" {
			for _, m := range makeVariable.FindAllStringSubmatch(string(text), -1) {
				variables[m[1]] = strings.ReplaceAll(m[2], "$$", "$")
			}
		}
		for n, line := range strings.Split(string(text), "\n") {
			if name == "Makefile" {
				line = strings.ReplaceAll(line, "$$", "$")
			}
			for range 3 { // variables name others
				line = makeUse.ReplaceAllStringFunc(line, func(use string) string {
					m := makeUse.FindStringSubmatch(use)
					if value, ok := variables[m[1]+m[2]]; ok && strings.HasPrefix(use, `"`) {
						return "'" + value + "'"
					} else if ok {
						return value
					}
					return use
				})
			}
			dirs := packagesOf(line)
			for _, m := range testPattern.FindAllStringSubmatch(line, -1) {
				pattern, _, _ := strings.Cut(m[1]+m[2], "/")
				if len(dirs) == 0 || pattern == "^$" {
					continue // all packages, or benchmarks
				}
				if uses[pattern] == nil {
					uses[pattern] = &use{fmt.Sprintf("%s:%d", name, n+1), make(map[string]bool)}
				}
				for _, dir := range dirs {
					uses[pattern].dirs[dir] = true
				}
			}
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(uses)) {
		u := uses[pattern]
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			findings = append(findings, Finding{u.where, err.Error(), "correct the pattern"})
			continue
		}
		for _, one := range alternatives(parsed) {
			matches := regexp.MustCompile(one).MatchString
			if !slices.ContainsFunc(slices.Collect(maps.Keys(u.dirs)), func(dir string) bool { return slices.ContainsFunc(tests[dir], matches) }) {
				findings = append(findings, Finding{u.where, "no test of these packages matches " + readable(one), "name the test, and its package, that replaced it"})
			}
		}
	}
	table, _ := t.read("e2e/README.md")
	for n, entry := range t.ledger(stagesFile) {
		name, _, _ := strings.Cut(entry, " ")
		if !strings.Contains(string(table), "`"+name+"`") {
			findings = append(findings, Finding{fmt.Sprintf("%s:%d", stagesFile, n), "e2e/README.md does not describe stage " + name, "add it to the table"})
		}
	}
	return findings, nil
}

// packagesOf returns the directories of packages that a line of a shell tests.
func packagesOf(line string) (dirs []string) {
	switch {
	case strings.Contains(line, "e2e/run "):
		return []string{"e2e"}
	case strings.Contains(line, "conform "):
		return []string{"e2e/conformance"}
	}
	module := "."
	if m := testModule.FindStringSubmatch(line); m != nil {
		module = m[1]
	}
	for word := range strings.FieldsSeq(line) {
		if dir, ok := strings.CutPrefix(word, "./"); ok && dir != "..." {
			dirs = append(dirs, path.Join(module, dir))
		}
	}
	return dirs
}

// readable returns a pattern that syntax has written, as a person would write it.
func readable(pattern string) string {
	if re, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		pattern = re.Simplify().String()
	}
	if inner, ok := strings.CutSuffix(pattern, ")"); ok && strings.HasPrefix(inner, "(?-") {
		_, pattern, _ = strings.Cut(inner, ":")
	}
	return strings.ReplaceAll(pattern, `\A`, "^")
}

// alternatives returns patterns that together match the same as one: each has one alternative of one group, and all of the others.
func alternatives(re *syntax.Regexp) (patterns []string) {
	switch re.Op {
	case syntax.OpCapture:
		return alternatives(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			patterns = append(patterns, alternatives(sub)...)
		}
		return patterns
	case syntax.OpConcat:
		for n, sub := range re.Sub {
			of := alternatives(sub)
			if len(of) == 1 && len(re.Sub) > 1 {
				continue // a part without alternatives is in the patterns of the others
			}
			for _, one := range of {
				var pattern strings.Builder
				for other, sub := range re.Sub {
					part := one
					if other != n {
						part = sub.String()
					}
					pattern.WriteString("(?:" + part + ")")
				}
				patterns = append(patterns, pattern.String())
			}
		}
		if patterns != nil {
			return patterns
		}
	}
	return []string{re.String()}
}
