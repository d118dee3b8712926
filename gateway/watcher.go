package gateway

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// side tells the two connections of a session apart.
type side uint8

const (
	clientSide side = iota
	backendSide
)

// A watcher notices that a peer hung up on a session that is not reading from it: an idle
// session waits for its client and does not see its backend thread being killed; a session
// in a long statement waits for its backend and does not see its client leave. One epoll
// set for the whole process holds both sockets of each session, edge-triggered, for
// hang-ups alone: data wakes nobody. The set itself is waited for by the runtime's poller,
// so it costs no thread.
type watcher struct {
	file *os.File // the epoll descriptor
	raw  syscall.RawConn
	done chan struct{}

	mu       sync.Mutex
	sessions map[int32]watched // by descriptor
}

type watched struct {
	s    *session
	side side
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create the hang-up watcher: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("create the hang-up watcher: %w", err)
	}
	file := os.NewFile(uintptr(fd), "hang-up watcher")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("create the hang-up watcher: %w", err)
	}
	w := &watcher{file: file, raw: raw, done: make(chan struct{}), sessions: make(map[int32]watched)}
	go w.run()
	return w, nil
}

// add watches one connection of s until remove. A connection that is no socket, as in
// tests over pipes, is not watched.
func (w *watcher) add(s *session, at side, nc net.Conn) (fd int32, err error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return -1, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("watch a connection: %w", err)
	}
	fd = -1
	var addErr error
	err = raw.Control(func(u uintptr) {
		fd = int32(u)
		w.mu.Lock()
		w.sessions[fd] = watched{s, at}
		w.mu.Unlock()
		addErr = w.ctl(unix.EPOLL_CTL_ADD, fd)
	})
	if err == nil {
		err = addErr
	}
	if err != nil {
		w.forget(fd)
		return -1, fmt.Errorf("watch a connection: %w", err)
	}
	return fd, nil
}

func (w *watcher) ctl(op int, fd int32) error {
	var err error
	cerr := w.raw.Control(func(ep uintptr) {
		ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET&0xFFFFFFFF, Fd: fd}
		err = unix.EpollCtl(int(ep), op, int(fd), &ev)
	})
	if cerr != nil {
		return cerr
	}
	return err
}

// remove ends the watch; it must come before the connection is closed, because the
// descriptor's number is used again.
func (w *watcher) remove(fd int32) {
	if fd < 0 {
		return
	}
	_ = w.ctl(unix.EPOLL_CTL_DEL, fd) // fails only once the set itself is closed
	w.forget(fd)
}

func (w *watcher) forget(fd int32) {
	w.mu.Lock()
	delete(w.sessions, fd)
	w.mu.Unlock()
}

// run hands hang-ups to their sessions until close.
func (w *watcher) run() {
	defer close(w.done)
	var events [64]unix.EpollEvent
	_ = w.raw.Read(func(ep uintptr) bool { // returns only when the set is closed
		for {
			n, err := unix.EpollWait(int(ep), events[:], 0)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 || err != nil {
				return false
			}
			for i := range events[:n] {
				w.hangup(events[i].Fd)
			}
		}
	})
}

func (w *watcher) hangup(fd int32) {
	w.mu.Lock()
	at, ok := w.sessions[fd]
	w.mu.Unlock()
	if ok {
		at.s.hungUp(at.side)
	}
}

func (w *watcher) close() {
	w.file.Close()
	<-w.done
}
