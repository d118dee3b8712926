package testdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// Memory is an in-memory file system on Linux.
const Memory = "/dev/shm"

// HasRoom reports whether a directory is writable and has room for tests. In containers that of Memory is often tiny.
func HasRoom(dir string) bool {
	const room = 4 << 30
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= room && unix.Access(dir, unix.W_OK) == nil
}

// UseMemory makes [os.TempDir], and with it the TempDir of all tests, return Memory if it has room and the
// variable TMPDIR is not set. It is called by TestMain.
func UseMemory() error {
	if os.Getenv("TMPDIR") != "" || !HasRoom(Memory) {
		return nil
	}
	return os.Setenv("TMPDIR", Memory)
}
