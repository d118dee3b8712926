package testmemcached

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
)

// A Server has the commands get, gets and set. It is safe for concurrent use.
type Server struct {
	Addr string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	values   map[string][]byte
	stalled  chan struct{} // nil: not stalled; closed by Resume
	only     string        // prefix of the stalled commands
	served   sync.WaitGroup
	gets     int
}

// Start starts an empty server, which ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{Addr: "127.0.0.1:0", conns: make(map[net.Conn]struct{}), values: make(map[string][]byte)}
	s.Restart(tb)
	tb.Cleanup(func() { s.Stop(tb) })
	return s
}

// Restart starts the server after Stop, at its address and with its values.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Addr, s.listener = l.Addr().String(), l
	s.served.Go(func() { s.accept(l) })
}

// Stop closes all connections and refuses further ones.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.Resume()
	s.mu.Lock()
	s.listener.Close()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	testwait.Group(tb, "connections of a memcached server", &s.served)
}

// Stall makes commands wait until Resume. New connections are accepted.
func (s *Server) Stall() { s.stall("") }

// StallReads makes commands that read wait until Resume.
func (s *Server) StallReads() { s.stall("get") }

func (s *Server) stall(only string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.only = only
	if s.stalled == nil {
		s.stalled = make(chan struct{})
	}
}

// Resume ends Stall.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled != nil {
		close(s.stalled)
		s.stalled = nil
	}
}

// Change replaces each value by the result of change.
func (s *Server) Change(change func(key string, value []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range s.values {
		s.values[key] = change(key, value)
	}
}

// Keys returns the number of values.
func (s *Server) Keys() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// Gets returns the number of commands that read.
func (s *Server) Gets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.served.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		response, err := s.command(strings.Fields(line), r)
		if err != nil {
			return
		}
		s.mu.Lock()
		stalled, only := s.stalled, s.only
		s.mu.Unlock()
		if stalled != nil && strings.HasPrefix(line, only) {
			<-stalled
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}

func (s *Server) command(words []string, r io.Reader) (response []byte, err error) {
	switch {
	case len(words) > 1 && (words[0] == "get" || words[0] == "gets"):
		return s.get(words[1:]), nil
	case len(words) == 5 && words[0] == "set":
		n, err := strconv.Atoi(words[4])
		if err != nil || n < 0 {
			return nil, fmt.Errorf("set: a length of %q", words[4])
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(r, value); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.values[words[1]] = value[:n]
		return []byte("STORED\r\n"), nil
	}
	return []byte("ERROR\r\n"), nil
}

func (s *Server) get(keys []string) (response []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	for _, key := range keys {
		if value, ok := s.values[key]; ok {
			response = fmt.Appendf(response, "VALUE %s 0 %d 1\r\n%s\r\n", key, len(value), value)
		}
	}
	return append(response, "END\r\n"...)
}
