package slab

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

func TestAllocs(t *testing.T) {
	p, e := NewPool(PoolOptions{}), NewEntries[ref](EntriesOptions{})
	a := e.Arena()
	g := NewGate(GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	q, err := g.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := NewGate(GateOptions{Bytes: 1 << 20, PerQuery: 1 << 20})
	lost := errors.New("the memory is not there")
	check := func(ok bool) error {
		if !ok {
			return lost
		}
		return nil
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "Pool.Bytes and Release", Op: func() error {
			s := p.Bytes(100_000)
			ok := len(s.Bytes()) == 100_000
			s.Release()
			return check(ok)
		}},
		{Name: "View", Op: func() error {
			s := p.Bytes(8000)
			ok := len(View[uint64](s, 1000)) == 1000
			s.Release()
			return check(ok)
		}},
		{Name: "an arena of one slab", Op: func() error {
			a := e.Arena()
			ok := len(a.Make(48)) == 48
			a.Release()
			return check(ok)
		}},
		{Name: "an arena used again, of three slabs", Op: func() error {
			for range 400 {
				if len(a.Make(48)) != 48 {
					return lost
				}
			}
			a.Release()
			return nil
		}},
		{Name: "Reserve and Return", Op: func() error {
			if err := q.Reserve(Chunks, 10); err != nil {
				return err
			}
			q.Return(Chunks, 10)
			return nil
		}},
		{Name: "Admit and Close", PerThousand: 1000, Op: func() error {
			q, err := other.Admit(t.Context())
			if err != nil {
				return err
			}
			q.Close()
			return nil
		}},
	})
	q.Close()
}
