package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// exceptions list reviewed exceptions from a rule, one per line: file, function, reason. A function "*" means
// the whole file, or the directory if the file ends in /.
type exceptions struct {
	name  string
	lines map[string]int // "file function" to its line number
	used  map[string]bool
}

func readExceptions(name, text string) (*exceptions, error) {
	l := &exceptions{name: name, lines: make(map[string]int), used: make(map[string]bool)}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("line %d of %s: want a file, a function and the reason", n, name)
		}
		l.lines[words[0]+" "+words[1]] = n
	}
	return l, nil
}

// allows reports whether a function of a file is listed.
func (l *exceptions) allows(file, function string) bool {
	keys := []string{file + " " + function, file + " *"}
	for dir := file; strings.Contains(dir, "/"); {
		dir = dir[:strings.LastIndexByte(dir, '/')]
		keys = append(keys, dir+"/ *")
	}
	for _, key := range keys {
		if l.lines[key] != 0 {
			l.used[key] = true
			return true
		}
	}
	return false
}

// stale returns the lines that allowed nothing.
func (l *exceptions) stale() (findings []Finding) {
	for key, line := range l.lines {
		if !l.used[key] {
			findings = append(findings, Finding{fmt.Sprintf("%s:%d", l.name, line), "nothing to allow in " + key, "remove the line"})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Where, b.Where) })
	return findings
}
