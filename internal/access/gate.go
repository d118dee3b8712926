package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/taredb/tare/internal/connlimit"
)

// A Gate authenticates requests and enforces what endpoints require.
type Gate struct {
	path     string // "": open
	parse    func([]byte) (*accounts, error)
	log      *slog.Logger
	accounts atomic.Pointer[accounts]

	mu     sync.Mutex // guards the file's version
	loaded version

	logins logins
	salt   [sha256.Size]byte
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
func NewGate(path string, log *slog.Logger) (*Gate, error) { return newGate(path, parse, log) }

// NewUsersGate returns a Gate whose accounts are the names and bcrypt hashes that users returns for the content of a
// file. All are operators that see statement texts. Without any account the Gate is open; accounts that were there
// are not removed by a file without any.
func NewUsersGate(path string, users func([]byte) (map[string]string, error), log *slog.Logger) (*Gate, error) {
	return newGate(path, func(text []byte) (*accounts, error) {
		hashes, err := users(text)
		if err != nil {
			return nil, err
		}
		return operators(hashes)
	}, log)
}

func newGate(path string, parse func([]byte) (*accounts, error), log *slog.Logger) (*Gate, error) {
	g := &Gate{path: path, parse: parse, log: log}
	g.logins.init(log)
	if _, err := rand.Read(g.salt[:]); err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	g.cached.keys = make(map[[sha256.Size]byte]struct{})
	v, _ := stat(path) // before the file is read, whose error load returns
	a, err := load(path, parse)
	if err != nil {
		return nil, err
	}
	g.accounts.Store(a)
	g.loaded = v
	return g, nil
}

// NewOpenGate returns a Gate without accounts: every client is an operator with statement texts.
func NewOpenGate(log *slog.Logger) *Gate {
	g := &Gate{log: log}
	g.logins.init(log)
	return g
}

// Open reports whether the Gate has no accounts.
func (g *Gate) Open() bool { return g.path == "" || len(g.accounts.Load().entries) == 0 }

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
	a, err := load(g.path, g.parse)
	if err == nil && len(a.entries) == 0 && !g.Open() {
		err = errors.New("it has no accounts any more: restart to serve every client")
	}
	if err != nil {
		g.log.Error("HTTP accounts unchanged: their file cannot be read", "file", g.path, "error", err)
		return g.accounts.Load()
	}
	g.accounts.Store(a)
	g.log.Info("HTTP accounts reloaded", "file", g.path, "accounts", len(a.entries))
	return a
}

// identify returns the account of a request, and why it has none.
func (g *Gate) identify(r *http.Request) (Account, verdict) {
	if g.path == "" {
		return everyone(), accepted
	}
	known := g.refresh()
	if len(known.entries) == 0 {
		return everyone(), accepted
	}
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		if e := known.entries[Anonymous]; e != nil {
			return e.Account, accepted
		}
		return Account{Name: Anonymous}, accepted
	}
	account, v, name := Account{Name: Anonymous}, wrong, ""
	if len(headers) == 1 {
		if scheme, token, ok := strings.Cut(headers[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			account, v = known.byToken(token)
		} else if user, password, ok := r.BasicAuth(); ok {
			name = user
			account, v = g.byPassword(r.Context(), known, connlimit.AddressOf(r.RemoteAddr), user, password)
		}
	}
	if v != accepted {
		g.logins.failed(r.RemoteAddr, name, v)
	}
	return account, v
}

// everyone is the account of every client of an open Gate.
func everyone() Account { return Account{Name: Anonymous, Role: Operator, Texts: true} }

// byToken compares with every token, so that its time depends only on their number.
func (a *accounts) byToken(token string) (Account, verdict) {
	given := sha256.Sum256([]byte(token))
	found, v := Account{Name: Anonymous}, wrong
	for _, e := range a.entries {
		if e.hasToken && subtle.ConstantTimeCompare(given[:], e.token[:]) == 1 {
			found, v = e.Account, accepted
		}
	}
	return found, v
}

// byPassword compares with the hash of a user, or with none at the same cost.
func (g *Gate) byPassword(ctx context.Context, known *accounts, from netip.Addr, user, password string) (Account, verdict) {
	denied := Account{Name: Anonymous}
	if known.cost == 0 {
		return denied, wrong // no account has a password
	}
	e := known.entries[user]
	var hash []byte
	if e != nil {
		hash = e.password
	}
	key := g.key(user, hash, password)
	if hash != nil && g.isCached(key) {
		return e.Account, accepted
	}
	v := g.logins.checkOnce(ctx, sharedKey{from, key}, func() bool { return known.matches(hash, password) })
	if v != accepted {
		return denied, v
	}
	g.cache(key)
	return e.Account, accepted
}

// matches compares a password with a hash, or with none if hash is nil. A mismatch takes as long as one of the
// account with the most expensive hash.
func (a *accounts) matches(hash []byte, password string) bool {
	least := bcrypt.MinCost
	if hash != nil {
		least, _ = bcrypt.Cost(hash) // checked by entry
		if bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil {
			return true
		}
	} else {
		compareNone(least, password)
	}
	for cost := least; cost < a.cost; cost++ { // 2^least + 2^least + … + 2^(a.cost-1) = 2^a.cost
		compareNone(cost, password)
	}
	return false
}

// compareNone takes as long as the comparison with a hash of a cost.
func compareNone(cost int, password string) {
	hash := fmt.Sprintf("$2a$%02d$%s", cost, strings.Repeat(".", 53)) // the hash of no known password
	_ = bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
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
