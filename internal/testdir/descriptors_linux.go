package testdir

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// WithDescriptors calls f while the process can open n more files at a time: further ones fail with EMFILE. Other tests must not run meanwhile.
func WithDescriptors(t *testing.T, n int, f func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The poller of the runtime opens its files with the first pipe.
	r, w, err := os.Pipe()
	must(err)
	must(r.Close())
	must(w.Close())
	entries, err := os.ReadDir("/proc/self/fd")
	must(err)
	highest := 0
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		must(err)
		highest = max(highest, fd)
	}
	// Descriptors below the highest one are used up, so that the limit counts those that are free.
	for {
		null, err := os.Open(os.DevNull)
		must(err)
		defer null.Close()
		if int(null.Fd()) > highest {
			must(null.Close())
			break
		}
	}
	var limit unix.Rlimit
	must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	fewer := limit
	fewer.Cur = uint64(highest + 1 + n)
	must(unix.Setrlimit(unix.RLIMIT_NOFILE, &fewer))
	defer func() { must(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	f()
}
