package connlimit

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

var errBroken = errors.New("broken")

// A fakeConn records its calls, and fails the n-th one of a kind.
type fakeConn struct {
	net.Conn
	wrote     bytes.Buffer
	parts     []int
	deadlines []time.Time // of writes
	both      []time.Time
	failWrite int
	failLimit int
	closed    int
}

func (c *fakeConn) Write(b []byte) (int, error) {
	c.parts = append(c.parts, len(b))
	if len(c.parts) == c.failWrite {
		b = b[:len(b)/2]
		c.wrote.Write(b)
		return len(b), errBroken
	}
	return c.wrote.Write(b)
}

func (c *fakeConn) SetWriteDeadline(t time.Time) error {
	if c.deadlines = append(c.deadlines, t); len(c.deadlines) == c.failLimit {
		return errBroken
	}
	return nil
}

func (c *fakeConn) SetDeadline(t time.Time) error {
	c.both = append(c.both, t)
	return nil
}

func (c *fakeConn) Close() error {
	c.closed++
	return errBroken
}

// TestWriteInParts bounds each part and its time, and returns the bytes written before an error.
func TestWriteInParts(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), (3*maxWrite+64)/16)
	for _, c := range []struct {
		name      string
		bytes     int
		fake      fakeConn
		parts, n  int
		deadlines int
		err       error
	}{
		{name: "nothing", parts: 1, deadlines: 1},
		{name: "one part", bytes: maxWrite, parts: 1, n: maxWrite, deadlines: 1},
		{name: "one byte more", bytes: maxWrite + 1, parts: 2, n: maxWrite + 1, deadlines: 2},
		{name: "four parts", bytes: 3*maxWrite + 64, parts: 4, n: 3*maxWrite + 64, deadlines: 4},
		{name: "a failed write", bytes: 3 * maxWrite, fake: fakeConn{failWrite: 2}, parts: 2, n: maxWrite + maxWrite/2, deadlines: 2, err: errBroken},
		{name: "a failed deadline", bytes: 3 * maxWrite, fake: fakeConn{failLimit: 2}, parts: 1, n: maxWrite, deadlines: 2, err: errBroken},
		{name: "a failed first deadline", bytes: 5, fake: fakeConn{failLimit: 1}, deadlines: 1, err: errBroken},
	} {
		fake := &c.fake
		conn := &conn{Conn: fake}
		began := time.Now()
		n, err := conn.Write(text[:c.bytes])
		if n != c.n || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || len(fake.parts) != c.parts || len(fake.deadlines) != c.deadlines {
			t.Errorf("%s: %d bytes in %d parts with %d deadlines, %v; want %d, %d, %d, %v", c.name, n, len(fake.parts), len(fake.deadlines), err, c.n, c.parts, c.deadlines, c.err)
		}
		if !bytes.Equal(fake.wrote.Bytes(), text[:n]) {
			t.Errorf("%s: other bytes arrive", c.name)
		}
		for _, part := range fake.parts {
			if part > maxWrite {
				t.Errorf("%s: a part of %d bytes", c.name, part)
			}
		}
		for _, at := range fake.deadlines {
			if at.Before(began.Add(stall)) {
				t.Errorf("%s: a deadline %v after the start", c.name, at.Sub(began))
			}
		}
	}
}

// TestDeadlineOfUser keeps a deadline of the user for writes until it is removed.
func TestDeadlineOfUser(t *testing.T) {
	at := time.Now().Add(time.Hour)
	for name, set := range map[string]func(*conn, time.Time) error{"SetDeadline": (*conn).SetDeadline, "SetWriteDeadline": (*conn).SetWriteDeadline} {
		fake := new(fakeConn)
		conn := &conn{Conn: fake}
		given := func() int { return len(fake.both) + len(fake.deadlines) }
		write := func() {
			t.Helper()
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := set(conn, at); err != nil || given() != 1 {
			t.Errorf("%s: %v, %d deadlines", name, err, given())
		}
		if write(); given() != 1 {
			t.Errorf("%s: a write replaces the user's deadline", name)
		}
		if err := set(conn, time.Time{}); err != nil || given() != 2 {
			t.Errorf("%s: %v, %d deadlines", name, err, given())
		}
		if write(); given() != 3 {
			t.Errorf("%s: no deadline after that of the user was removed", name)
		}
	}
}

// TestCloseReleasesOnce releases a connection's place once, and returns each error.
func TestCloseReleasesOnce(t *testing.T) {
	l, addr := New(4), netip.MustParseAddr("192.0.2.1")
	for range 2 {
		l.Acquire(addr)
	}
	for open := 1; open >= 0; open-- {
		c := &conn{Conn: new(fakeConn), limit: l, addr: addr}
		for range 2 {
			if err := c.Close(); !errors.Is(err, errBroken) {
				t.Errorf("closing: %v", err)
			}
		}
		if got := l.Stats().Open; got != open {
			t.Errorf("%d are open, want %d", got, open)
		}
	}
	if len(l.from) != 0 {
		t.Errorf("%d addresses are kept", len(l.from))
	}
	defer func() {
		if recover() == nil {
			t.Error("released once too often")
		}
	}()
	l.Release(addr)
}
