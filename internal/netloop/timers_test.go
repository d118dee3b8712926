package netloop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
)

// TestTimersOrder adds and pops timers in random order, and compares with a sorted list.
func TestTimersOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.New(t), 0))
	tasks := make(map[*Task]int64)
	var h timers
	var want []int64
	for range 10_000 {
		if len(want) > 0 && rnd.IntN(2*len(want)+20) < len(want)+9 {
			if at := tasks[h.pop()]; at != want[0] {
				t.Fatalf("popped %d of %d, want %d", at, len(want), want[0])
			}
			want = want[1:]
			continue
		}
		task, at := new(Task), rnd.Int64N(1000)
		tasks[task] = at
		h.add(timer{at, task})
		i, _ := slices.BinarySearch(want, at)
		want = slices.Insert(want, i, at)
	}
	if len(h) != len(want) {
		t.Errorf("%d timers, want %d", len(h), len(want))
	}
}

// TestTimersAllocs is the allocation table of tasks that wait until a time.
func TestTimersAllocs(t *testing.T) {
	var h timers
	tasks := make([]Task, 50)
	alloctest.Run(t, []alloctest.Case{{Name: "add and pop", Op: func() error {
		for i := range tasks {
			h.add(timer{int64(i * 37 % 50), &tasks[i]})
		}
		for len(h) > 0 {
			if task := h.pop(); task == nil {
				return fmt.Errorf("no task of %d", len(h))
			}
		}
		return nil
	}}})
}
