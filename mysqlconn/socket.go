package mysqlconn

import (
	"io"
	"net"
	"syscall"
	"unsafe"
)

// A socket reads and writes a TCP connection by system calls of its own. They differ from
// net.TCPConn's in one thing: the scheduler is not told. A read or write of a non-blocking
// socket never waits, but on loopback it does the receiver's work too and takes some ten
// microseconds, after which the scheduler would take the processor away and wake a thread
// for it. Waiting, deadlines and Close are the runtime poller's, as always.
type socket struct {
	net.Conn
	raw syscall.RawConn

	// The operation at hand, for the functions below, which are made once: a closure made
	// for each call would be an allocation.
	rbuf, wbuf []byte
	rn, wn     int
	rerr, werr syscall.Errno
	asking     bool // readReady writes wbuf before it waits
	read       func(fd uintptr) bool
	write      func(fd uintptr) bool
}

// newSocket makes a socket of a TCP connection; other connections are returned as they are.
func newSocket(nc net.Conn) net.Conn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nc
	}
	s := &socket{Conn: nc, raw: raw}
	s.read, s.write = s.readReady, s.writeReady
	return s
}

// SyscallConn gives access to the descriptor.
func (s *socket) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// Read implements io.Reader. It does not allocate.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.rbuf, s.rn, s.rerr = p, 0, 0
	err := s.raw.Read(s.read)
	s.rbuf = nil
	switch {
	case err != nil:
		return 0, err
	case s.rerr != 0:
		return 0, s.failed("read", s.rerr)
	case s.rn == 0:
		return 0, io.EOF
	}
	return s.rn, nil
}

// ask writes p and reads the first bytes of the answer to it. The poller is told to look
// out before p is written, so an answer is not missed, and the read that would find nothing
// is spared. It is for protocols in which nothing comes unasked. It does not allocate.
func (s *socket) ask(p, answer []byte) (written, n int, err error) {
	s.wbuf, s.wn, s.werr = p, 0, 0
	s.rbuf, s.rn, s.rerr = answer, 0, 0
	s.asking = true
	err = s.raw.Read(s.read)
	written, n = s.wn, s.rn
	unsaid := s.asking
	s.asking, s.rbuf, s.wbuf = false, nil, nil
	switch {
	case unsaid: // a deadline has passed: the question is asked all the same
		written, err = s.Write(p)
	case err != nil:
	case s.werr != 0:
		err = s.failed("write", s.werr)
	case written < len(p): // the socket is full
		n, err = s.Write(p[written:])
		written, n = written+n, 0
	case s.rerr != 0:
		err = s.failed("read", s.rerr)
	case n == 0:
		err = io.EOF
	}
	return written, n, err
}

func (s *socket) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: errno}
}

// readReady reads once; false asks the poller to wait.
func (s *socket) readReady(fd uintptr) bool {
	if s.asking {
		s.asking = false
		return !s.writeReady(fd) || s.werr != 0
	}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(s.rbuf))), uintptr(len(s.rbuf)))
		switch errno {
		case 0:
			s.rn = int(n)
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			s.rerr = errno
			return true
		}
	}
}

// Write implements io.Writer. It does not allocate.
func (s *socket) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.wbuf, s.wn, s.werr = p, 0, 0
	err := s.raw.Write(s.write)
	s.wbuf = nil
	if err == nil && s.werr != 0 {
		err = s.failed("write", s.werr)
	}
	return s.wn, err
}

// writeReady writes until all is written; false asks the poller to wait.
func (s *socket) writeReady(fd uintptr) bool {
	for s.wn < len(s.wbuf) {
		rest := s.wbuf[s.wn:]
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)))
		switch errno {
		case 0:
			s.wn += int(n)
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			s.werr = errno
			return true
		}
	}
	return true
}
