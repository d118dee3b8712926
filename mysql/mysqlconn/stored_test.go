package mysqlconn

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A dripping connection returns few bytes at a time, with expired deadlines in between.
type dripping struct {
	net.Conn
	rnd  *rand.Rand
	in   bytes.Buffer
	sent bytes.Buffer
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.rnd.IntN(3) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return d.in.Read(p[:min(len(p), 1+d.rnd.IntN(9))])
}

func (d *dripping) Write(p []byte) (int, error) { return d.sent.Write(p) }

// frames splits b into frames like a client of the compressed protocol.
func frames(rnd *rand.Rand, b []byte) (out []byte) {
	for seq := byte(0); len(b) > 0; seq++ {
		n := min(len(b), 1+rnd.IntN(400))
		payload, size := b[:n], 0
		if rnd.IntN(2) == 0 {
			var z bytes.Buffer
			w := zlib.NewWriter(&z)
			_, _ = w.Write(payload)
			w.Close()
			payload, size = z.Bytes(), n
		}
		l := len(payload)
		out = append(out, byte(l), byte(l>>8), byte(l>>16), seq, byte(size), byte(size>>8), byte(size>>16))
		out = append(out, payload...)
		b = b[n:]
	}
	return out
}

// packets returns some packets of a client, the first of which begins a command.
func packets(rnd *rand.Rand) (out []byte) {
	for range 1 + rnd.IntN(5) {
		b := bytes.Repeat([]byte("select 1 "), rnd.IntN(60))
		out, _ = mysqlwire.AppendPacket(out, append([]byte{byte(mysqlwire.ComQuery)}, b...), 0)
	}
	return out
}

// TestStored reads commands of clients that send frames, and of clients that send packets, in pieces and with
// deadlines in between; the response has the client's form.
func TestStored(t *testing.T) {
	rnd := testseed.Rand(t)
	for i := range 2000 {
		want := packets(rnd)
		if i%7 == 0 {
			want = []byte{1, 0, 0, 0, byte(mysqlwire.ComPing)}
		}
		d := &dripping{rnd: rnd}
		framed := i%2 == 0
		if framed {
			d.in.Write(frames(rnd, want))
		} else {
			d.in.Write(want)
		}
		s := &stored{Conn: d}
		login := []byte{1, 0, 0, 2, mysqlwire.MarkOK} // of which no client expects a frame
		if _, err := s.Write(login); err != nil || !bytes.Equal(d.sent.Bytes(), login) {
			t.Fatalf("before the first command: %q, %v; want %q", d.sent.Bytes(), err, login)
		}
		d.sent.Reset()
		var got []byte
		for b := make([]byte, 64); len(got) < len(want); {
			n, err := s.Read(b)
			got = append(got, b[:n]...)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("command %d, frames %v: %v after %d of %d bytes", i, framed, err, len(got), len(want))
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("command %d, frames %v:\n got %q\nwant %q", i, framed, got, want)
		}

		response := packets(rnd)
		for rest := response; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(100))
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		sent := d.sent.Bytes()
		if framed {
			sent = unframe(t, sent)
		}
		if !bytes.Equal(sent, response) {
			t.Fatalf("response %d, frames %v:\n got %q\nwant %q", i, framed, sent, response)
		}
	}
}

// unframe joins frames, each of which contains one packet.
func unframe(t *testing.T, b []byte) (out []byte) {
	t.Helper()
	for seq := byte(0); len(b) > 0; {
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		if bytes.Equal(b[4:7], []byte{0, 0, 0}) && len(b) >= storedHeaderLen+n {
			if out != nil && b[3] != seq {
				t.Fatalf("frame %d has sequence number %d", seq, b[3])
			}
			seq = b[3] + 1
			if h := mysqlwire.ParseHeader(b[storedHeaderLen:]); h.Len+mysqlwire.HeaderLen != n {
				t.Fatalf("a frame of %d bytes holds a packet of %d", n, h.Len)
			}
			out = append(out, b[storedHeaderLen:storedHeaderLen+n]...)
			b = b[storedHeaderLen+n:]
			continue
		}
		t.Fatalf("frame: %q", b[:min(len(b), 20)])
	}
	return out
}

// TestStoredLongPacket sends packets that exceed the maximum frame.
func TestStoredLongPacket(t *testing.T) {
	d := &dripping{}
	s := &stored{Conn: d, state: storedFrames}
	message, _ := mysqlwire.AppendPacket(nil, make([]byte, mysqlwire.MaxPayload), 1) // two packets
	if _, err := s.Write(message); err != nil {
		t.Fatal(err)
	}
	b := d.sent.Bytes()
	var out []byte
	for _, want := range []int{mysqlwire.MaxPayload, mysqlwire.HeaderLen, mysqlwire.HeaderLen} {
		if n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16; n != want {
			t.Fatalf("a frame of %d bytes, want %d", n, want)
		}
		out = append(out, b[storedHeaderLen:storedHeaderLen+want]...)
		b = b[storedHeaderLen+want:]
	}
	if len(b) > 0 || !bytes.Equal(out, message) {
		t.Errorf("%d bytes too many; the packets are equal: %v", len(b), bytes.Equal(out, message))
	}
}

// TestStoredMalformed sends frames that cannot be inflated, or that inflate to another length.
func TestStoredMalformed(t *testing.T) {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write([]byte("0123456789"))
	w.Close()
	frame := func(size int, payload []byte) []byte {
		n := len(payload)
		return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, byte(size), byte(size >> 8), byte(size >> 16)}, payload...)
	}
	cut := frame(10, z.Bytes())
	for name, c := range map[string]struct {
		bytes []byte
		ok    bool
	}{
		"good":           {cut, true},
		"too short":      {frame(11, z.Bytes()), false},
		"too long":       {frame(9, z.Bytes()), false},
		"no zlib stream": {frame(10, []byte("0123456789abcdef")), false},
		"empty":          {frame(10, nil), false},
		"broken off":     {cut[:len(cut)-2], false},
		"half a header":  {cut[:5], false},
	} {
		d := &dripping{rnd: rand.New(rand.NewPCG(1, 2))}
		d.in.Write(c.bytes)
		s := &stored{Conn: d, state: storedFrames}
		var got []byte
		var err error
		for b := make([]byte, 64); err == nil || errors.Is(err, os.ErrDeadlineExceeded); {
			var n int
			n, err = s.Read(b)
			got = append(got, b[:n]...)
		}
		if ok := errors.Is(err, io.EOF) && string(got) == "0123456789"; ok != c.ok || !c.ok && len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
