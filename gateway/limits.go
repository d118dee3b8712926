package gateway

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// unauthenticated counts connections before login, in total and per client address.
type unauthenticated struct {
	max, maxPer int // 0: no limit

	mu    sync.Mutex
	total int
	from  map[netip.Addr]int
}

// acquire counts a connection, or returns an error if a limit is reached.
func (u *unauthenticated) acquire(addr netip.Addr, m *metrics) *clientError {
	addr = connlimit.Client(addr)
	u.mu.Lock()
	defer u.mu.Unlock()
	e := &clientError{errno: mysqlwire.ErrnoTooManyConnections}
	switch {
	case u.max > 0 && u.total >= u.max:
		m.refusedUnauthenticated.Add(1)
		e.msg = fmt.Sprintf("Too many connections: %d are not logged in yet (option max-unauthenticated)", u.total)
		return e
	case u.maxPer > 0 && u.from[addr] >= u.maxPer:
		m.refusedAddress.Add(1)
		e.msg = fmt.Sprintf("Too many connections: %d from this address are not logged in yet (option max-unauthenticated-per-address)", u.maxPer)
		return e
	}
	u.total++
	if u.from == nil {
		u.from = make(map[netip.Addr]int)
	}
	u.from[addr]++
	return nil
}

func (u *unauthenticated) release(addr netip.Addr) {
	addr = connlimit.Client(addr)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.total--
	if u.from[addr]--; u.from[addr] <= 0 {
		delete(u.from, addr)
	}
}

func (u *unauthenticated) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}

// A logLimit bounds log lines about events that any client can cause: it passes a few in each window and
// counts the rest in the next window's first line.
type logLimit struct {
	mu         sync.Mutex
	began      time.Time
	lines      int
	suppressed int
}

const (
	logWindow = 10 * time.Second
	logLines  = 10 // in a window
)

func (l *logLimit) log(to *slog.Logger, msg string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.began) >= logWindow {
		l.began, l.lines = now, 0
	}
	if l.lines >= logLines {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	l.lines++
	n := l.suppressed
	l.suppressed = 0
	l.mu.Unlock()
	if n > 0 {
		args = append(args, "suppressed", n)
	}
	to.Info(msg, args...) //nolint:sloglint // the caller's message is a constant
}

// userLimit counts connections per user name, if there is a limit. It is consulted at login and at the end of
// a session, not per statement.
type userLimit struct {
	max int // 0: no limit, and nothing is counted

	mu    sync.Mutex
	count map[string]int
}

// acquire counts a connection of the user and reports true, or reports false if the limit is reached.
func (u *userLimit) acquire(user string) bool {
	if u.max == 0 {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[user] >= u.max {
		return false
	}
	u.count[user]++
	return true
}

func (u *userLimit) release(user string) {
	if u.max == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[user]--; u.count[user] <= 0 {
		delete(u.count, user)
	}
}

// transfer transfers a connection's count to another user. It reports whether the limit allows that.
func (u *userLimit) transfer(from, to string) bool {
	if from == to {
		return true
	}
	if !u.acquire(to) {
		return false
	}
	u.release(from)
	return true
}

// undoTransfer undoes a move, even past the limit: the connection was counted before.
func (u *userLimit) undoTransfer(from, to string) {
	if u.max == 0 || from == to {
		return
	}
	u.release(from)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[to]++
}

// File descriptors: a session has two sockets; the rest of the process has logs, blocks and HTTP.
const (
	sessionFiles  = 2
	reservedFiles = 128
)

// boundByFiles limits the number of sessions to what the limit on open files allows, and warns if that is
// less than configured.
func (s *Server) boundByFiles() {
	files := s.opts.OpenFiles
	s.maxByFiles = max((files-reservedFiles)/sessionFiles, 1)
	if n := s.opts.MaxConnections; n > files/sessionFiles {
		s.opts.Diag.Warn("open files limit is below twice the option max-connections: clients are refused before it is reached",
			"limit", files, "max_connections", n, "accepted", s.maxByFiles)
	}
}

// blockedUsers are accounts that the server refuses after too many wrong passwords (MariaDB's
// max_password_errors). MariaDB counts each further login of such an account as a handshake error of the
// gateway's address: the retries of one application would block all clients with error 1129. For blockedLife
// after each such refusal, the gateway therefore refuses the account's logins itself, with the server's error
// and without connecting.
type blockedUsers struct {
	mu    sync.Mutex
	until map[string]blockedUser
}

type blockedUser struct {
	until time.Time
	msg   string
}

const (
	blockedLife = 10 * time.Second
	maxBlocked  = 4096 // users
)

// of returns the error for a blocked user, otherwise nil.
func (b *blockedUsers) of(user string) *clientError {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, ok := b.until[user]
	if !ok {
		return nil
	}
	if !time.Now().Before(u.until) {
		delete(b.until, user)
		return nil
	}
	return &clientError{errno: mysqlwire.ErrnoUserBlocked, msg: u.msg}
}

// add records that the server has refused a login of the user.
func (b *blockedUsers) add(user string, msg string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil || len(b.until) >= maxBlocked {
		b.until = make(map[string]blockedUser)
	}
	b.until[user] = blockedUser{time.Now().Add(blockedLife), msg}
}
