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
	last     watchID
	sessions map[watchID]watched
}

type watched struct {
	s    *session
	side side
}

// A watchID tells watches apart. An event carries it instead of the descriptor, whose number
// a new connection may have by the time the event is looked at.
type watchID uint64

// A watch is one connection that is watched; the zero value is none.
type watch struct {
	id watchID
	fd int32
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
	w := &watcher{file: file, raw: raw, done: make(chan struct{}), sessions: make(map[watchID]watched)}
	go w.run()
	return w, nil
}

// add watches one connection of s until remove. A connection that is no socket, as in
// tests over pipes, is not watched.
func (w *watcher) add(s *session, at side, nc net.Conn) (watch, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return watch{}, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return watch{}, fmt.Errorf("watch a connection: %w", err)
	}
	w.mu.Lock()
	w.last++
	added := watch{id: w.last}
	w.sessions[added.id] = watched{s, at}
	w.mu.Unlock()
	var addErr error
	err = raw.Control(func(u uintptr) {
		added.fd = int32(u)
		addErr = w.ctl(unix.EPOLL_CTL_ADD, added)
	})
	if err == nil {
		err = addErr
	}
	if err != nil {
		w.forget(added)
		return watch{}, fmt.Errorf("watch a connection: %w", err)
	}
	return added, nil
}

// ctl changes the set. The 64 bits that an event gives back hold the watch's number.
func (w *watcher) ctl(op int, at watch) error {
	var err error
	cerr := w.raw.Control(func(ep uintptr) {
		ev := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET&0xFFFFFFFF, Fd: int32(at.id), Pad: int32(at.id >> 32)}
		err = unix.EpollCtl(int(ep), op, int(at.fd), &ev)
	})
	if cerr != nil {
		return cerr
	}
	return err
}

// remove ends the watch; it must come before the connection is closed, because the
// descriptor's number is used again.
func (w *watcher) remove(at watch) {
	if at.id == 0 {
		return
	}
	_ = w.ctl(unix.EPOLL_CTL_DEL, at) // fails only once the set itself is closed
	w.forget(at)
}

func (w *watcher) forget(at watch) {
	w.mu.Lock()
	delete(w.sessions, at.id)
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
				w.hangup(watchID(uint32(events[i].Fd)) | watchID(uint32(events[i].Pad))<<32)
			}
		}
	})
}

func (w *watcher) hangup(id watchID) {
	w.mu.Lock()
	at, ok := w.sessions[id]
	w.mu.Unlock()
	if ok {
		at.s.hungUp(at.side)
	}
}

func (w *watcher) close() {
	w.file.Close()
	<-w.done
}
