package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// A Gate authenticates requests and enforces what endpoints require.
type Gate struct {
	path     string
	log      *slog.Logger
	outer    func(*http.Request) string // see NewOpenGate
	accounts atomic.Pointer[accounts]

	mu     sync.Mutex // guards the file's version
	loaded version

	salt   [sha256.Size]byte
	turn   chan struct{} // locked during a bcrypt comparison, which takes a CPU for up to a second
	cached struct {
		sync.Mutex
		keys map[[sha256.Size]byte]struct{} // of correct credentials
	}
}

// cachedLogins bounds the correct credentials that are accepted without bcrypt.
const cachedLogins = 256

// A version identifies a state of a file.
type version struct {
	changed time.Time
	size    int64
}

// NewGate returns a Gate with the accounts of a file.
func NewGate(path string, log *slog.Logger) (*Gate, error) {
	g := &Gate{path: path, log: log, turn: make(chan struct{}, 1)}
	if _, err := rand.Read(g.salt[:]); err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	g.cached.keys = make(map[[sha256.Size]byte]struct{})
	v, _ := stat(path) // before the file is read, whose error load returns
	a, err := load(path)
	if err != nil {
		return nil, err
	}
	g.accounts.Store(a)
	g.loaded = v
	return g, nil
}

// NewOpenGate returns a Gate without accounts: every client is an operator with statement texts. outer
// returns the name of an account that was authenticated before the request reached the Gate, or "".
func NewOpenGate(outer func(*http.Request) string, log *slog.Logger) *Gate {
	return &Gate{outer: outer, log: log}
}

// Open reports whether the Gate has no accounts.
func (g *Gate) Open() bool { return g.path == "" }

func stat(path string) (version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return version{}, err
	}
	return version{info.ModTime(), info.Size()}, nil
}

// refresh reloads the file if it has changed. If the file cannot be read, its previous accounts stay valid.
func (g *Gate) refresh() *accounts {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, err := stat(g.path)
	if err == nil && v == g.loaded {
		return g.accounts.Load()
	}
	if err != nil && g.loaded == (version{}) {
		return g.accounts.Load() // already logged
	}
	g.loaded = v
	a, err := load(g.path)
	if err != nil {
		g.log.Error("HTTP accounts unchanged: their file cannot be read", "file", g.path, "error", err)
		return g.accounts.Load()
	}
	g.accounts.Store(a)
	g.log.Info("HTTP accounts reloaded", "file", g.path, "accounts", len(a.entries))
	return a
}

// identify returns the account of a request, and whether its credentials are valid.
func (g *Gate) identify(r *http.Request) (Account, bool) {
	if g.Open() {
		all := Account{Name: Anonymous, Role: Operator, Texts: true}
		if g.outer != nil {
			if name := g.outer(r); name != "" {
				all.Name = name
			}
		}
		return all, true
	}
	known := g.refresh()
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		if e := known.entries[Anonymous]; e != nil {
			return e.Account, true
		}
		return Account{Name: Anonymous}, true
	}
	if len(headers) > 1 {
		return Account{Name: Anonymous}, false
	}
	if scheme, token, ok := strings.Cut(headers[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
		return known.byToken(token)
	}
	if user, password, ok := r.BasicAuth(); ok {
		return g.byPassword(r.Context(), known, user, password)
	}
	return Account{Name: Anonymous}, false
}

// byToken compares with every token, so that its time depends only on their number.
func (a *accounts) byToken(token string) (Account, bool) {
	given := sha256.Sum256([]byte(token))
	found := Account{Name: Anonymous}
	ok := false
	for _, e := range a.entries {
		if e.hasToken && subtle.ConstantTimeCompare(given[:], e.token[:]) == 1 {
			found, ok = e.Account, true
		}
	}
	return found, ok
}

// byPassword compares with the hash of a user, or with a dummy at the same cost.
func (g *Gate) byPassword(ctx context.Context, known *accounts, user, password string) (Account, bool) {
	denied := Account{Name: Anonymous}
	e := known.entries[user]
	hash := known.dummy
	valid := e != nil && e.password != nil
	if valid {
		hash = e.password
	}
	if hash == nil {
		return denied, false
	}
	key := g.key(user, hash, password)
	if valid && g.isCached(key) {
		return e.Account, true
	}
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return denied, false
	}
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	<-g.turn
	if !valid || err != nil {
		return denied, false
	}
	g.cache(key)
	return e.Account, true
}

// key returns a hash of credentials that is useless outside this process.
func (g *Gate) key(user string, hash []byte, password string) [sha256.Size]byte {
	h := sha256.New()
	h.Write(g.salt[:])
	for _, part := range []string{user, string(hash), password} {
		sum := sha256.Sum256([]byte(part))
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (g *Gate) isCached(key [sha256.Size]byte) bool {
	g.cached.Lock()
	defer g.cached.Unlock()
	_, ok := g.cached.keys[key]
	return ok
}

func (g *Gate) cache(key [sha256.Size]byte) {
	g.cached.Lock()
	defer g.cached.Unlock()
	if len(g.cached.keys) >= cachedLogins {
		clear(g.cached.keys)
	}
	g.cached.keys[key] = struct{}{}
}
