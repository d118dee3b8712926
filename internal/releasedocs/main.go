package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// documents are the files and directories of the repository that an archive has.
func documents() []string {
	return []string{"CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "deploy", "docs"}
}

// repository is the address of the source.
const repository = "https://github.com/taredb/tare"

func main() {
	version := flag.String("version", "", "tag of the release, such as v0.1.0")
	from := flag.String("from", ".", "root of the repository")
	to := flag.String("to", "", "directory of the archive")
	flag.Parse()
	if err := run(*from, *to, *version); err != nil {
		fmt.Fprintf(os.Stderr, "releasedocs: %v\n", err)
		os.Exit(1)
	}
}

func run(from, to, version string) error {
	if to == "" || version == "" {
		return fmt.Errorf("want -to and -version")
	}
	for _, root := range documents() {
		err := filepath.WalkDir(filepath.Join(from, root), func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, file)
			if err != nil {
				return err
			}
			target := filepath.Join(to, rel)
			if entry.IsDir() {
				return os.MkdirAll(target, 0o755) //nolint:gosec // documents are for everyone
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if path.Ext(rel) == ".md" {
				if text, err = resolve(from, filepath.ToSlash(rel), version, text); err != nil {
					return err
				}
			}
			return os.WriteFile(target, text, 0o644) //nolint:gosec // the same
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// link matches the target of a Markdown link or image, up to its fragment.
var link = regexp.MustCompile(`\]\(([^()\s#]+)(#[^()\s]*)?\)`)

// code matches code spans.
var code = regexp.MustCompile("`+[^`]*`+")

// resolve replaces the links of a page to files that are in the repository and not in the archive. A link to nothing is an error.
func resolve(root, page, version string, text []byte) ([]byte, error) {
	var out strings.Builder
	var failed error
	var b blocks
	for line := range strings.Lines(string(text)) {
		if b.code(line) {
			out.WriteString(line)
			continue
		}
		spans := code.FindAllStringIndex(line, -1)
		end := 0
		for _, m := range link.FindAllStringSubmatchIndex(line, -1) {
			if within(spans, m[0]) {
				continue
			}
			address, err := address(root, page, version, line[m[2]:m[3]])
			if err != nil && failed == nil {
				failed = err
			}
			out.WriteString(line[end:m[2]] + address)
			end = m[3]
		}
		out.WriteString(line[end:])
	}
	return []byte(out.String()), failed
}

// blocks finds the code blocks of a page: those between fences, and lines that are indented after a blank line.
type blocks struct{ fenced, indented, text bool }

// code reports whether the next line belongs to a code block.
func (b *blocks) code(line string) bool {
	blank := strings.TrimSpace(line) == ""
	if strings.HasPrefix(strings.TrimSpace(line), "```") {
		b.fenced = !b.fenced
		return true
	}
	b.indented = strings.HasPrefix(line, "    ") && !b.text
	b.text = !blank && !b.indented
	return b.fenced || b.indented
}

// within reports whether a position is inside one of the spans.
func within(spans [][]int, at int) bool {
	for _, s := range spans {
		if s[0] < at && at < s[1] {
			return true
		}
	}
	return false
}

// address returns the target of a link as it is in the archive.
func address(root, page, version, target string) (string, error) {
	if strings.Contains(target, ":") {
		return target, nil
	}
	file := path.Join(path.Dir(page), target)
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return target, fmt.Errorf("%s: the link %s has no target: %w", page, target, err)
	}
	for _, d := range documents() {
		if file == d || strings.HasPrefix(file, d+"/") {
			return target, nil
		}
	}
	kind := "blob"
	if info.IsDir() {
		kind = "tree"
	}
	return repository + "/" + kind + "/" + version + "/" + file, nil
}
