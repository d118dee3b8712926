package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Learned has the passwords with which a server has accepted clients, for logins of the gateway as the same users. They are in memory
// only. Any goroutine may call its methods.
type Learned struct {
	Life  time.Duration          // a password admits no clients after this time without a login by it
	InUse func(user string) bool // reports whether a user has sessions that share connections: its account is not evicted

	mu        sync.Mutex
	accounts  map[string]*Account
	forgotten [reasons]atomic.Uint64
}

// Bounds of Learned.
const (
	maxLearned         = 1000 // accounts
	maxLearnedPassword = 512  // bytes
)

// An Account is a user with a password. It is in Learned until it is forgotten.
type Account struct {
	User  string
	Clear bool // the server has requested the password by mysql_clear_password

	password *string      // a pointer, because fmt prints unexported fields without calling methods
	proven   [2]time.Time // when a server has last accepted the password: without TLS, with TLS; guarded by Learned.mu
	forgot   atomic.Bool
	wrong    atomic.Uint32 // passwords that the gateway has refused, without the server's counting them
	turn     chan struct{} // full during a login

	// other has the password that the server accepted before this one; guarded by Learned.mu. If it accepts that one again, the account may
	// have two passwords: then neither is forgotten for the other. The one accepted last admits clients.
	other *Account
}

// A Reason is why an account is forgotten.
type Reason uint8

// The reasons.
const (
	Refused  Reason = iota // the server refuses its logins
	Replaced               // the server has accepted another password
	Aged                   // no login has proven it within Life, and it has no sessions
	Evicted                // in favour of another one
	reasons
)

// String returns the reason's name in metrics.
func (r Reason) String() string { return [...]string{"refused", "replaced", "aged", "evicted"}[r] }

// Reasons returns the number of accounts that were forgotten, by reason.
func (l *Learned) Reasons() (n [reasons]uint64) {
	for i := range n {
		n[i] = l.forgotten[i].Load()
	}
	return n
}

// Len returns the number of accounts.
func (l *Learned) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accounts)
}

// Learn records that a server has accepted a user's password, over a connection with or without TLS, and whether by
// mysql_clear_password. It returns nil if there is no room for another account. added reports whether the password was not known.
func (l *Learned) Learn(user, password string, clear, secure bool, now time.Time) (a *Account, added bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.accounts[user]
	if before != nil {
		if before.has(password, clear) {
			before.prove(secure, now)
			return before, false
		}
		if a = before.other; a != nil && a.has(password, clear) {
			if a.forgot.Load() {
				a = newAccount(user, password, clear)
			}
			a.prove(secure, now)
			a.other, before.other, before.proven = before, nil, [2]time.Time{}
			l.accounts[user] = a
			return a, false
		}
		l.drop(before, Replaced)
		before.other = nil
	}
	if len(password) > maxLearnedPassword || len(l.accounts) >= maxLearned && !l.evict() {
		return nil, false
	}
	if l.accounts == nil {
		l.accounts = make(map[string]*Account)
	}
	a = newAccount(user, password, clear)
	a.other = before
	a.prove(secure, now)
	l.accounts[user] = a
	return a, true
}

func newAccount(user, password string, clear bool) *Account {
	return &Account{User: user, Clear: clear, password: &password, turn: make(chan struct{}, 1)}
}

func (a *Account) has(password string, clear bool) bool {
	return *a.password == password && a.Clear == clear
}

// Of returns a user's account, or nil.
func (l *Learned) Of(user string) *Account {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[user]
}

// Admitting returns a user's account if its password admits clients whose connection to the server has TLS, or has not: a server has
// accepted it there within Life. Otherwise it returns nil.
func (l *Learned) Admitting(user string, secure bool, now time.Time) *Account {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[user]; a != nil && now.Sub(a.proven[transport(secure)]) < l.Life {
		return a
	}
	return nil
}

// Prove records that a server has accepted a login of the gateway.
func (l *Learned) Prove(a *Account, secure bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.prove(secure, now)
}

// Doubt has a's password admit no clients with connections of a kind until a server has accepted it again.
func (l *Learned) Doubt(a *Account, secure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.proven[transport(secure)] = time.Time{}
}

// DoubtAll does that for all accounts.
func (l *Learned) DoubtAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.proven = [2]time.Time{}
	}
}

// Forget removes an account, unless it was removed before. If the server refuses it, its other password takes its place.
func (l *Learned) Forget(a *Account, why Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(a, why)
}

// Expire removes the accounts that admit no clients and have no sessions.
func (l *Learned) Expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if now.Sub(a.last()) >= l.Life && !l.InUse(a.User) {
			l.drop(a, Aged)
		}
	}
}

// Clear removes all accounts.
func (l *Learned) Clear() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.forgot.Store(true)
		if a.other != nil {
			a.other.forgot.Store(true)
		}
	}
	l.accounts = nil
}

func (l *Learned) drop(a *Account, why Reason) {
	if a.forgot.Swap(true) {
		return
	}
	l.forgotten[why].Add(1)
	switch current, other := l.accounts[a.User], a.other; {
	case current != a:
	case why == Refused && other != nil && !other.forgot.Load():
		l.accounts[a.User] = other
	default:
		delete(l.accounts, a.User)
		if other != nil {
			other.forgot.Store(true)
		}
	}
}

// evict makes room by the account without sessions whose last login is the oldest. It reports whether there is one.
func (l *Learned) evict() bool {
	var oldest *Account
	for _, a := range l.accounts {
		if (oldest == nil || a.last().Before(oldest.last())) && !l.InUse(a.User) {
			oldest = a
		}
	}
	if oldest == nil {
		return false
	}
	l.drop(oldest, Evicted)
	return true
}

// Password returns the account's password.
func (a *Account) Password() string { return *a.password }

// Forgotten reports whether the account was removed from Learned: connections opened with it are not lent any more.
func (a *Account) Forgotten() bool { return a != nil && a.forgot.Load() }

// Refuse records that the gateway has refused a wrong password for a.
func (a *Account) Refuse() { a.wrong.Add(1) }

// Refused returns how many wrong passwords the gateway has refused.
func (a *Account) Refused() uint32 { return a.wrong.Load() }

// Turn waits for the right to log in, until the function that it returns is called: there is one login at a time, because servers count
// refused ones against the account.
func (a *Account) Turn(ctx context.Context) (done func(), err error) {
	select {
	case a.turn <- struct{}{}:
		return func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *Account) prove(secure bool, now time.Time) { a.proven[transport(secure)] = now }

// last returns when a server has last accepted the password.
func (a *Account) last() time.Time {
	if a.proven[0].After(a.proven[1]) {
		return a.proven[0]
	}
	return a.proven[1]
}

func transport(secure bool) int {
	if secure {
		return 1
	}
	return 0
}
