package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const docsPage = "docs/reference/query-log.md"

//go:embed fields.txt
var fieldsTable string

func main() {
	if err := run(filepath.Join("..", "..")); err != nil {
		fmt.Fprintln(os.Stderr, "logfields:", err)
		os.Exit(1)
	}
}

// run writes all files below the module's directory.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, name), text, 0o644)) //nolint:gosec // as all sources
	}
	return err
}

// generate returns the contents of the generated files.
func generate(root string) (map[string][]byte, error) {
	kinds, err := parse(fieldsTable)
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, docsPage))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, k := range kinds {
		if files[k.file], err = k.code(); err != nil {
			return nil, fmt.Errorf("%s: %w", k.file, err)
		}
		if page, err = replace(page, k.name, k.docs()); err != nil {
			return nil, err
		}
	}
	files[docsPage] = page
	return files, nil
}

// replace puts a table between the page's marks for a kind.
func replace(page []byte, kind string, table []byte) ([]byte, error) {
	begin := []byte("<!-- fields of " + kind + ": internal/logfields/fields.txt -->\n")
	end := []byte("<!-- end of fields -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, closed := bytes.Cut(rest, end)
	if !ok || !closed {
		return nil, fmt.Errorf("%s: no marks for the fields of %s", docsPage, kind)
	}
	return bytes.Join([][]byte{before, begin, table, end, after}, nil), nil
}
