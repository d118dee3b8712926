package web

import (
	"io"
	"runtime"
	"testing"

	"github.com/taredb/tare/internal/memory"
)

// TestTemplateBytes makes the templates once more, and each of them safe, as the first look at a page does: that takes as much of the heap as
// is said, within a tenth.
func TestTemplateBytes(t *testing.T) {
	before := memory.HeapInUse()
	all := parseTemplates()
	for _, one := range all {
		_ = one.ExecuteTemplate(io.Discard, "layout", frame{}) // it fails for the lack of a page
	}
	got := memory.HeapInUse() - before
	runtime.KeepAlive(all)
	if off := got - templateBytes; off > templateBytes/10 || off < -templateBytes/10 {
		t.Errorf("the templates take %d bytes, and are said to take %d", got, templateBytes)
	}
}

// TestPagesHeap looks at a page: its templates are held from then on.
func TestPagesHeap(t *testing.T) {
	o, _ := pageOptions()
	s := New(o)
	templates()
	if got := s.HeapBytes(); got != templateBytes {
		t.Errorf("%d bytes, want %d", got, templateBytes)
	}
}
