package statements

import "slices"

// selectFirst moves the first n of the sorted rows to the front, in order; the others follow in any order.
func selectFirst[T any](rows []T, n int, order func(a, b T) int) {
	if n >= len(rows)/4 {
		slices.SortFunc(rows, order)
		return
	}
	// The first n are a heap with the last of them on top.
	down := func(i int) {
		for {
			child := 2*i + 1
			if child >= n {
				return
			}
			if child+1 < n && order(rows[child+1], rows[child]) > 0 {
				child++
			}
			if order(rows[child], rows[i]) <= 0 {
				return
			}
			rows[i], rows[child] = rows[child], rows[i]
			i = child
		}
	}
	for i := n/2 - 1; i >= 0; i-- {
		down(i)
	}
	for i := n; n > 0 && i < len(rows); i++ {
		if order(rows[i], rows[0]) < 0 {
			rows[i], rows[0] = rows[0], rows[i]
			down(0)
		}
	}
	slices.SortFunc(rows[:n], order)
}
