package web

import (
	"io"
	"runtime"
	"testing"

	"github.com/taredb/tare/internal/memory"
)

// TestTemplateBytes parses the templates again and makes each of them safe, as the first use of a page
// does: the heap grows by templateBytes, within a tenth. What tests before left behind may be freed
// meanwhile, so that a measurement is repeated: what the templates take is there each time.
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
		_ = one.ExecuteTemplate(io.Discard, "layout", frame{}) // it fails for the lack of a page
	}
	got := memory.HeapInUse() - before
	runtime.KeepAlive(all)
	return got
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
