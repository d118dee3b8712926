package gateway

import (
	"sync"
	"time"

	"github.com/taredb/tare/mysqlwire"
)

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
func (b *blockedUsers) of(user []byte) *clientError {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, ok := b.until[string(user)]
	if !ok {
		return nil
	}
	if !time.Now().Before(u.until) {
		delete(b.until, string(user))
		return nil
	}
	return &clientError{errno: mysqlwire.ErrnoUserBlocked, msg: u.msg}
}

// add records that the server has refused a login of the user.
func (b *blockedUsers) add(user []byte, msg string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until == nil || len(b.until) >= maxBlocked {
		b.until = make(map[string]blockedUser)
	}
	b.until[string(user)] = blockedUser{time.Now().Add(blockedLife), msg}
}
