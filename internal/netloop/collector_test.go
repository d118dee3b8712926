package netloop

import (
	"bytes"
	"crypto/tls"
	"io"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

// TestCollector has another task than the connection's write through TLS until the socket takes no more, and again while the
// connection's task flushes the rest: the peer reads all that was taken, in order.
func TestCollector(t *testing.T) {
	g := newGroup(t, 1)
	inner, peer := pair(t)
	c := &Collector{Conn: inner}
	server := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	client := tls.Client(peer, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	must(t, server.Handshake())
	must(t, testwait.Receive(t, "the handshake", shaken))

	const last = "the end"
	holds, closed := make(chan struct{}), make(chan struct{})
	must(t, g.GoAmong(0, 1, func(task *Task) {
		defer close(closed)
		close(holds)
		task.Pause(time.Time{})
		if err := c.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		if left, size := c.Collected(); left != 0 || size == 0 {
			t.Errorf("%d bytes are left after the flush, in a buffer of %d", left, size)
		}
		if taken, sent := c.Collect(server, []byte("x")); !taken || !sent {
			t.Errorf("after the flush: taken %t, sent %t", taken, sent)
		}
		if _, err := server.Write([]byte(last)); err != nil {
			t.Errorf("write: %v", err)
		}
		server.Close()
	}, noHangup, inner))
	testwait.Receive(t, "the holder", holds)
	want := make(chan []byte, 1)
	must(t, g.GoAmong(0, 1, func(task *Task) {
		var all []byte
		text := make([]byte, 256<<10)
		for sent := true; sent; { // until the socket's buffers are full
			for i := range text {
				text[i] = byte((len(all) + i) % 251)
			}
			var taken bool
			if taken, sent = c.Collect(server, text); !taken {
				t.Error("the bytes were not taken")
			}
			all = append(all, text...)
		}
		if taken, sent := c.Collect(server, []byte("more")); !taken || sent {
			t.Errorf("with bytes left: taken %t, sent %t", taken, sent)
		}
		all = append(all, "more"...)
		inner.task.Wake()
		for !c.writing {
			task.Yield()
		}
		if taken, _ := c.Collect(server, []byte("not taken")); taken {
			t.Error("bytes were taken while another task writes")
		}
		want <- append(append(all, 'x'), last...)
	}, noHangup))
	all := testwait.Receive(t, "the writer", want)
	got, err := io.ReadAll(client)
	must(t, err)
	if !bytes.Equal(got, all) {
		t.Errorf("the peer has read %d bytes, want %d", len(got), len(all))
	}
	testwait.Receive(t, "the holder's end", closed)
	if _, err := server.Write(nil); err == nil {
		t.Error("a write to a closed connection succeeds")
	}
	if taken, sent := c.Collect(server, []byte("x")); taken || sent {
		t.Errorf("after the connection's end: taken %t, sent %t", taken, sent)
	}
}
