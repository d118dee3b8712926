package testmysql_test

import (
	"errors"

	"golang.org/x/sys/unix"
)

func pidfdOpen(pid int) (int, error) { return unix.PidfdOpen(pid, 0) }

// waitDead waits until the process of a pidfd has exited, at most ten seconds.
func waitDead(fd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errors.New("still running after ten seconds")
		default:
			return nil
		}
	}
}
