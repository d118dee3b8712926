package goast

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/heaptest"
)

// TestWalkAgainstHeap parses files of the standard library, and compares the sizes of their trees by
// walk with the growth of the heap.
func TestWalkAgainstHeap(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output() // a binary that was built with -trimpath does not know it
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "go", "*", "*.go"))
	if err != nil || len(names) < 100 {
		t.Fatalf("%d files of Go's own tools, %v", len(names), err)
	}
	var texts [][]byte
	for _, name := range names[:100] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	for _, detach := range []bool{false, true} {
		r, err := heaptest.Compare(len(texts), func(i int) *File {
			tree, err := parser.ParseFile(token.NewFileSet(), "", texts[i], parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			return &File{tree}
		}, func(files []*File) (sum int64, err error) {
			w := heapsize.Walk{Detach: detach}
			for _, f := range files {
				n, err := f.CachedSize(&w)
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("detach=%t: %d files: walked %d bytes, heap %d, %+.3f %%", detach, len(texts), r.Accounted, r.Heap, r.Off())
		if r.Heap < 1e6 || r.Off() < -1 || r.Off() > 1 {
			t.Errorf("detach=%t: walked %d bytes, the heap grew by %d: %+.2f %%", detach, r.Accounted, r.Heap, r.Off())
		}
	}
}
