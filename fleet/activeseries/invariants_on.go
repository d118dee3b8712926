//go:build invariants

package activeseries

// poison is the content of an expired view: neither JSON nor UTF-8.
const poison = 0xdb

// expire overwrites a view that its reader must not use any more.
func expire(view []byte) {
	for i := range view {
		view[i] = poison
	}
}
