package sharedcache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/testseed"
)

// TestPlausible reads random responses in random pieces: they are refused as a model of the whole text does.
func TestPlausible(t *testing.T) {
	rnd := testseed.Rand(t)
	seen := make(map[string]int)
	for range 2000 {
		var text bytes.Buffer
		for range rnd.IntN(5) {
			size := rnd.IntN(40)
			header := fmt.Sprintf("VALUE key%d 0 %d", rnd.IntN(10), size)
			switch rnd.IntN(40) {
			case 0:
				header = "VALUE key 0 x"
			case 1:
				header = fmt.Sprintf("VALUE key 0 %d", maxItem+1)
			case 2:
				header = "VALUE " + strings.Repeat("k", maxLine)
			case 3:
				header = fmt.Sprintf("VALUE key 0 %d 77", size) // with the value that a gets returns
			case 4:
				header, size = "STAT VALUE 0 9999999999", 0
			}
			text.WriteString(header + "\r\n")
			for range size {
				text.WriteByte("\r\nV 0a"[rnd.IntN(6)])
			}
			text.WriteString("\r\n")
		}
		text.WriteString("END\r\n")
		want := model(text.String())
		seen[want]++
		c := &conn{left: maxResponse}
		got := true
		for rest := text.Bytes(); len(rest) > 0 && got; {
			n := 1 + rnd.IntN(len(rest))
			got = c.plausible(rest[:n])
			rest = rest[n:]
		}
		if got != (want == "") {
			t.Fatalf("%q: plausible %t, %s", text.String(), got, want)
		}
		if got && (c.left != maxResponse-text.Len() || c.skip != 0 || c.lineLen != 0) {
			t.Fatalf("%q: %d bytes are left, %d of a value, %d of a line", text.String(), c.left, c.skip, c.lineLen)
		}
	}
	if len(seen) < 4 {
		t.Errorf("seen: %v", seen)
	}
	for n, want := range map[int]bool{maxLine: true, maxLine + 1: false} {
		c := &conn{left: maxResponse}
		if got := c.plausible(bytes.Repeat([]byte("x"), n)); got != want {
			t.Errorf("a line of %d bytes: %t", n, got)
		}
	}
	for n, want := range map[int]bool{maxItem: true, maxItem + 1: false} {
		c := &conn{left: maxResponse}
		if got := c.plausible([]byte("VALUE k 0 " + strconv.Itoa(n) + "\r\n")); got != want || got && c.skip != n+2 {
			t.Errorf("a value of %d bytes: %t, %d of it to come", n, got, c.skip)
		}
	}
	c := &conn{left: 10}
	if !c.plausible([]byte("END\r\nEND\r\n")) || c.plausible([]byte("x")) {
		t.Errorf("a response of 11 bytes of 10")
	}
}

// model returns why a response is refused; "": it is not.
func model(text string) string {
	for text != "" {
		line, rest, whole := strings.Cut(text, "\n")
		if whole {
			line += "\n"
		}
		if len(line) > maxLine {
			return "a long line"
		}
		text = rest
		if fields := strings.Split(strings.TrimRight(line, "\r\n"), " "); whole && fields[0] == "VALUE" {
			n, err := strconv.Atoi(fields[3])
			if err != nil {
				return "no number"
			}
			if n > maxItem {
				return "a long value"
			}
			text = text[min(n+2, len(text)):]
		}
	}
	return ""
}

// TestDeadlines makes requests: their deadline is not extended by the client, and the first one's is that of the dial.
func TestDeadlines(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	s := &server{name: "x", timeout: 30 * time.Millisecond, conns: make(map[*conn]struct{})}
	nc, err := s.dial("tcp", listener.Addr().String(), 30*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	peer := <-accepted
	defer peer.Close()
	if err := nc.SetDeadline(time.Time{}); err != nil {
		t.Error(err)
	}
	for range 2 { // the second one has another deadline
		if _, err := nc.Write([]byte("get x\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 10)); err == nil || !func() net.Error {
			var target net.Error
			_ = errors.As(err, &target)
			return target
		}().Timeout() {
			t.Errorf("without a response: %v", err)
		}
	}
	if _, err := nc.Write([]byte("get x\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write([]byte("END\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := nc.Read(make([]byte, 10)); n != 5 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := io.ReadFull(peer, make([]byte, 3*len("get x\r\n"))); err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	if _, err := nc.Read(make([]byte, 10)); err != io.ErrUnexpectedEOF { //nolint:errorlint // as the client compares it
		t.Errorf("the end: %v", err)
	}
	other, err := s.dial("tcp", listener.Addr().String(), time.Second)
	if err != nil || len(s.conns) != 2 {
		t.Fatalf("%d connections, %v", len(s.conns), err)
	}
	if err := nc.Close(); err != nil || len(s.conns) != 1 {
		t.Errorf("%d connections, %v", len(s.conns), err)
	}
	s.client = newServer("127.0.0.1:1", &Options{}).client
	s.close()
	if _, err := other.Write([]byte("x")); err == nil || len(s.conns) != 0 {
		t.Errorf("closed: %d connections, %v", len(s.conns), err)
	}
	_ = listener.Close()
	if c, err := s.dial("tcp", listener.Addr().String(), time.Second); c != nil || err == nil {
		t.Errorf("nothing listens: %v", err)
	}
}

// TestMemory counts the memory of batches, insertions and connections as the allocator rounds them.
func TestMemory(t *testing.T) {
	c := &Cache{servers: make([]*server, 3)}
	none := c.memory(0, 0)
	batch, insertion, conns := c.memory(1, 0)-none, c.memory(0, 1)-none, none/3/(maxBatches+1)
	const page = 8 << 10 // of the allocator, for large objects
	for name, of := range map[string]struct{ counted, size, rounds int64 }{
		"a batch": {batch, int64(unsafe.Sizeof(batchOf{})), page}, "an insertion": {insertion, int64(unsafe.Sizeof(insertionOf{})), 2 << 10}, "a connection": {conns, int64(unsafe.Sizeof(conn{})) + 8<<10, 1 << 10},
	} {
		if of.counted < of.size || of.counted >= of.size+of.rounds {
			t.Errorf("%s takes %d bytes, counted are %d", name, of.size, of.counted)
		}
	}
	if c.MaxMemory() != none+maxBatches*batch+maxQueued*insertion {
		t.Errorf("at most %d", c.MaxMemory())
	}
}

type (
	batchOf     = batch
	insertionOf = insertion
)

// TestHeader has the header of a page, which other processes read: magic, length, number of the page, bucket and object.
func TestHeader(t *testing.T) {
	c := &Cache{options: Options{Bucket: Bucket{0xb0, 15: 0xbf}}}
	o := objectOf("01A")
	var value, want [headerSize]byte
	c.putHeader(value[:], o, 0x04030201, 0x0807)
	copy(want[4:], "tpg1\x07\x08\x00\x00\x01\x02\x03\x04\xb0")
	want[31] = 0xbf
	o.AppendTo(want[:32])
	if value != want {
		t.Errorf("%x, want %x", value, want)
	}
}
