package storegateway

// A tournament finds the least of n contestants: a binary tree in which each inner node has the
// winner of its two children. When one contestant changes, the matches on its way up are played
// again, log n of them. (A loser tree plays half as many, but can replace none but the winner; a
// merge that takes several equal ones out before it puts any back needs to.)
type tournament struct {
	n       int
	winners []int32 // of the inner nodes 1 to n-1; leaf i is node n+i
	less    func(a, b int) bool
}

// reset has n contestants play. less says whether contestant a comes before b; ties go to
// the lower number.
func (t *tournament) reset(n int, less func(a, b int) bool) {
	t.n, t.less = n, less
	t.winners = make([]int32, n)
	for node := n - 1; node >= 1; node-- {
		t.play(node)
	}
}

// winner returns the least contestant.
func (t *tournament) winner() int {
	if t.n == 1 {
		return 0
	}
	return int(t.winners[1])
}

// update plays the matches of contestant i again.
func (t *tournament) update(i int) {
	for node := (t.n + i) / 2; node >= 1; node /= 2 {
		t.play(node)
	}
}

func (t *tournament) play(node int) {
	a, b := t.at(2*node), t.at(2*node+1)
	if t.less(b, a) || b < a && !t.less(a, b) {
		a = b
	}
	t.winners[node] = int32(a)
}

// at returns the winner of a node, which may be a leaf.
func (t *tournament) at(node int) int {
	if node >= t.n {
		return node - t.n
	}
	return int(t.winners[node])
}
