package main

import "syscall"

// mountSmall mounts a tmpfs, which requires root.
func mountSmall(dir, options string) (unmount func() error, err error) {
	if err := syscall.Mount("tare", dir, "tmpfs", 0, options); err != nil {
		return nil, err
	}
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}
