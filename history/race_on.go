//go:build race

package history

// racing says that the race detector watches.
const racing = true
