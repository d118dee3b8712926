package sharedcache

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/grafana/gomemcache/memcache"
)

// Bounds of a response, which the client does not have.
const (
	maxItem     = 1 << 20 // of a value: longer ones are not ours, and memcached has none by default
	maxResponse = 4 << 20
	maxLine     = 512
)

// errForeign reports a response that no memcached server sends for the pages requested.
var errForeign = errors.New("the response is not one of memcached, or too long")

// A conn is a connection whose deadline counts from the start of a request, not from each item of its response,
// and which bounds the response before the client allocates memory for it. One goroutine at a time uses it.
type conn struct {
	net.Conn
	server *server

	fresh   bool // no request was made: the deadline counts from the start of the dial
	asking  bool // the latest call was Write
	left    int  // bytes that the response may still have
	skip    int  // bytes of the current value
	line    [maxLine]byte
	lineLen int
}

// dial connects to the server. It is called by the client.
func (s *server) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	until := time.Now().Add(timeout)
	nc, err := (&net.Dialer{Deadline: until}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	if err := nc.SetDeadline(until); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	c := &conn{Conn: nc, server: s, fresh: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c, nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}

// SetDeadline does nothing: the client would extend the deadline with each item.
func (c *conn) SetDeadline(time.Time) error { return nil }

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !c.asking {
		if !c.fresh {
			if err := c.Conn.SetDeadline(time.Now().Add(c.server.timeout)); err != nil {
				return 0, err
			}
		}
		c.asking, c.fresh = true, false
		c.left, c.skip, c.lineLen = maxResponse, 0, 0
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn. The client takes io.EOF for the end of a response, so it gets another error.
func (c *conn) Read(p []byte) (int, error) {
	c.asking = false
	n, err := c.Conn.Read(p)
	if err == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		err = io.ErrUnexpectedEOF
	}
	if !c.plausible(p[:n]) {
		return 0, errForeign
	}
	return n, err
}

// plausible follows the lines and values of a response, and reports whether they are within the bounds.
func (c *conn) plausible(b []byte) bool {
	if c.left -= len(b); c.left < 0 {
		return false
	}
	for len(b) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(b))
			c.skip -= n
			b = b[n:]
			continue
		}
		n := bytes.IndexByte(b, '\n') + 1
		whole := n > 0
		if !whole {
			n = len(b)
		}
		if c.lineLen+n > maxLine {
			return false
		}
		c.lineLen += copy(c.line[c.lineLen:], b[:n])
		b = b[n:]
		if whole && !c.endLine() {
			return false
		}
	}
	return true
}

// endLine reads the length of a value from its line, if it is one.
func (c *conn) endLine() bool {
	line := c.line[:c.lineLen]
	c.lineLen = 0
	if !bytes.HasPrefix(line, []byte("VALUE ")) {
		return true
	}
	for range 3 { // the word, the key and the flags
		at := bytes.IndexByte(line, ' ')
		line = line[at+1:]
	}
	if end := bytes.IndexAny(line, " \r"); end >= 0 {
		line = line[:end]
	}
	size, err := strconv.ParseUint(string(line), 10, 32)
	if err != nil || size > maxItem {
		return false
	}
	c.skip = int(size) + len("\r\n")
	return true
}

// A batch is the memory of one call that reads.
type batch struct {
	pages  [batchPages]uint32
	n      int    // pages in use
	text   []byte // of the keys
	values [batchPages][valueSize + 2]byte
	spans  [batchPages][]byte // of values
	used   int                // spans in use
	with   memcache.Option
}

// option returns the option that makes the client read values into the batch.
func (b *batch) option() memcache.Option {
	if b.with == nil {
		b.with = memcache.WithAllocator(b)
	}
	return b.with
}

// Get implements memcache.Allocator. Values that are too long, or too many, are not ours.
func (b *batch) Get(n int) *[]byte {
	if b.used == batchPages || n > valueSize+2 {
		other := make([]byte, n)
		return &other
	}
	span := &b.spans[b.used]
	*span = b.values[b.used][:]
	b.used++
	return span
}

// Put implements memcache.Allocator. The batch is reused as a whole.
func (b *batch) Put(*[]byte) {}
