package access

import (
	"context"
	"crypto/sha256"
	"net/netip"
)

// A sharedCheck runs for all requests of an address that have the same credentials and come while it runs: a frontend sends a request per
// shard at once.
type sharedCheck struct {
	done    chan struct{}
	verdict verdict
	left    bool // the request that it runs for has ended before its turn
}

// A sharedKey identifies requests with the same credentials.
type sharedKey struct {
	from        netip.Addr
	credentials [sha256.Size]byte
}

// checkOnce is check for all requests with the same key.
func (l *logins) checkOnce(ctx context.Context, key sharedKey, matches func() bool) verdict {
	for {
		c, first := l.share(key)
		if first {
			defer l.unshare(key, c)
			c.verdict = l.check(ctx, key.from, matches)
			c.left = c.verdict == throttled && ctx.Err() != nil
			return c.verdict
		}
		select {
		case <-c.done:
			if !c.left {
				return c.verdict
			}
		case <-ctx.Done():
			return throttled
		}
	}
}

// share returns the check of a key that runs. It starts one if there is none.
func (l *logins) share(key sharedKey) (c *sharedCheck, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.shared[key]; c != nil {
		return c, false
	}
	c = &sharedCheck{done: make(chan struct{}), verdict: throttled}
	l.shared[key] = c
	return c, true
}

// unshare ends a check.
func (l *logins) unshare(key sharedKey, c *sharedCheck) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.shared, key)
	close(c.done)
}
