package slab

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestProtect reads through a view of a slab after its release: the access faults immediately instead of
// reading another borrower's data.
func TestProtect(t *testing.T) {
	p := NewPool(PoolOptions{Protect: true, IdleBytes: 64 << 10})
	a := p.Bytes(5000)
	view := a.Bytes()
	for i := range view {
		view[i] = byte(i)
	}
	a.Release()
	var read [1]byte
	if err := faults(func() { copy(read[:], view[17:]) }); err == nil {
		t.Fatal("a view reads on after the release of its slab")
	}
	if err := faults(func() { view[18] = 1 }); err == nil {
		t.Fatal("a view writes on after the release of its slab")
	}
	b := p.Bytes(5000)
	if &b.Bytes()[0] == &view[0] {
		t.Error("a protected slab is lent again")
	}
	if s := p.Stats(); s.Idle != 1 || s.Made != 2 {
		t.Errorf("stats: %+v", s)
	}
	b.Release()
	big := p.Bytes(MaxSlab + 1)
	big.Bytes()[MaxSlab] = 1
	big.Release()
	for range 100 {
		p.Bytes(4096).Release()
	}
	if s := p.Stats(); s.IdleBytes > 64<<10 || s.GivenBack == 0 || s.OutBytes != 0 {
		t.Errorf("stats of a bounded number of mappings: %+v", s)
	}
	if p.Trim(0) == 0 || p.Stats().Idle != 0 {
		t.Errorf("the mappings stay: %+v", p.Stats())
	}
}

// faults returns the panic value of an access that the hardware refuses.
func faults(access func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault, ok := recover().(runtime.Error); ok {
			err = fault
		}
	}()
	access()
	return nil
}
