package netloop

import "time"

// A timer wakes a task. Most tasks have none, and no task has many: deadlines are set only for overdue
// events.
type timer struct {
	at   int64 // nanoseconds since the group's start
	task *Task
}

// timers are a heap, the earliest first. A wheel would insert in constant time, but a heap that is nearly always empty
// costs one comparison per turn, where a wheel has a hand to advance. They are not of container/heap, which allocates for each.
type timers []timer

func (h *timers) add(t timer) {
	s := append(*h, t)
	i := len(s) - 1
	for i > 0 && t.at < s[(i-1)/2].at {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = t
	*h = s
}

// pop removes the earliest timer. There must be one.
func (h *timers) pop() *Task {
	s := *h
	first, last := s[0].task, s[len(s)-1]
	s[len(s)-1] = timer{}
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].at < s[child].at {
			child++
		}
		if child >= len(s) || last.at <= s[child].at {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = last
	return first
}

// wait returns the number of milliseconds the loop may wait; -1: unlimited.
func (h timers) wait(g *Group) int {
	if len(h) == 0 {
		return -1
	}
	const longest = time.Hour
	rest := min(max(time.Duration(h[0].at-g.now()), 0), longest)
	return int((rest + time.Millisecond - 1) / time.Millisecond)
}
