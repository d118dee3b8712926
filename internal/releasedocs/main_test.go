package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoDeadLinks copies the documents of this repository, and follows every relative link of the pages within the copy.
func TestNoDeadLinks(t *testing.T) {
	dir := t.TempDir()
	if err := run("../..", dir, "v9.8.7"); err != nil {
		t.Fatal(err)
	}
	relative, absolute := 0, 0
	inline := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		var b blocks
		for line := range strings.Lines(string(text)) {
			if b.code(line) {
				continue
			}
			for _, m := range inline.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				target, _, _ := strings.Cut(m[1], "#")
				switch {
				case strings.HasPrefix(target, repository+"/blob/v9.8.7/") || strings.HasPrefix(target, repository+"/tree/v9.8.7/"):
					absolute++
					continue
				case target == "" || strings.Contains(target, ":"):
					continue
				}
				relative++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(target))); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if relative < 100 || absolute < 5 {
		t.Errorf("%d relative links, %d to the repository: some are missing", relative, absolute)
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"docs/a.md", "docs/b.md", "move/x.go", "LICENSE", "docsets/c"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"see [b](b.md#part)", "see [b](b.md#part)"},
		{"[x](../move/x.go#L3) and [m](../move)", "[x](" + repository + "/blob/v1/move/x.go#L3) and [m](" + repository + "/tree/v1/move)"},
		{"[c](../docsets/c)", "[c](" + repository + "/blob/v1/docsets/c)"},
		{"[here](#part), [w](https://example.com/x), [l](../LICENSE)", "[here](#part), [w](https://example.com/x), [l](../LICENSE)"},
		{"`[x](../move/x.go)` [x](../move/x.go)", "`[x](../move/x.go)` [x](" + repository + "/blob/v1/move/x.go)"},
		{"```\n[x](../nothing)\n```\n", "```\n[x](../nothing)\n```\n"},
		{"text\n\n    [x](../nothing)\n\n    [x](../nothing)\n- item\n    [x](../move)\n", "text\n\n    [x](../nothing)\n\n    [x](../nothing)\n- item\n    [x](" + repository + "/tree/v1/move)\n"},
		{"![p](b.md) [`code`](../move/x.go)", "![p](b.md) [`code`](" + repository + "/blob/v1/move/x.go)"},
	} {
		got, err := resolve(root, "docs/a.md", "v1", []byte(c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	if _, err := resolve(root, "docs/a.md", "v1", []byte("[n](../nothing.md)")); err == nil || !strings.Contains(err.Error(), "docs/a.md: the link ../nothing.md") {
		t.Errorf("a link to nothing: %v", err)
	}
}
