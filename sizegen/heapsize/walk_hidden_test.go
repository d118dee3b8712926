package heapsize_test

import (
	"errors"
	"go/constant"
	"go/token"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// Mirrors of errors.errorString, which is stored by pointer, and netip.parseAddrError, stored by value.
type (
	mirrorErrorString    struct{ s string }
	mirrorParseAddrError struct{ in, msg, at string }
)

// TestHidden walks objects of unexported types of another package.
func TestHidden(t *testing.T) {
	text := strings.Repeat("e", 100)
	err := errors.New(text[3:30])
	for _, detach := range []bool{false, true} {
		w := heapsize.Walk{Detach: detach}
		for range 2 {
			if got := w.TypeName(err); got != "*errors.errorString" {
				t.Fatalf("the type is called %s", got)
			}
			if p := heapsize.Hidden[mirrorErrorString](&w, err); w.Enter(unsafe.Pointer(p), unsafe.Sizeof(*p), true) {
				w.String(&p.s)
			}
		}
		want := int64(heapsize.Object(unsafe.Sizeof(""), true) + heapsize.String(text)) // which the string keeps alive
		if detach {
			want = int64(heapsize.Object(unsafe.Sizeof(""), true) + heapsize.Object(27, false))
		}
		if got := w.Finish(); got != want || err.Error() != text[3:30] {
			t.Errorf("detach=%t: %d bytes, want %d; %q", detach, got, want, err)
		}
		if same := unsafe.StringData(err.Error()) == unsafe.StringData(text[3:]); same == detach {
			t.Errorf("detach=%t: the string lies in the text: %t", detach, same)
		}
	}
}

// TestHiddenBox walks boxes of an unexported type of another package.
func TestHiddenBox(t *testing.T) {
	text := strings.Repeat("x", 100)
	_, err := netip.ParseAddr(text[3:43])
	message := err.Error()
	box := int64(heapsize.Object(unsafe.Sizeof(mirrorParseAddrError{}), true))
	for _, detach := range []bool{false, true} {
		w := heapsize.Walk{Detach: detach}
		held := err
		for range 2 {
			if got := w.TypeName(held); got != "net/netip.parseAddrError" {
				t.Fatalf("the type is called %s", got)
			}
			if p := heapsize.HiddenBox[mirrorParseAddrError](&w, unsafe.Pointer(&held), held, true, true); p != nil {
				w.String(&p.in)
				w.String(&p.at)
			}
		}
		want := box + int64(heapsize.String(text)) // which the string keeps alive
		if detach {
			want = box + int64(heapsize.Object(40, false))
		}
		if got := w.Finish(); got != want || held.Error() != message {
			t.Errorf("detach=%t: %d bytes, want %d; %q", detach, got, want, held)
		}
		in := (*mirrorParseAddrError)((*[2]unsafe.Pointer)(unsafe.Pointer(&held))[1]).in
		if same := unsafe.StringData(in) == unsafe.StringData(text[3:]); same == detach {
			t.Errorf("detach=%t: the string lies in the text: %t", detach, same)
		}
	}
	if err.Error() != message {
		t.Error("the box of another variable was changed")
	}
}

// TestHiddenWord walks values of an unexported type of pointer shape, which have no box.
func TestHiddenWord(t *testing.T) {
	type mirrorIntVal struct{ val *big.Int }
	for _, detach := range []bool{false, true} {
		w := heapsize.Walk{Detach: detach}
		held := constant.Shift(constant.MakeInt64(1), token.SHL, 1000)
		if got := w.TypeName(held); got != "go/constant.intVal" {
			t.Fatalf("the type is called %s", got)
		}
		val := heapsize.HiddenWord[mirrorIntVal](&w, unsafe.Pointer(&held), held).val
		if val.BitLen() != 1001 || !w.Enter(unsafe.Pointer(val), unsafe.Sizeof(*val), true) {
			t.Errorf("detach=%t: the number has %d bits", detach, val.BitLen())
		}
		err := func() (err error) {
			defer heapsize.Recover(&err)
			heapsize.HiddenWord[struct{ val *string }](&w, unsafe.Pointer(&held), held)
			return nil
		}()
		if err == nil {
			t.Error("a mirror of another layout is used")
		}
	}
}

// TestHiddenLayout uses mirrors that differ from their types.
func TestHiddenLayout(t *testing.T) {
	var w heapsize.Walk
	err := errors.New("text")
	for name, walk := range map[string]func(){
		"size":  func() { heapsize.Hidden[struct{ s, more string }](&w, err) },
		"kind":  func() { heapsize.Hidden[[2]uintptr](&w, err) },
		"field": func() { heapsize.Hidden[struct{ text string }](&w, err) },
		"type":  func() { heapsize.Hidden[struct{ s struct{ p, n uintptr } }](&w, err) },
	} {
		for range 2 {
			stopped := func() (err error) {
				defer heapsize.Recover(&err)
				walk()
				return nil
			}()
			var e *heapsize.Error
			if !errors.As(stopped, &e) || e.Where != "errors.errorString" {
				t.Errorf("%s: the error is %v", name, stopped)
			}
		}
	}
	// A word that is not inspected matches anything.
	heapsize.Hidden[struct{ s [2]unsafe.Pointer }](&w, err)
}
