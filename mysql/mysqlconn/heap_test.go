package mysqlconn

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// TestHeap counts the heap bytes of connections: their buffers as they grow, those of Hold, and nothing once they are closed.
func TestHeap(t *testing.T) {
	s := testmysql.Start(t)
	var heap atomic.Int64
	cfg := Config{Addr: s.Addr, Password: testmysql.Password, User: testmysql.AppUser, Heap: &heap}
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	grown := func(what string, least, most int64, do func() error) {
		t.Helper()
		before := heap.Load()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if by := heap.Load() - before; by < least || by > most {
			t.Errorf("%s: %d bytes more, want %d to %d", what, by, least, most)
		}
	}
	if n := heap.Load(); n < defaultBuffer || n > 4*defaultBuffer {
		t.Errorf("a connection has %d bytes", n)
	}
	long := append(bytes.Repeat([]byte(" "), 100_000), "DO 0"...)
	grown("a long statement, kept", 100_000, 120_000, func() error {
		_, err := c.ExecBytes(t.Context(), long)
		return err
	})
	grown("Hold", 5000, 5000, func() error { c.Hold(5000); return nil })
	grown("Hold of less", -4000, -4000, func() error { c.Hold(1000); return nil })
	grown("a long row", 1_000_000, 2_100_000, func() error {
		_, err := c.Query(t.Context(), "SELECT REPEAT('x', 1000000)", nil)
		return err
	})
	second, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	c.Hold(1 << 20)
	if n := heap.Load(); n < defaultBuffer || n > 4*defaultBuffer {
		t.Errorf("the other connection has %d bytes", n)
	}
	if err := second.Conn.Close(); err != nil {
		t.Error(err)
	}
	if n := heap.Load(); n != 0 {
		t.Errorf("%d bytes of closed connections", n)
	}
	if _, err := c.Closed().Exec(t.Context(), "DO 0"); err != ErrBroken { //nolint:errorlint // it is not wrapped
		t.Errorf("a statement on a closed connection: %v", err)
	}
}

// TestAccountClosed closes an account while another goroutine changes it: nothing of it is left.
func TestAccountClosed(t *testing.T) {
	var total atomic.Int64
	for range 1000 {
		a := &account{total: &total}
		var users sync.WaitGroup
		users.Go(func() {
			for n := range int64(20) {
				a.set(7 * n)
			}
		})
		users.Go(a.close)
		testwait.Group(t, "the users of the account", &users)
	}
	if n := total.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
