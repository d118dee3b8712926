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

// TestDrawingRefuses checks that an import that would be an upward arrow is an error.
func TestDrawingRefuses(t *testing.T) {
	const up, down = "### `up`: a room\n| `up` | a package |\n", "### `down`: a room\n| `down` | a package |\n"
	for page, want := range map[string]string{
		down + up: "the import of down by up runs up",
		up + down: "",
		up + "### Test support\n| `down` | for tests |\n": "",
	} {
		tree := &archtest.Tree{Root: t.TempDir(), Module: "m", Packages: []archtest.Package{
			{ImportPath: "m/up", Imports: []string{"m/down", "m/down/internal"}},
			{ImportPath: "m/down", Imports: []string{"fmt"}},
			{ImportPath: "m/down/internal"},
		}}
		if err := os.WriteFile(filepath.Join(tree.Root, "ARCHITECTURE.md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		svg, err := drawing.Draw(tree)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got error %v, want %q", page, err, want)
		}
		if err == nil && !strings.Contains(svg, ">up</text>") {
			t.Errorf("%s: room up is not drawn:\n%s", page, svg)
		}
	}
}
