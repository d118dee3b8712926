package sharedcache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/gomemcache/memcache"
	"github.com/sony/gobreaker/v2"
)

// The circuit breaker of a server.
const (
	breakerInterval = 10 * time.Second // in which calls are counted
	breakerFailures = 5                // the least number of failures that pauses a server
	breakerPart     = 5                // and a fifth of the calls, or all of the latest; writes that succeed do not count
)

// Errors of calls.
var (
	errPaused = errors.New("the server is not called: its latest calls failed")
	errSlow   = errors.New("the call took more than half of the time-out")

	errWritten = errors.New("a successful write") // keeps the circuit breaker from counting it
)

// A server is one memcached server. It implements memcache.ServerSelector for its client, and net.Addr.
type server struct {
	name    string
	seed    uint64 // of the scores of pages
	timeout time.Duration
	log     *slog.Logger
	client  *memcache.Client
	breaker *gobreaker.CircuitBreaker[struct{}]

	paused   atomic.Bool // since the breaker opened, until a trial succeeded
	failures atomic.Uint64
	latest   atomic.Pointer[error] // of a call

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newServer(name string, o *Options) *server {
	sum := sha256.Sum256([]byte(name))
	s := &server{
		name: name, seed: binary.LittleEndian.Uint64(sum[:]), timeout: o.Timeout, log: o.Log,
		conns: make(map[*conn]struct{}),
	}
	s.client = memcache.NewFromSelector(s)
	s.client.Timeout, s.client.ConnectTimeout = o.Timeout, o.Timeout
	s.client.MaxIdleConns = maxBatches + 1 // and the writer's
	s.client.DialTimeout = s.dial
	s.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, Interval: breakerInterval, Timeout: o.Retry,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= breakerFailures ||
				n.TotalFailures >= breakerFailures && n.TotalFailures*breakerPart >= n.TotalFailures+n.TotalSuccesses
		},
		OnStateChange: func(_ string, _, to gobreaker.State) { s.changed(to) },
		IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, errWritten) },
	})
	return s
}

// Network, String, PickServer and Each make the client call this server.
func (s *server) Network() string { return "tcp" }

func (s *server) String() string { return s.name }

// PickServer implements memcache.ServerSelector.
func (s *server) PickServer(string) (net.Addr, error) { return s, nil }

// Each implements memcache.ServerSelector.
func (s *server) Each(visit func(net.Addr) error) error { return visit(s) }

// changed logs when calls pause and when they resume. Failed trials between are not logged.
func (s *server) changed(to gobreaker.State) {
	switch {
	case to == gobreaker.StateOpen && !s.paused.Swap(true):
		s.log.Warn("memcached server is not called: its calls fail or are slow", "server", s.name, "err", s.cause())
	case to == gobreaker.StateClosed && s.paused.Swap(false):
		s.log.Info("memcached server is called again", "server", s.name)
	}
}

// cause returns the latest error of a call.
func (s *server) cause() error {
	if err := s.latest.Load(); err != nil {
		return *err
	}
	return nil
}

// get returns the values of keys, as many as arrived. Their bytes are in the batch. With errSlow all arrived, late.
func (s *server) get(ctx context.Context, keys []string, b *batch) (items map[string]*memcache.Item, err error) {
	err = s.call(func() (err error) {
		items, err = s.client.GetMulti(ctx, keys, b.option())
		if err != nil && ctx.Err() != nil {
			return context.Canceled // by the query, which is not the server's failure
		}
		return err
	})
	return items, err
}

// set stores an item. A refusal by the server, which may be short of memory, is no failed call. Nor is a success a
// sign that reads work: there are up to 16 writes for each of them, and they are shorter.
func (s *server) set(item *memcache.Item) error {
	var refusal error
	err := s.call(func() error {
		err := s.client.Set(item)
		if err == nil || refused(err) {
			refusal, err = err, errWritten
		}
		return err
	})
	if errors.Is(err, errWritten) || errors.Is(err, errSlow) {
		return refusal
	}
	return err
}

// refused reports whether err is a response of memcached that refuses a value.
func refused(err error) bool {
	return errors.Is(err, memcache.ErrNotStored) || strings.Contains(err.Error(), `"SERVER_ERROR `)
}

// call makes a call through the circuit breaker.
func (s *server) call(f func() error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		start := time.Now()
		err := f()
		if (err == nil || errors.Is(err, errWritten)) && time.Since(start) > s.timeout/2 {
			err = errSlow
		}
		if err != nil && !errors.Is(err, errWritten) {
			s.latest.Store(&err)
		}
		return struct{}{}, err
	})
	switch {
	case err == nil || errors.Is(err, errSlow) || errors.Is(err, errWritten) || errors.Is(err, context.Canceled):
	case errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests):
		return errPaused
	default:
		s.failures.Add(1)
	}
	return err
}

// close closes all connections.
func (s *server) close() {
	s.client.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Conn.Close()
	}
	clear(s.conns)
}
