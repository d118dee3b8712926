package mysqlconn

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlwire"
)

// TestWriteParts writes messages in two parts around the maximum length of a packet: the packets equal those
// of AppendPacket.
func TestWriteParts(t *testing.T) {
	head := []byte{3, 0, 1}
	body := bytes.Repeat([]byte("0123456789abcdef"), (2*mysqlwire.MaxPayload+64)/16)
	for _, n := range []int{0, 1, mysqlwire.MaxPayload - 4, mysqlwire.MaxPayload - 3, mysqlwire.MaxPayload - 2, 2*mysqlwire.MaxPayload - 3, 2*mysqlwire.MaxPayload - 2} {
		one, other := net.Pipe()
		want, _ := mysqlwire.AppendPacket(nil, append(append([]byte(nil), head...), body[:n]...), 0)
		var writing sync.WaitGroup
		writing.Go(func() {
			if err := New(one).writeParts(head, body[:n]); err != nil {
				t.Error(err)
			}
			_ = one.Close()
		})
		got, err := io.ReadAll(other)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, want %d, %v", n, len(got), len(want), err)
		}
		testwait.Group(t, "the message to be written", &writing)
	}
}

// TestReadSized reads messages of several packets with right and wrong estimates of their length.
func TestReadSized(t *testing.T) {
	row := mysqlwire.AppendLenencString(nil, []byte("first"))
	row = append(row, 0xFB)
	row = mysqlwire.AppendLenencString(row, bytes.Repeat([]byte("w"), 2*mysqlwire.MaxPayload))
	row = mysqlwire.AppendLenencString(row, bytes.Repeat([]byte("x"), mysqlwire.MaxPayload))
	if n := rowSize(row[:mysqlwire.MaxPayload]); n < 2*mysqlwire.MaxPayload || n > 2*mysqlwire.MaxPayload+2*wideRest {
		t.Errorf("the row is estimated to have %d bytes", n)
	}
	for _, estimate := range []func([]byte) int{nil, rowSize, func([]byte) int { return 0 }, func([]byte) int { return 1 << 40 }} {
		one, other := net.Pipe()
		packets, _ := mysqlwire.AppendPacket(nil, row, 0)
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = one.Write(packets) })
		got, err := New(other).readMessage(64<<20, estimate)
		if err != nil || !bytes.Equal(got, row) {
			t.Errorf("got %d bytes, want %d, %v", len(got), len(row), err)
		}
		_ = other.Close()
		testwait.Group(t, "the row to be written", &writing)
	}
}
