package localstate

import (
	"errors"
	"slices"
	"syscall"
)

// OfMachine reports whether an error concerns the machine rather than the files: a full disk or one that is read-only,
// or too little memory or too few descriptors. The same call may succeed later.
func OfMachine(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	}, func(e error) bool { return errors.Is(err, e) })
}
