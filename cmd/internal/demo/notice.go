package demo

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// A notice receives the messages of sd_notify(3) from the gateway. The first one says that it listens on its addresses, which
// a response from them would not: another process may have taken them.
type notice struct {
	path string
	conn *net.UnixConn
}

// newNotice creates the socket.
func newNotice(path string) (*notice, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("create a socket for the gateway's messages: %w", err)
	}
	return &notice{path: path, conn: conn}, nil
}

// arrived reports whether the gateway listens.
func (n *notice) arrived() (bool, error) {
	b := make([]byte, 4096)
	for {
		if err := n.conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return false, fmt.Errorf("read the gateway's messages: %w", err)
		}
		l, err := n.conn.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read the gateway's messages: %w", err)
		case bytes.HasPrefix(b[:l], []byte("READY=1")):
			return true, nil
		}
	}
}

func (n *notice) close() { _ = n.conn.Close() } // which removes the socket
