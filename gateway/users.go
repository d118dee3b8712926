package gateway

import "sync"

// userLimit counts connections by user name, where there is a limit. It is asked at login
// and at the end of a session, not for statements.
type userLimit struct {
	max int // 0: no limit, and nothing is counted

	mu    sync.Mutex
	count map[string]int
}

// enter counts a connection of the user, unless it would be one too many.
func (u *userLimit) enter(user string) bool {
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

func (u *userLimit) leave(user string) {
	if u.max == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count[user]--; u.count[user] <= 0 {
		delete(u.count, user)
	}
}

// move counts a connection that changes its user.
func (u *userLimit) move(from, to string) bool {
	if from == to {
		return true
	}
	if !u.enter(to) {
		return false
	}
	u.leave(from)
	return true
}

// restore takes a move back, even past the limit: the connection was counted before.
func (u *userLimit) restore(from, to string) {
	if u.max == 0 || from == to {
		return
	}
	u.leave(from)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[to]++
}
