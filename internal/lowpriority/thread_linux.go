package lowpriority

import "golang.org/x/sys/unix"

// niceness is a tenth of the usual share of a CPU that others want too: a thread with a lower one would keep locks of the runtime for long.
const niceness = 10

func isMain() bool { return unix.Gettid() == unix.Getpid() }

// lower lowers the priority of the current thread.
func lower() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness) // otherwise it has the usual one
}
