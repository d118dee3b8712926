package sharedcache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmemcached"
	"github.com/taredb/tare/internal/testwait"
)

// A logText is the text of a log.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

// setTimeout changes the time-out of all calls. No call may be in progress.
func (c *Cache) setTimeout(d time.Duration) {
	for _, s := range c.servers {
		s.timeout, s.client.Timeout, s.client.ConnectTimeout = d, d, d
	}
}

// hasty is a time-out that calls are expected to exceed.
const hasty = 100 * time.Millisecond

// TestFailures stops and stalls a server in turn. It is soon not called any more, and called again when it works;
// each change is logged once.
func TestFailures(t *testing.T) {
	fail := map[string]func(*testmemcached.Server){
		"stopped": func(s *testmemcached.Server) { s.Stop(t) },
		"stalled": func(s *testmemcached.Server) { s.Stall() },
	}
	for name, fail := range fail {
		t.Run(name, func(t *testing.T) {
			s := testmemcached.Start(t)
			var log logText
			c := open(t, Options{Servers: []string{s.Addr}, Retry: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
			o := objectOf("01A")
			c.Set(o, 0, pageOf(0, PageSize))
			c.written(t)
			testwait.Until(t, "a hit", func() bool { return len(get(t, c, o, 0)) == 1 })
			fail(s)
			c.setTimeout(hasty)
			testwait.Until(t, "a pause", func() bool {
				if n := len(get(t, c, o, 0)); n > 0 {
					t.Fatalf("%d pages of a server that does not respond", n)
				}
				return c.Stats().Skipped > 0
			})
			st := c.Stats()
			if st.Paused() != 1 || st.Servers[0].Failures < breakerFailures {
				t.Errorf("%+v", st)
			}
			testwait.Until(t, "failed trials", func() bool {
				get(t, c, o, 0)
				return c.Stats().Servers[0].Failures >= breakerFailures+2
			})
			c.Set(o, 1, pageOf(1, PageSize))
			c.written(t)
			c.setTimeout(patient)
			s.Resume()
			if name == "stopped" {
				s.Restart(t)
			}
			testwait.Until(t, "hits again", func() bool { return len(get(t, c, o, 0)) == 1 })
			if st := c.Stats(); st.Paused() != 0 || st.Dropped+st.WritesFailed != 1 {
				t.Errorf("%+v", st)
			}
			if a, b := log.count("memcached server is not called"), log.count("memcached server is called again"); a != 1 || b != 1 {
				t.Errorf("logged %d and %d times", a, b)
			}
		})
	}
}

// TestStalledReads stalls reads of a server whose writes succeed: they do not keep it from being paused.
func TestStalledReads(t *testing.T) {
	s := testmemcached.Start(t)
	c := open(t, Options{Servers: []string{s.Addr}, Retry: time.Hour})
	s.StallReads()
	o := objectOf("01A")
	for i := range breakerFailures {
		if st := c.Stats(); st.Paused() > 0 {
			t.Fatalf("paused after %d reads", i)
		}
		for p := range uint32(2 * breakerPart) {
			c.Set(o, p, pageOf(p, 100))
		}
		c.written(t)
		c.setTimeout(hasty)
		get(t, c, o, 0)
		c.setTimeout(patient)
	}
	if st := c.Stats(); st.Paused() != 1 || st.Stored == 0 {
		t.Errorf("%+v", st)
	}
}

// TestOneFailure reads many pages of a stalled server by one call of Get: it calls the server once.
func TestOneFailure(t *testing.T) {
	s := testmemcached.Start(t)
	s.Stall()
	c := open(t, Options{Servers: []string{s.Addr}, Timeout: 100 * time.Millisecond})
	get(t, c, objectOf("01A"), upTo(100)...)
	if st := c.Stats(); st.Failed != batchPages || st.Skipped != 100-batchPages || st.Servers[0].Failures != 1 {
		t.Errorf("%+v", st)
	}
}

// TestRefusedWrites makes a server refuse values, then respond to writes with garbage. Only that is a failure.
func TestRefusedWrites(t *testing.T) {
	for response, paused := range map[string]int{"SERVER_ERROR out of memory storing object\r\n": 0, "NOT_STORED\r\n": 0, "HTTP/1.1 400 Bad Request\r\n\r\n": 1} {
		address := rawServer(t, func(c net.Conn) {
			for err := error(nil); err == nil; {
				if _, err = c.Write([]byte(response)); err == nil {
					_, err = c.Read(make([]byte, 4096))
				}
			}
		})
		c := open(t, Options{Servers: []string{address}, Retry: time.Hour})
		for p := range uint32(breakerFailures) {
			c.Set(objectOf("01A"), p, pageOf(p, 100))
			c.written(t)
		}
		if st := c.Stats(); st.Paused() != paused || st.WritesFailed != breakerFailures || st.Stored > 0 {
			t.Errorf("%q: %+v", response, st)
		}
	}
}

// rawServer accepts connections and calls serve for each request line.
func rawServer(t *testing.T, serve func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				request := make([]byte, 4096)
				if _, err := c.Read(request); err == nil {
					serve(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		testwait.Group(t, "connections", &wg)
	})
	return l.Addr().String()
}

// TestHostile reads from servers that send what memcached does not. Each call ends, without memory for what they
// announce.
func TestHostile(t *testing.T) {
	send := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = c.Write([]byte(text)) } // a client that has disconnected is expected
	}
	forever := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			for b := []byte(text); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}
	}
	for name, serve := range map[string]func(net.Conn){
		"a huge value":      send("VALUE x 0 4000000000 1\r\n" + strings.Repeat("x", 100)),
		"a negative length": send("VALUE x 0 -5 1\r\nabc\r\n"),
		"garbage":           send("\x00\xff\r\n\r\n"),
		"an error":          send("SERVER_ERROR out of memory\r\n"),
		"an end":            send(""),
		"a cut value":       send("VALUE x 0 500 1\r\nabc"),
		"many values":       forever("VALUE x 0 50000 1\r\n" + strings.Repeat("x", 50000) + "\r\n"),
		"a long line":       forever("x"),
		"a drip": func(c net.Conn) { // each item within the time-out, the response never
			for {
				if _, err := c.Write([]byte("VALUE x 0 1 1\r\na\r\n")); err != nil {
					return
				}
				_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // the pace: the client sends nothing
				_, _ = c.Read(make([]byte, 1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, Options{Servers: []string{rawServer(t, serve)}, Timeout: 500 * time.Millisecond})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			done := make(chan int, 1)
			go func() { done <- len(get(t, c, objectOf("01A"), 0, 1)) }()
			if n := testwait.Receive(t, "a call to end", done); n > 0 {
				t.Errorf("%d pages", n)
			}
			runtime.ReadMemStats(&after)
			if s := c.Stats(); s.Failed != 2 || s.Servers[0].Failures != 1 {
				t.Errorf("%+v", s)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 3*maxResponse {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}

// TestCancelled ends a query while its call waits: the server is not at fault.
func TestCancelled(t *testing.T) {
	s := testmemcached.Start(t)
	c := open(t, Options{Servers: []string{s.Addr}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * breakerFailures {
		c.Get(ctx, objectOf("01A"), []uint32{0}, func(uint32, []byte) { t.Error("a page") })
	}
	if st := c.Stats(); st.Skipped != 2*breakerFailures || st.Servers[0].Failures > 0 || st.Paused() > 0 {
		t.Errorf("%+v", st)
	}
}

// TestCause makes calls that fail, succeed and write: the cause is the latest error, which is logged once when the server is paused.
func TestCause(t *testing.T) {
	var log logText
	s := newServer("s:1", &Options{Timeout: time.Hour, Retry: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer s.close()
	if err := s.cause(); err != nil {
		t.Errorf("without a call: %v", err)
	}
	lost := errors.New("it is lost")
	for i, result := range []error{nil, lost, nil, errWritten, lost, lost, lost, lost} {
		if err := s.call(func() error { return result }); !errors.Is(err, result) {
			t.Errorf("call %d: %v", i, err)
		}
		if want := i > 0; (s.cause() != nil) != want || want && !errors.Is(s.cause(), lost) {
			t.Errorf("after call %d: %v", i, s.cause())
		}
	}
	if s.failures.Load() != 5 || log.count("memcached server is not called") != 1 || log.count(`server=s:1 err="it is lost"`) != 1 {
		t.Errorf("%d failures, log %s", s.failures.Load(), log.text.String())
	}
	if err := s.call(func() error { panic("it is called") }); !errors.Is(err, errPaused) || s.failures.Load() != 5 {
		t.Errorf("paused: %v, %d failures", err, s.failures.Load())
	}
}
