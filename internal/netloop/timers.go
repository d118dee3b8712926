package netloop

import (
	"container/heap"
	"time"
)

// A timer wakes a task. Most tasks have none, and no task has many: deadlines are set only for overdue
// events.
type timer struct {
	at   int64 // nanoseconds since the group's start
	task *Task
}

// timers are a heap, the earliest first. A wheel would insert in constant time, but a heap that is nearly always empty
// costs one comparison per turn, where a wheel has a hand to advance.
type timers []timer

func (h *timers) add(t timer) { heap.Push(h, t) }

func (h *timers) pop() *Task { return heap.Pop(h).(timer).task }

// wait returns the number of milliseconds the loop may wait; -1: unlimited.
func (h timers) wait(g *Group) int {
	if len(h) == 0 {
		return -1
	}
	const longest = time.Hour
	rest := min(max(time.Duration(h[0].at-g.now()), 0), longest)
	return int((rest + time.Millisecond - 1) / time.Millisecond)
}

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timers) Push(x any)        { *h = append(*h, x.(timer)) }

func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return t
}
