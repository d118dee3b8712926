package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReach reads the profiles of two tests, and asks which of them execute lines at the edges of blocks.
func TestReach(t *testing.T) {
	read := func(test, text string) reachingTest {
		name := filepath.Join(t.TempDir(), "profile")
		if err := os.WriteFile(name, []byte("mode: set\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := reachingTest{Name: test, Lines: make(map[string][]uint64)}
		if err := r.read(name, "example.com/m"); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := reach{Tests: []reachingTest{
		read("TestA", "example.com/m/p/a.go:63.2,64.30 2 1\nexample.com/m/p/a.go:70.2,80.3 5 0\n"),
		read("TestB", "example.com/m/p/a.go:64.30,70.2 2 7\nexample.com/m/p/b.go:1.1,1.9 1 1\n"),
	}}
	for _, c := range []struct {
		file string
		line int
		want string
	}{
		{"p/a.go", 62, ""},
		{"p/a.go", 63, "TestA"},
		{"p/a.go", 64, "TestA TestB"},
		{"p/a.go", 70, "TestB"},
		{"p/a.go", 71, ""},
		{"p/a.go", 200, ""},
		{"p/b.go", 1, "TestB"},
		{"p/c.go", 1, ""},
	} {
		got := ""
		for _, test := range r.of(c.file, c.line) {
			if got != "" {
				got += " "
			}
			got += test.Name
		}
		if got != c.want {
			t.Errorf("%s:%d is reached by %q, want %q", c.file, c.line, got, c.want)
		}
	}
	name := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(name, []byte("mode: set\nexample.com/m/p/a.go:x.2,64.30 2 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(reachingTest).read(name, "example.com/m"); err == nil {
		t.Error("a profile without a line number is accepted")
	}
}
