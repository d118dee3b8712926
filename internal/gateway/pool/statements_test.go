package pool

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
)

// TestStatements compares Statements with a list in the order of use.
func TestStatements(t *testing.T) {
	for range 10 {
		rnd := rand.New(rand.NewPCG(testseed.New(t), 0))
		const limit = 5
		type entry struct {
			key  byte
			id   uint32
			busy bool
		}
		var s Statements
		var model []entry // the most recently used last
		at := func(key byte) int { return slices.IndexFunc(model, func(e entry) bool { return e.key == key }) }
		for next := uint32(1); next < 2000; next++ {
			n := byte(rnd.IntN(9))
			key := NewStatementKey("shop", slices.Values([][]byte{{n}}), []byte("SELECT 1"))
			i := at(n)
			switch rnd.IntN(5) {
			case 0, 1:
				var want []uint32
				if i >= 0 {
					want = append(want, model[i].id)
					model = slices.Delete(model, i, i+1)
				}
				if len(model) >= limit {
					if k := slices.IndexFunc(model, func(e entry) bool { return !e.busy }); k >= 0 {
						want = append(want, model[k].id)
						model = slices.Delete(model, k, k+1)
					}
				}
				model = append(model, entry{key: n, id: next})
				if _, closed := s.Put(key, next, limit); !slices.Equal(closed, want) {
					t.Fatalf("closed %v, want %v", closed, want)
				}
			case 2:
				st := s.Find(&key)
				if (st != nil) != (i >= 0) || st != nil && st.ID != model[i].id {
					t.Fatalf("found %+v, model %+v", st, model)
				}
				if st != nil {
					e := model[i]
					e.busy = rnd.IntN(3) == 0
					st.Busy = e.busy
					model = append(slices.Delete(model, i, i+1), e)
				}
			case 3:
				s.Remove(&key)
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			case 4:
				if rnd.IntN(20) > 0 {
					continue
				}
				var want []uint32
				model = slices.DeleteFunc(model, func(e entry) bool {
					if !e.busy {
						want = append(want, e.id)
					}
					return !e.busy
				})
				got := s.RemoveIdle()
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("removed %v, want %v", got, want)
				}
			}
			if s.Len() != len(model) {
				t.Fatalf("%d statements, want %d", s.Len(), len(model))
			}
		}
		s.Clear()
		if s.Len() != 0 {
			t.Error("statements after Clear")
		}
	}
}

// TestStatementKeys requires different keys of different inputs whose bytes in sequence are the same.
func TestStatementKeys(t *testing.T) {
	keys := map[StatementKey]bool{}
	for _, in := range []struct{ schema, set, sql string }{{"", "", "ab"}, {"a", "", "b"}, {"", "a", "b"}, {"", "ab", ""}, {"ab", "", ""}} {
		var sets [][]byte
		if in.set != "" {
			sets = append(sets, []byte(in.set))
		}
		keys[NewStatementKey(in.schema, slices.Values(sets), []byte(in.sql))] = true
	}
	if len(keys) != 5 {
		t.Errorf("%d keys of 5 inputs", len(keys))
	}
}

func TestStatementAllocs(t *testing.T) {
	var s Statements
	key := NewStatementKey("", slices.Values([][]byte(nil)), []byte("SELECT 1"))
	s.Put(key, 1, 5)
	alloctest.Run(t, []alloctest.Case{{Name: "Find", Op: func() error { s.Find(&key); return nil }}})
}
