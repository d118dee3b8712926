//go:build unix

package heapsize_test

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// TestOutsideMapped walks a value on the heap that points into mapped memory, such as that of a C library.
func TestOutsideMapped(t *testing.T) {
	const pages = 4 << 12
	mapped, err := syscall.Mmap(-1, 0, pages, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	type holder struct {
		whole []byte
		part  string
		at    *position
	}
	h := &holder{whole: mapped[:4096:4096], part: unsafe.String(&mapped[5000], 100), at: (*position)(unsafe.Pointer(&mapped[8192]))}
	for _, detach := range []bool{false, true} {
		w := heapsize.Walk{Detach: detach}
		w.Enter(unsafe.Pointer(h), unsafe.Sizeof(*h), true)
		w.Enter(unsafe.Pointer(unsafe.SliceData(h.whole)), uintptr(cap(h.whole)), false)
		w.String(&h.part)
		w.Enter(unsafe.Pointer(h.at), unsafe.Sizeof(*h.at), true)
		objects, bytes := w.Outside()
		sum, want := w.Finish(), int64(heapsize.Object(unsafe.Sizeof(*h), true))
		if detach {
			if text := h.part; sum < want || sum > want+112 || unsafe.StringData(text) == &mapped[5000] {
				t.Errorf("%d bytes are charged with a string that is detached from mapped memory", sum)
			}
			continue
		}
		if sum != want || objects != 3 || bytes != 4096+100+int64(positionBytes) {
			t.Errorf("%d bytes are charged, want %d; %d bytes of %d objects are outside", sum, want, bytes, objects)
		}
	}
}
