package web

import (
	"io"
	"runtime"
	"testing"

	"github.com/taredb/tare/internal/web/memory"
)

// TestTemplateBytes parses the templates again and executes each of them once, like the first use of a page:
// the heap grows by templateBytes, within a tenth. Memory of earlier tests may be freed meanwhile, so the
// measurement is repeated: the size of the templates is the same each time.
func TestTemplateBytes(t *testing.T) {
	var all []int64
	for range 10 {
		got := measureTemplates()
		if off := got - templateBytes; off <= templateBytes/10 && off >= -templateBytes/10 {
			return
		}
		all = append(all, got)
	}
	t.Errorf("the templates take %d bytes, templateBytes is %d", all, templateBytes)
}

func measureTemplates() int64 {
	before := memory.HeapInUse()
	all := parseTemplates()
	for _, one := range all {
		_ = one.ExecuteTemplate(io.Discard, "layout", frame{}) // fails because there is no page
	}
	got := memory.HeapInUse() - before
	runtime.KeepAlive(all)
	return got
}

// TestPagesHeap requests a page: its templates stay in memory from then on.
func TestPagesHeap(t *testing.T) {
	o, _ := pageOptions()
	s := New(o)
	templates()
	if got := s.HeapBytes(); got != templateBytes {
		t.Errorf("%d bytes, want %d", got, templateBytes)
	}
}
