package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// valuesText has, for types of the list, how a text is parsed and the text.
//
//go:embed values.txt
var valuesText string

// realTest is the test file that measures real values; the words in capitals are replaced.
//
//go:embed realtest.txt
var realTest string

// sizerVersion is that of the other sizer.
const sizerVersion = "v1.5.0"

// A recipe is a section of values.txt.
type recipe struct {
	imports, parse, text string
	directives           []suggestion // that only real values call for
	strings              string       // least number of strings of a value with its root's name: 1 if its type has none
}

// recipeOf returns the recipe of a type.
func recipeOf(name string) (r recipe, found bool) {
	_, section, found := strings.Cut(valuesText, "\n=== "+name+"\n")
	if !found {
		return r, false
	}
	section, _, _ = strings.Cut(section, "\n=== ")
	code, text, _ := strings.Cut(section, "\n---\n")
	r.text, r.strings = strings.TrimSpace(text)+"\n", "2"
	for line := range strings.Lines(code) {
		if path, ok := strings.CutPrefix(line, "import "); ok {
			r.imports += path
		} else if line == "// no strings\n" {
			r.strings = "1"
		} else if strings.HasPrefix(line, "//sizegen:") {
			r.directives = append(r.directives, suggestion{text: strings.TrimSpace(line)})
		} else {
			r.parse += line
		}
	}
	return r, true
}

// real measures real values, detached, beside the heap and other sizes, and overwrites the text that they come from.
func (c *corpus) real(e entry, dir string, r *result) error {
	recipe, found := recipeOf(e.name)
	if !found {
		return fmt.Errorf("values.txt has no values of %s", e.name)
	}
	i := strings.LastIndexByte(e.name, '.')
	test := strings.NewReplacer("PACKAGE", e.name[:i], "TYPE", e.name[i+1:], "//IMPORTS", recipe.imports, "//PARSE", recipe.parse,
		"LEAST", recipe.strings, "SOURCE", strconv.Quote(recipe.text)).Replace(realTest)
	if err := os.WriteFile(filepath.Join(dir, "real_test.go"), []byte(test), 0o644); err != nil {
		return err
	}
	if out, err := command(dir, "go", "test", "-mod=mod", "-vet=off", "-c", "-o", os.DevNull, "."); err != nil {
		return fmt.Errorf("compile the values: %s", lastLine(out))
	}
	out, err := command(dir, c.sizegen, "-measure", ".")
	if len(recipe.directives) > 0 {
		if err == nil || !insideError.Match(out) {
			return fmt.Errorf("without its directive, no field is named that points into another object: %s", lastLine(out))
		}
		r.directives += len(recipe.directives)
		// A directive names fields of packages that the root's depends on.
		deps := "package m\n\nimport (\n" + strings.ReplaceAll("\n"+recipe.imports, "\n\"", "\n_ \"") + ")\n"
		if err := os.WriteFile(filepath.Join(dir, "deps.go"), []byte(deps), 0o644); err != nil {
			return err
		}
		if err := paste(filepath.Join(dir, "root.go"), recipe.directives); err != nil {
			return err
		}
		out, err = command(dir, c.sizegen, "-measure", ".")
	}
	m := realValues.FindStringSubmatch(string(out))
	if stop := walkError.Find(out); m == nil && stop != nil {
		r.problem = "real values are an error: " + string(stop)
		return nil
	}
	if m == nil {
		return fmt.Errorf("measure: %s", refusal(string(out)))
	}
	r.note(err, out)
	r.accounted, r.heap = number(m[1]), number(m[2])
	if out, err := command(dir, c.sizegen, "."); err != nil {
		return fmt.Errorf("generate: %s", lastLine(out))
	}
	out, err = command(dir, "go", "test", "-count=1", "-vet=off", "-v", "-run", "^(TestDetached|TestSizers)$", ".")
	s := sizersLine.FindStringSubmatch(string(out))
	if err != nil || s == nil {
		return fmt.Errorf("detach: %s", strings.TrimSpace(detachError.FindString(string(out))+" "+lastLine(out)))
	}
	objects := number(s[1])
	r.node, r.reflected = float64(number(s[2]))/float64(objects), number(s[3])
	r.reflectedNode, r.texts = float64(number(s[4]))/float64(objects), number(s[5])
	return nil
}

var (
	insideError = regexp.MustCompile(`size of \S+: it points to \d+ bytes`)
	walkError   = regexp.MustCompile(`size of \S+: no walk is known .*`)
	realValues  = regexp.MustCompile(`values of values, detached, (\d+) bytes accounted, (\d+) real, `)
	sizersLine  = regexp.MustCompile(`(?m)^sizers: (\d+) (\d+) (\d+) (\d+) (\d+)$`)
	detachError = regexp.MustCompile(`(?m)^    real_test\.go.*$`)
)

// number returns a number that an expression has matched.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// off formats the error of a sizer; – if it has no size.
func off(n, heap int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.2f %%", 100*float64(n-heap)/float64(heap))
}
