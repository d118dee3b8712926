package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGenerated compares the files with the generator's output.
func TestGenerated(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if string(got) != string(want) {
			t.Errorf("%s is not what the table generates: run go generate ./internal/logfields", name)
		}
	}
}

// TestBadTables parses invalid tables.
func TestBadTables(t *testing.T) {
	const head = "[statement] f.go p T r\n"
	for table, want := range map[string]string{
		"a | time | x | | | | |":                    "before the first kind",
		"[statement] f.go p":                        "want file, package, type and receiver",
		head + "a | time | x":                       "3 columns",
		head + "a | time | x | | | | | | m":         "more than 8 columns",
		head + "a | time | x | | | First | | m":     "column \"First\"",
		head + "a | time | x | | | 1 First * | | ^": "no field before a",
	} {
		if _, err := parse(table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", table, err, want)
		}
	}
}
