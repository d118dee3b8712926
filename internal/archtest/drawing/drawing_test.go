package drawing_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/archtest"
	"github.com/taredb/tare/internal/archtest/drawing"
)

var rewrite = flag.Bool("rewrite", false, "write the drawing instead of comparing it")

// TestDrawing compares the drawing in the documentation with the code.
func TestDrawing(t *testing.T) {
	const name = "../../../docs/images/imports.svg"
	tree, err := archtest.Load("../../..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := drawing.Draw(tree)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run make generate", name)
	}
}

// TestDrawingRefuses checks that an import that would be an upward arrow, or a cycle, is an error.
func TestDrawingRefuses(t *testing.T) {
	for table, want := range map[string]string{
		"| 0 | `up` | | |\n| 1 | `down` | | |\n":            "the import of down by up runs up",
		"| 0 | `up` | | |\n| 0 | `down` | | |\n":            "packages of floor 0 import each other in a circle: down, …",
		"| 1 | `up` | | |\n| 0 | `down/internal` | | |\n":   "",
		"| 1 | `up` | | |\n| test | `down` | for tests | |": "",
	} {
		tree := &archtest.Tree{Root: t.TempDir(), Module: "m", Packages: []archtest.Package{
			{ImportPath: "m/up", Imports: []string{"m/down", "m/down/internal"}},
			{ImportPath: "m/down", Imports: []string{"fmt"}},
			{ImportPath: "m/down/internal", Imports: []string{"m/up"}},
		}}
		if want == "" {
			tree.Packages[2].Imports = nil
		}
		if err := os.WriteFile(filepath.Join(tree.Root, "ARCHITECTURE.md"), []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
		svg, err := drawing.Draw(tree)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got error %v, want %q", table, err, want)
		}
		if err == nil && !strings.Contains(svg, ">up</text>") {
			t.Errorf("%s: package up is not drawn:\n%s", table, svg)
		}
	}
}
