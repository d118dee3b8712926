package follow

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/sizegen/heaptest"
)

// TestWeigh compares the bytes that are counted for batches and their statements with the heap that dropping them frees, and has them forgotten.
func TestWeigh(t *testing.T) {
	columns := []rowstream.Column{column("id int"), column("c char(120):utf8mb4_general_ci")}
	sql, err := rowstream.NewRowSQL("t", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	f := &Follower{o: Options{Shared: Shared{Heap: new(atomic.Int64)}}}
	const slots = 3
	all := make([]*slot, 0, slots)
	r, err := heaptest.Compare(slots, func(i int) *slot {
		var b changeBatch
		b.Tables = make([]rowstream.Batch, 1)
		b.Tables[0].Reset(len(columns))
		for row := range 20_000 {
			b.add(0, nil, image(fmt.Sprint(row, " ", strings.Repeat("text'", i+1))))
		}
		s := &slot{batch: b.ChangeBatch, applier: newApplier([]applyTable{{sql: sql, loose: i%2 == 0}}, 2)}
		if err := s.applier.plan(&s.batch); err != nil {
			t.Error(err)
		}
		f.weigh(s)
		f.weigh(s) // counts nothing twice
		return s
	}, func(built []*slot) (int64, error) {
		counted := f.o.Heap.Load()
		all = append(all[:0], built...)
		f.forget(all)
		clear(all)
		return counted, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if off := r.Off(); math.Abs(off) > 0.5 {
		t.Errorf("counted %+v, which is off by %+.2f %%", r, off)
	}
	if n := f.o.Heap.Load(); n != 0 {
		t.Errorf("%d bytes are left of forgotten slots", n)
	}
}
