//go:build !linux

package lowpriority

func isMain() bool { return false }

// lower does nothing: only Linux has priorities of threads.
func lower() {}
