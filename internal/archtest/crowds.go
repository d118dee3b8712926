package archtest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const maxFiles = 40

// Crowds checks that no package has more files, excluding tests, than a reader can survey. Text lists
// exceptions: package, "*", reason; one may be unnecessary.
func Crowds(t *Tree, name, text string) ([]Finding, error) {
	l, err := readExceptions(name, text)
	if err != nil {
		return nil, err
	}
	files := make(map[string]int)
	for _, f := range t.Files {
		if strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go") && !strings.Contains(f, "testdata/") {
			files[path.Dir(f)]++
		}
	}
	var findings []Finding
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		if files[dir] > maxFiles && !l.allows(dir, "") {
			findings = append(findings, Finding{
				dir, fmt.Sprintf("%d files, at most %d", files[dir], maxFiles), "split it by subject, one package each",
			})
		}
	}
	return findings, nil
}
