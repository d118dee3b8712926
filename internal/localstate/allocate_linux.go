package localstate

import (
	"os"
	"syscall"
)

// Allocate allocates the blocks of the first bytes of a file, which grows to them: later writes there do not fail on a
// full disk. On file systems and platforms that cannot, the error is an errors.ErrUnsupported.
func Allocate(f *os.File, bytes int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, bytes) }
