//go:build !linux

package localstate

import (
	"errors"
	"os"
)

// Allocate returns errors.ErrUnsupported on this platform.
func Allocate(*os.File, int64) error { return errors.ErrUnsupported }
