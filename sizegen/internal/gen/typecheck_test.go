package gen

import (
	"strings"
	"testing"
)

// TestTypeCheck changes generated code so that it does not compile: the error names the line, and nothing is returned.
func TestTypeCheck(t *testing.T) {
	const files = `package a

//sizegen:root
type Entry struct{ Text string }

func size(e *Entry) int64 { return e.Missing() }
`
	cfg, _ := config(t, nil, files)
	g, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.walkRoots(nil); err != nil {
		t.Fatal(err)
	}
	whole, err := g.files()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.typeCheck(cfg.Dir, whole); err != nil {
		t.Fatalf("what was generated: %v", err) // the mistake in the other file does not count
	}
	for i, f := range whole {
		if f.Data != nil {
			whole[i].Data = []byte(strings.Replace(string(f.Data), "p.Text", "p.Nope", 1))
		}
	}
	if err := g.typeCheck(cfg.Dir, whole); err == nil || !strings.Contains(err.Error(), "cached_size.go:34: p.Nope undefined") {
		t.Errorf("changed: %v", err)
	}
}
