//go:build linux && (amd64 || arm64)

package netloop

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supported reports whether this platform has loops.
const supported = true

// maxEvents is the maximum number of events per call.
const maxEvents = 256

// A poller is an epoll instance and the eventfd that wakes it. Descriptors are registered once,
// edge-triggered, in both directions: later events cost no further system call.
type poller struct {
	epoll, eventfd int
	events         [maxEvents]unix.EpollEvent
}

// wakeID is the id of the eventfd's events.
const wakeID = 0

func (p *poller) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create an epoll instance: %w", err)
	}
	if p.eventfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(p.epoll)
		return fmt.Errorf("create an eventfd: %w", err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&0xFFFFFFFF}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, p.eventfd, &ev); err != nil {
		p.close()
		return fmt.Errorf("register the eventfd: %w", err)
	}
	return nil
}

func (p *poller) close() {
	unix.Close(p.eventfd)
	unix.Close(p.epoll)
}

// add registers a descriptor. Its events carry id.
func (p *poller) add(fd int32, id uint64) error {
	ev := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xFFFFFFFF,
		Fd:     int32(id), Pad: int32(id >> 32),
	}
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, int(fd), &ev)
}

// remove undoes add for a descriptor that stays open.
func (p *poller) remove(fd int32) { _ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) }

// wake makes the current or the next wait return. Any goroutine may call it. The eventfd is never read: it is
// edge-triggered, and each write is an edge.
func (p *poller) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.eventfd, one[:])
}

// wait returns the number of ready events. If none is ready and block is set, it blocks for one, at most ms
// milliseconds unless ms is negative. Only this wait notifies the scheduler.
func (p *poller) wait(block bool, ms int) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), maxEvents, 0, 0, 0)
	if errno == 0 && n > 0 {
		return int(n)
	}
	if !block {
		return 0
	}
	n, _, errno = syscall.Syscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), maxEvents, uintptr(ms), 0, 0)
	if errno != 0 { // a signal
		return 0
	}
	return int(n)
}

// event returns an event of the last wait.
func (p *poller) event(i int) (id uint64, is readiness) {
	ev := &p.events[i]
	if ev.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		is |= isReadable
	}
	if ev.Events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		is |= isWritable
	}
	if ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		is |= isHungUp
	}
	if ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		is |= isClosed
	}
	return uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32, is
}

// receive reads without waiting and without notifying the scheduler.
func receive(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// send writes without waiting and without notifying the scheduler.
func send(fd int32, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// silent peeks into b without waiting and without notifying the scheduler.
func silent(fd int32, b []byte) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), syscall.MSG_DONTWAIT|syscall.MSG_PEEK, 0, 0)
	return errno == syscall.EAGAIN
}

// takeDescriptor duplicates the descriptor of a socket: the copy is not registered with the runtime's poller.
func takeDescriptor(nc net.Conn) (int32, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return -1, errNoDescriptor
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	err = raw.Control(func(u uintptr) { fd, dupErr = unix.FcntlInt(u, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil {
		err = dupErr
	}
	if err != nil {
		return -1, os.NewSyscallError("fcntl", err)
	}
	return int32(fd), nil
}

// returnDescriptor converts a descriptor to a connection of the runtime's poller, and closes the descriptor.
func returnDescriptor(fd int32) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return net.FileConn(f)
}

func shutdownWrite(fd int32) error { return unix.Shutdown(int(fd), unix.SHUT_WR) }

func closeDescriptor(fd int32) error { return unix.Close(int(fd)) }
