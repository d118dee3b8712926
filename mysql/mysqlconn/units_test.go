package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestCloseEarly closes rows of which some were not read: the connection stays usable if the rest is buffered, and is broken otherwise.
func TestCloseEarly(t *testing.T) {
	for _, caps := range []mysqlwire.Capability{capsBase | mysqlwire.CapDeprecateEOF, capsBase} {
		all, at := sent([]reply{{1, resultSet(caps, 0, "\x011\x012", "\xff\xff\xff\x01\x02", "\x013\xfb")}})
		for read := range 3 {
			for _, cut := range []int{len(all), at[len(at)-1]} {
				p := &player{failAt: -1}
				p.said.Reset(all[:cut])
				c := &Client{Conn: New(whole{p}), Capabilities: caps, maxPacket: defaultMaxPacket}
				r, err := c.Stream(t.Context(), "SELECT")
				for range read {
					if err == nil {
						_, err = r.Next()
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil || c.Broken() != (cut < len(all)) {
					t.Errorf("%d rows were read, %d bytes of %d sent: %v, broken: %t", read, cut, len(all), err, c.Broken())
				}
			}
		}
	}
}

// whole is a player that returns as many bytes as a read has room for.
type whole struct{ *player }

func (w whole) Read(b []byte) (int, error) { return w.said.Read(b) }

// TestPipelineRefused refuses the first, the second and both statements: the error is the first one, and the other rows are received.
func TestPipelineRefused(t *testing.T) {
	refusal := func(n byte) [][]byte { return [][]byte{append([]byte{mysqlwire.MarkErr, n, 5}, "#HY000no"...)} }
	rows := resultSet(capsBase, 0, "\x011\x012")
	enough := errors.New("enough")
	for _, c := range []struct {
		replies [][][]byte
		want    string
		number  mysqlwire.Errno
		row     error // of the row function
	}{
		{[][][]byte{refusal(1), rows}, "[1]", 0x501, nil},
		{[][][]byte{rows, refusal(2)}, "[0]", 0x502, nil},
		{[][][]byte{refusal(3), refusal(4)}, "[]", 0x503, nil},
		{[][][]byte{rows, rows}, "[0]", 0, enough},
		{[][][]byte{rows, refusal(5)}, "[0]", 0x505, enough},
	} {
		var replies []reply
		for _, r := range c.replies {
			replies = append(replies, reply{1, r})
		}
		all, _ := sent(replies)
		client := &Client{Conn: New(playing(all, -1)), Capabilities: capsBase, maxPacket: defaultMaxPacket}
		var got []int
		err := client.Pipeline(t.Context(), []string{"a", "b"}, func(i int, _ mysqlwire.TextRow) error {
			if c.row == nil || i == 0 {
				got = append(got, i)
			}
			if i == 0 {
				return c.row
			}
			return nil
		})
		refused, _ := errors.AsType[*ServerError](err)
		switch {
		case fmt.Sprint(got) != c.want, client.Broken():
			t.Errorf("rows of statements %v, want %s; broken: %t", got, c.want, client.Broken())
		case c.number != 0 && (refused == nil || refused.Number != c.number), c.number == 0 && !errors.Is(err, enough):
			t.Errorf("got %v, want error %d", err, c.number)
		}
	}
}

// TestContextEnds ends the context of a command that completes nevertheless: the connection is broken, since a deadline may have interrupted it.
func TestContextEnds(t *testing.T) {
	caps := capsBase | mysqlwire.CapDeprecateEOF
	all, _ := sent([]reply{{1, resultSet(caps, 0, "\x011\x012", "\x013\x014")}})
	for _, ends := range []bool{false, true} {
		c := &Client{Conn: New(playing(all, -1)), Capabilities: caps, maxPacket: defaultMaxPacket}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.Query(ctx, "SELECT", func(mysqlwire.TextRow) error {
			if ends {
				cancel()
			}
			return nil
		})
		if err != nil || c.Broken() != ends {
			t.Errorf("it ends meanwhile: %t: %v, broken: %t", ends, err, c.Broken())
		}
		cancel()
		c = &Client{Conn: New(playing(all, -1)), Capabilities: caps, maxPacket: defaultMaxPacket}
		ctx, cancel = context.WithCancel(t.Context())
		r, err := c.Stream(ctx, "SELECT")
		if err != nil {
			t.Fatal(err)
		}
		if ends {
			cancel()
		}
		for err == nil {
			_, err = r.Next()
		}
		if err := r.Close(); err != nil || c.Broken() != ends {
			t.Errorf("a stream, it ends meanwhile: %t: %v, broken: %t", ends, err, c.Broken())
		}
		cancel()
	}
}

// TestBuffer has the functions of the read buffer at the ends of its room.
func TestBuffer(t *testing.T) {
	p := &player{failAt: -1}
	p.said.Reset([]byte("abcdefgh"))
	c := NewBuffer(whole{p}, make([]byte, 6))
	check := func(what, want string, room int) {
		t.Helper()
		if got := string(c.Buffered()); got != want || c.Room() != room {
			t.Errorf("%s: %q with room for %d, want %q and %d", what, got, c.Room(), want, room)
		}
	}
	fill := func() {
		t.Helper()
		if err := c.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	check("Fill", "abcdef", 0)
	if err := c.Fill(); !errors.Is(err, ErrBufferFull) {
		t.Errorf("Fill of a full buffer: %v", err)
	}
	c.Discard(2)
	check("Discard", "cdef", 0)
	fill()
	check("Fill after Discard", "cdefgh", 0)
	c.Discard(4)
	check("Discard", "gh", 0)
	if got := c.Insert(1, 1); len(got) != 1 || cap(got) != 1 || copy(got, "X") != 1 {
		t.Errorf("Insert: %q", got)
	}
	check("Insert without room at the end", "gXh", 3)
	copy(c.Insert(3, 2), "YZ")
	check("Insert at the end", "gXhYZ", 1)
	copy(c.Insert(0, 1), "W")
	check("Insert at the start", "WgXhYZ", 0)
	c.Discard(1)
	if old := c.SwapBuffer(make([]byte, 8)); len(old) != 6 || c.Size() != 8 {
		t.Errorf("SwapBuffer: %d and %d bytes", len(old), c.Size())
	}
	check("SwapBuffer", "gXhYZ", 3)
	if old := c.SwapBuffer(make([]byte, 5)); len(old) != 8 {
		t.Errorf("SwapBuffer: %d bytes", len(old))
	}
	check("SwapBuffer to the same size", "gXhYZ", 0)
	c.Discard(5)
	check("Discard of all", "", 5)
	if err := c.Fill(); !errors.Is(err, io.EOF) {
		t.Errorf("Fill at the end: %v", err)
	}
	c.nc = idle{}
	if err := c.Fill(); !errors.Is(err, errNoProgress) {
		t.Errorf("Fill from a connection that returns nothing: %v", err)
	}
	c.AppendMessage([]byte("x"))
	c.nc = p
	if err := c.Flush(); err != nil || p.heard.String() != "\x01\x00\x00\x00x" {
		t.Errorf("Flush: %q, %v", p.heard.String(), err)
	}
	c.DropWriteBuffer()
	if err := c.Flush(); err != nil || p.writes != 1 {
		t.Errorf("Flush of nothing: %d writes, %v", p.writes, err)
	}
	if c.Socket() != (whole{p}) {
		t.Error("another socket")
	}
}

// idle returns nothing at each read.
type idle struct{ net.Conn }

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestReadExactly reads a packet and not a byte of what follows, at the limit of its length and above it, and in part.
func TestReadExactly(t *testing.T) {
	packet := "\x06\x00\x00\x02abcdef"
	for _, c := range []struct {
		sent  string
		limit int
		err   error
	}{
		{packet + "next", 6, nil},
		{packet, 5, ErrTooLarge},
		{"\x06\x00\x00\x03abcdef", 6, ErrSequence},
		{"", 6, io.EOF},
		{packet[:2], 6, io.ErrUnexpectedEOF},
		{packet[:4], 6, io.ErrUnexpectedEOF},
		{packet[:7], 6, io.ErrUnexpectedEOF},
	} {
		for _, size := range []int{4, 6, 100} { // of the buffer
			p := playing([]byte(c.sent), -1)
			conn := NewBuffer(p, make([]byte, size))
			conn.Seq = 2
			got, err := conn.ReadExactly(c.limit)
			if !errors.Is(err, c.err) || err == nil && (string(got) != "abcdef" || conn.Seq != 3) {
				t.Errorf("%q, at most %d: got %q, %v, sequence %d", c.sent, c.limit, got, err, conn.Seq)
			}
			if rest, _ := io.ReadAll(&p.said); err == nil && string(rest) != "next" {
				t.Errorf("%q: %q is left", c.sent, rest)
			}
		}
	}
}

// TestReadLimit reads messages at the limit of their length and above it.
func TestReadLimit(t *testing.T) {
	for n, want := range map[int]error{99: nil, 100: nil, 104: nil, 105: ErrTooLarge, 1000: ErrTooLarge} {
		said, _ := mysqlwire.AppendPacket(nil, bytes.Repeat([]byte("x"), n), 0)
		c := NewBuffer(playing(said, -1), make([]byte, 16))
		if got, err := c.ReadMessage(100); !errors.Is(err, want) || err == nil && len(got) != n {
			t.Errorf("%d bytes of at most 100: got %d, %v", n, len(got), err)
		}
		if c.Size() > 108 {
			t.Errorf("the buffer has %d bytes", c.Size())
		}
	}
}

// TestWatch has a server that is silent: the connection lives as long as it is confirmed to be working, and fails once it was not for the limit.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name          string
		confirmed     int           // calls of alive that confirm
		respondsAfter time.Duration // after which the server responds; 0: never
		fails         time.Duration // 0: it does not
	}{
		{"responds", 0, 2500 * time.Millisecond, 0},
		{"confirmed, responds", 5, 7500 * time.Millisecond, 0},
		{"never", 0, 0, 3 * time.Second},
		{"confirmed, then never", 5, 0, 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := net.Pipe()
				defer one.Close()
				defer other.Close()
				client := &Client{Conn: New(one), Capabilities: capsBase, maxPacket: defaultMaxPacket}
				cause, calls := errors.New("it is dead"), 0
				client.Watch(time.Second, 3*time.Second, func(context.Context) error {
					if calls++; calls > c.confirmed {
						return cause
					}
					return nil
				})
				go func() {
					s := New(other)
					hear(s)
					if c.respondsAfter > 0 {
						time.Sleep(c.respondsAfter)
						say(s, okPacket...)
					}
				}()
				start := time.Now()
				err := client.Ping(t.Context())
				silent, _ := errors.AsType[*silenceError](err)
				switch {
				case c.fails == 0:
					if err != nil {
						t.Error(err)
					}
				case silent == nil || !errors.Is(err, cause) || silent.For != 3*time.Second || !strings.Contains(err.Error(), "silent for 3s: it is dead"):
					t.Errorf("got %v", err)
				case time.Since(start) != c.fails || !client.Broken():
					t.Errorf("it failed after %v, broken: %t", time.Since(start), client.Broken())
				default:
					if netErr, ok := errors.AsType[net.Error](err); !ok || !netErr.Timeout() {
						t.Error("it is no timeout")
					}
				}
			})
		})
	}
}

// TestWatchWrite has servers that accept data slowly, up to a length, or none, and a context that ends.
func TestWatchWrite(t *testing.T) {
	const statement = statementKeep + 1
	for _, c := range []struct {
		name     string
		accepts  int // bytes; 0: all, a piece each second
		canceled bool
		silent   bool
	}{{"slowly", 0, false, false}, {"none", 1, false, true}, {"canceled", 1, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := net.Pipe()
				defer one.Close()
				defer other.Close()
				client := &Client{Conn: New(one), Capabilities: capsBase, maxPacket: defaultMaxPacket}
				client.Watch(time.Minute, 3*time.Second, func(context.Context) error { return nil })
				go func() {
					if c.accepts > 0 {
						_, _ = other.Read(make([]byte, c.accepts))
						return
					}
					for left, b := mysqlwire.HeaderLen+1+statement, make([]byte, watchPiece); left > 0; time.Sleep(2 * time.Second) {
						n, err := io.ReadFull(other, b[:min(left, len(b))])
						if left -= n; err != nil {
							return
						}
					}
					say(&Conn{nc: other, raw: other, Seq: 1}, okPacket...)
				}()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.canceled {
					time.AfterFunc(time.Second, cancel)
				}
				_, err := client.ExecBytes(ctx, bytes.Repeat([]byte("x"), statement))
				_, silent := errors.AsType[*silenceError](err)
				if silent != c.silent || errors.Is(err, context.Canceled) != c.canceled || !c.silent && !c.canceled && err != nil {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestEvents reads events that are quiet for a while, wide, and whose connection ends.
func TestEvents(t *testing.T) {
	wide := bytes.Repeat([]byte("w"), wideKeep+1)
	p := &player{failAt: -1}
	said, _ := mysqlwire.AppendPacket(nil, okPacket, 1)
	narrow := []byte("\x00narrow")
	events, seq := mysqlwire.AppendPacket(nil, narrow, 1)
	events, seq = mysqlwire.AppendPacket(events, append([]byte{0}, wide...), seq)
	events, seq = mysqlwire.AppendPacket(events, narrow, seq)
	events, _ = mysqlwire.AppendPacket(events, narrow, seq)
	p.said.Reset(slices.Concat(said, events))
	c := &Client{Conn: New(whole{p}), Capabilities: capsBase, maxPacket: defaultMaxPacket}
	e, err := c.DumpBinlog(t.Context(), mysqlwire.RegisterReplica{}, mysqlwire.BinlogDump{}.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	next := func(want int) {
		t.Helper()
		if b, err := e.Next(t.Context(), time.Second); err != nil || len(b) != want {
			t.Errorf("got %d bytes, want %d, %v", len(b), want, err)
		}
	}
	next(6)
	if e.Buffered() {
		t.Error("a part of an event counts as buffered")
	}
	if e.ReleaseWide() {
		t.Error("released a narrow buffer")
	}
	next(len(wide))
	if c.Size() <= wideKeep || !e.ReleaseWide() || c.Size() != streamBuffer {
		t.Errorf("the buffer has %d bytes", c.Size())
	}
	next(6)
	if !e.Buffered() {
		t.Error("the last event is not buffered")
	}
	next(6)
	if e.Buffered() {
		t.Error("an event after the last one")
	}
	for range 2 {
		if _, err := e.Next(t.Context(), time.Second); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("at the end: %v", err)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		one, other := net.Pipe()
		defer one.Close()
		defer other.Close()
		e := &Events{c: &Client{Conn: New(one), maxPacket: defaultMaxPacket}}
		start := time.Now()
		if _, err := e.Next(t.Context(), 5*time.Second); !errors.Is(err, ErrQuiet) || time.Since(start) != 5*time.Second {
			t.Errorf("quiet: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		for range 2 { // the second one does not wait
			if _, err := e.Next(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("a context that ends: %v after %v", err, time.Since(start))
			}
		}
		go say(New(other), narrow...)
		if b, err := e.Next(t.Context(), time.Second); err != nil || string(b) != "narrow" {
			t.Errorf("afterwards: %q, %v", b, err)
		}
		go func() { _, _ = other.Write([]byte{7, 0, 0, 1, 0}) }()
		start = time.Now()
		_, err := e.Next(t.Context(), time.Hour)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != eventStall {
			t.Errorf("a part of an event: %v after %v", err, time.Since(start))
		}
	})
	header := make([]byte, eventSizeEnd)
	for size, want := range map[uint32]int{0: 1, 1 << 25: 1<<25 + 1, 1<<32 - 1: 64 * mysqlwire.MaxPayload} {
		copy(header[eventSizeEnd-4:], []byte{byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24)})
		if got := eventSize(header); got != want {
			t.Errorf("an event of %d bytes is estimated to have %d, want %d", size, got, want)
		}
	}
}

// TestAuthMethods logs in by each method over connections of each kind: the responses, step by step, or the error.
func TestAuthMethods(t *testing.T) {
	pair, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePublicKey(pair.PublicPEM())
	if err != nil {
		t.Fatal(err)
	}
	sha2 := string(ScrambleSHA2("secret", challenge20[:20]))
	full, fast, public := string([]byte{mysqlwire.SHA2FullAuth}), string([]byte{mysqlwire.SHA2FastOK}), string(pair.PublicPEM())
	for _, c := range []struct {
		name   string
		x      exchange
		plugin string
		server []string
		want   []string // responses; "encrypted": the password by the key; the last one may be an error
	}{
		{"sha2, cached", exchange{password: "secret"}, PluginSHA2, []string{fast}, []string{sha2, ""}},
		{"sha2, full by TLS", exchange{password: "secret", secure: true}, PluginSHA2, []string{full}, []string{sha2, "secret\x00"}},
		{"sha2, full by a known key", exchange{password: "secret", key: ServerKey{Key: key}}, PluginSHA2, []string{full}, []string{sha2, "encrypted"}},
		{"sha2, full by a requested key", exchange{password: "secret", key: ServerKey{Request: true}}, PluginSHA2, []string{full, public}, []string{sha2, string([]byte{mysqlwire.SHA2RequestKey}), "encrypted"}},
		{"sha2, full, no key", exchange{password: "secret"}, PluginSHA2, []string{full}, []string{sha2, "use TLS, or trust its public key"}},
		{"sha2, full, no key, options", exchange{password: "secret", key: ServerKey{Options: [2]string{"-a", "-b"}}}, PluginSHA2, []string{full}, []string{sha2, "trust its public key, by -a or, where no other server can respond in its place, by -b"}},
		{"sha2, after the end", exchange{password: "secret"}, PluginSHA2, []string{fast, fast}, []string{sha2, "", "does not define"}},
		{"sha2, two bytes", exchange{password: "secret"}, PluginSHA2, []string{fast + fast}, []string{sha2, "does not define"}},
		{"sha2, another byte", exchange{password: "secret"}, PluginSHA2, []string{"\x09"}, []string{sha2, "does not define"}},
		{"sha2, no password", exchange{}, PluginSHA2, []string{fast}, []string{"", ""}},
		{"sha256 by TLS", exchange{password: "secret", secure: true}, PluginSHA256, nil, []string{"secret\x00"}},
		{"sha256, no password", exchange{}, PluginSHA256, nil, []string{"\x00"}},
		{"sha256 by a known key", exchange{password: "secret", key: ServerKey{Key: key}}, PluginSHA256, nil, []string{"encrypted"}},
		{"sha256 by a requested key", exchange{password: "secret", key: ServerKey{Request: true}}, PluginSHA256, []string{public}, []string{string([]byte{mysqlwire.SHA256RequestKey}), "encrypted"}},
		{"sha256, no key", exchange{password: "secret", key: ServerKey{Request: true}}, PluginSHA256, []string{"x"}, []string{string([]byte{mysqlwire.SHA256RequestKey}), "not in PEM"}},
		{"dialog", exchange{password: "secret", secure: true, clearText: true}, PluginDialog, []string{"again?"}, []string{"secret\x00", "second factor"}},
		{"clear", exchange{password: "secret", secure: true, clearText: true}, PluginClear, nil, []string{"secret\x00"}},
		{"clear, no password", exchange{clearText: true}, PluginClear, nil, []string{"\x00"}},
		{"native, more", exchange{password: "secret"}, PluginNative, []string{fast}, []string{string(ScrambleNative("secret", challenge20[:20])), "does not define"}},
	} {
		x := c.x
		for i, want := range c.want {
			var resp []byte
			var err error
			if i == 0 {
				resp, err = x.start(c.plugin, challenge20)
			} else {
				resp, err = x.next([]byte(c.server[i-1]))
			}
			got := string(resp)
			if want == "encrypted" && err == nil {
				got, err = pair.DecryptPassword(resp, challenge20[:20])
				want = "secret"
			}
			if err != nil {
				if got = err.Error(); strings.Contains(got, want) && want != "" {
					got = want
				}
			}
			if got != want {
				t.Errorf("%s, response %d: got %q, want %q", c.name, i, got, want)
			}
		}
	}
	if _, err := pair.DecryptPassword(make([]byte, 256), nil); err == nil {
		t.Error("decrypted without a challenge")
	}
	for plugin, want := range map[string]bool{PluginNative: true, PluginDialog: true, PluginSHA256: true, "": false, "x": false} {
		if knowsPlugin(plugin) != want {
			t.Errorf("%q: known: %t", plugin, !want)
		}
	}
}

// TestLoginRefusals has servers and settings with which a login does not go ahead.
func TestLoginRefusals(t *testing.T) {
	long := strings.Repeat("long", 100)
	greet := func(plugin string, without mysqlwire.Capability) func(*Conn) {
		return func(s *Conn) {
			h := mysqlwire.Handshake{
				ProtocolVersion: 10, ServerVersion: []byte("8.0.36"), AuthData: challenge20[:20],
				Capabilities: (capsBase | capsUsual | mysqlwire.CapConnectWithDB) &^ without, AuthPlugin: []byte(plugin),
			}
			say(s, h.AppendTo(nil)...)
			hear(s)
			say(s, okPacket...)
			s.Seq = 0
			hear(s)
		}
	}
	for _, c := range []struct {
		name    string
		cfg     Config
		plugin  string
		without mysqlwire.Capability
		want    string // "": it logs in
	}{
		{"before 4.1", Config{}, PluginNative, mysqlwire.CapProtocol41, "before MySQL 4.1"},
		{"no database", Config{Database: "d"}, PluginNative, mysqlwire.CapConnectWithDB, "takes no database"},
		{"no database, none requested", Config{}, PluginNative, mysqlwire.CapConnectWithDB, ""},
		{"clear", Config{Password: "p"}, PluginClear, 0, "which is not allowed"},
		{"unknown method", Config{Password: "p"}, "new", 0, ""},
		{"no method", Config{Password: "p"}, "", 0, ""},
		{"long password", Config{Network: "unix", Password: long, AllowClearText: true}, PluginClear, mysqlwire.CapPluginAuthLenenc, "longer than the server takes"},
		{"long password with its length", Config{Network: "unix", Password: long, AllowClearText: true}, PluginClear, 0, ""},
		{"255 bytes", Config{Network: "unix", Password: long[:254], AllowClearText: true}, PluginClear, mysqlwire.CapPluginAuthLenenc, ""},
		{"256 bytes", Config{Network: "unix", Password: long[:255], AllowClearText: true}, PluginClear, mysqlwire.CapPluginAuthLenenc, "longer than the server takes"},
		{"invalid", Config{User: "\x00"}, PluginNative, 0, "NUL bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := scripted(t, c.cfg, greet(c.plugin, c.without))
			if err == nil {
				_ = client.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	missing := &MissingCapabilitiesError{mysqlwire.CapLocalFiles}
	one, other := net.Pipe()
	defer one.Close()
	go greet(PluginNative, mysqlwire.CapLocalFiles)(New(other))
	defer other.Close()
	_, err := LogIn(t.Context(), New(one), Login{User: "u", Capabilities: capsBase | mysqlwire.CapLocalFiles | mysqlwire.CapLongPassword})
	if got, ok := errors.AsType[*MissingCapabilitiesError](err); !ok || *got != *missing || !strings.Contains(err.Error(), "0x80 ") {
		t.Errorf("got %v", err)
	}
}
