package mysqlconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
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

// TestPacketWriter writes messages in pieces of several lengths around the maximum length of a packet: the packets equal
// those of AppendPacket. A message of another length than announced is an error.
func TestPacketWriter(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), (2*mysqlwire.MaxPayload+64)/16)
	for _, n := range []int{1, mysqlwire.MaxPayload - 1, mysqlwire.MaxPayload, mysqlwire.MaxPayload + 1, 2 * mysqlwire.MaxPayload} {
		for _, piece := range []int{1 << 16, 7_000_001, len(body)} {
			one, other := net.Pipe()
			want, _ := mysqlwire.AppendPacket(nil, body[:n], 0)
			var writing sync.WaitGroup
			writing.Go(func() {
				w := packetWriter{c: New(one), left: n}
				for rest := body[:n]; len(rest) > 0; rest = rest[min(len(rest), piece):] {
					if err := w.write(rest[:min(len(rest), piece)]); err != nil {
						t.Error(err)
					}
				}
				if err := w.end(); err != nil {
					t.Error(err)
				}
				if err := w.write([]byte{1}); !errors.Is(err, errStreamSize) {
					t.Errorf("a byte too many: %v", err)
				}
				w = packetWriter{c: New(one), left: 2}
				if err := w.end(); !errors.Is(err, errStreamSize) {
					t.Errorf("two bytes missing: %v", err)
				}
				_ = one.Close()
			})
			got, err := io.ReadAll(other)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes in pieces of %d: got %d, want %d, %v", n, piece, len(got), len(want), err)
			}
			testwait.Group(t, "the message to be written", &writing)
		}
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
	huge := func([]byte) int { return 1 << 40 }
	for _, e := range []estimate{
		{},
		{of: rowSize},
		{of: func([]byte) int { return 0 }},
		{of: huge},
		{of: func(first []byte) int { return 3*mysqlwire.MaxPayload + len(first) - eventSizeEnd }, first: eventSizeEnd},
		{of: huge, first: eventSizeEnd},
	} {
		one, other := net.Pipe()
		packets, _ := mysqlwire.AppendPacket(nil, row, 0)
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = one.Write(packets) })
		got, err := New(other).readMessage(64<<20, e)
		if err != nil || !bytes.Equal(got, row) {
			t.Errorf("got %d bytes, want %d, %v", len(got), len(row), err)
		}
		_ = other.Close()
		testwait.Group(t, "the row to be written", &writing)
	}
}
