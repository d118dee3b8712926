package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// silent returns a DialFunc whose server accepts and sends nothing.
func silent(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = server.Close() })
		return client, nil
	}
}

// scripted dials a server that plays script on its side of the connection.
func scripted(t *testing.T, cfg Config, script func(s *Conn)) (*Client, error) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	cfg.Addr = "scripted:3306"
	cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		wg.Go(func() {
			script(New(server))
			_ = server.Close()
		})
		return client, nil
	}
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		testwait.Group(t, "the script to return", &wg) // the client has hung up: the script has received everything
	}
	return c, err
}

// greeting returns the handshake of a server whose default method is plugin.
func greeting(plugin string, caps mysqlwire.Capability) []byte {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.0.36"), ConnectionID: 7, AuthData: challenge20[:20],
		Capabilities: capsBase | capsUsual | caps, AuthPlugin: []byte(plugin),
	}
	return h.AppendTo(nil)
}

// say writes a packet, hear reads one. A script that goes wrong ends with its connection.
func say(s *Conn, payload ...byte) { _ = s.WriteMessage(payload) }

func hear(s *Conn) []byte {
	b, err := s.ReadMessage(1 << 16)
	if err != nil {
		return nil
	}
	return bytes.Clone(b)
}

func authSwitch(plugin string, data []byte) []byte {
	return mysqlwire.AuthSwitchRequest{Plugin: []byte(plugin), Data: data}.AppendTo(nil)
}

var okPacket = (&mysqlwire.OK{Status: mysqlwire.StatusAutocommit}).AppendTo(nil, capsBase)

// TestLoginFailures plays server failures that real servers produce rarely or never.
func TestLoginFailures(t *testing.T) {
	const password = "correct horse"
	var heard []byte // all bytes the client sent after its greeting
	toSwitch := func(packets ...[]byte) func(*Conn) {
		return func(s *Conn) {
			say(s, greeting(PluginNative, 0)...)
			heard = hear(s)
			for _, p := range packets {
				say(s, p...)
				heard = append(heard, hear(s)...)
			}
		}
	}
	for _, c := range []struct {
		name   string
		cfg    Config
		script func(*Conn)
		want   string
	}{
		{"refused before the greeting", Config{}, func(s *Conn) {
			say(s, mysqlwire.Err{Number: 1040, Message: []byte("Too many connections")}.AppendTo(nil)...)
		}, "server error 1040: Too many connections"},
		{"hangs up", Config{}, func(*Conn) {}, "read the greeting: EOF"},
		{"hangs up in the greeting", Config{}, func(s *Conn) { _, _ = s.Write([]byte{90, 0, 0, 0, 10}) }, "unexpected EOF"},
		{"wrong sequence number", Config{}, func(s *Conn) { s.Seq = 3; say(s, greeting(PluginNative, 0)...) }, "out of order"},
		{"no MySQL server", Config{}, func(s *Conn) { _, _ = s.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "out of order"},
		{"protocol 9", Config{}, func(s *Conn) { say(s, 9, 'x', 0) }, "protocol version 9"},
		{"no TLS", Config{TLSMode: TLSRequired}, func(s *Conn) { say(s, greeting(PluginNative, 0)...); hear(s) }, "tls mode is required, but the server offers no TLS"},
		{"data before TLS", Config{TLSMode: TLSRequired}, func(s *Conn) {
			g := greeting(PluginNative, mysqlwire.CapSSL)
			out, seq := mysqlwire.AppendPacket(nil, g, 0)
			out, _ = mysqlwire.AppendPacket(out, okPacket, seq)
			_, _ = s.Write(out)
			hear(s)
		}, "data before the TLS handshake"},
		{"clear text on a plain leg", Config{AllowClearText: true}, toSwitch(authSwitch(PluginClear, nil)), "use tls mode required or better"},
		{"clear text not allowed", Config{}, toSwitch(authSwitch(PluginClear, nil)), "which is not allowed"},
		{"dialog on a plain leg", Config{AllowClearText: true}, toSwitch(authSwitch(PluginDialog, []byte("\x04Password: "))), "use tls mode required or better"},
		{"unknown plugin", Config{}, toSwitch(authSwitch("authentication_kerberos_client", nil)), `unknown authentication plugin "authentication_kerberos_client"`},
		{"method from before 4.1", Config{}, toSwitch([]byte{mysqlwire.MarkEOF}), `"mysql_old_password"`},
		{"second factor", Config{}, toSwitch(mysqlwire.AuthNextFactor{Plugin: []byte("x")}.AppendTo(nil)), "second factor"},
		{"full path without a key", Config{ServerKey: ServerKey{Request: true}}, toSwitch(authSwitch(PluginSHA2, challenge20), []byte{1, 4}, []byte("\x01no key")), "not in PEM"},
		{"no challenge", Config{}, toSwitch(authSwitch(PluginEd25519, challenge20)), "want 32"},
		{"more data for native", Config{}, toSwitch([]byte{1, 4}), "the method does not define"},
		{"empty packet", Config{}, toSwitch([]byte{}), "ends early"},
		{"a result", Config{}, toSwitch([]byte{5}), "first byte is 0x05"},
		{"endless switches", Config{}, func(s *Conn) {
			say(s, greeting(PluginNative, 0)...)
			for hear(s) != nil {
				say(s, authSwitch(PluginNative, challenge20)...)
			}
		}, "has not decided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			heard = nil
			c.cfg.User, c.cfg.Password = "tare", password
			conn, err := scripted(t, c.cfg, c.script)
			if err == nil {
				_ = conn.Close()
				t.Fatal("logged in")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if bytes.Contains(heard, []byte(password)) || strings.Contains(err.Error(), password) {
				t.Error("the password left in clear")
			}
		})
	}
}

// TestClearText logs in by the methods that send the password in clear text over a Unix socket, which counts
// as secure.
func TestClearText(t *testing.T) {
	for _, c := range []struct {
		plugin string
		data   []byte
	}{{PluginClear, nil}, {PluginDialog, []byte("\x04Password: ")}} {
		var heard []byte
		client, err := scripted(t, Config{Network: "unix", User: "tare", Password: "secret", AllowClearText: true}, func(s *Conn) {
			say(s, greeting(PluginNative, 0)...)
			hear(s)
			say(s, authSwitch(c.plugin, c.data)...)
			heard = hear(s)
			say(s, okPacket...)
			s.Seq = 0
			hear(s) // COM_QUIT
		})
		if err != nil {
			t.Errorf("%s: %v", c.plugin, err)
			continue
		}
		if string(heard) != "secret\x00" {
			t.Errorf("%s: the server heard %q", c.plugin, heard)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFarewell plays a server that ends an idle connection, as MySQL does, and one whose packet is not that.
func TestFarewell(t *testing.T) {
	farewell := mysqlwire.Err{Number: 4031, HasState: true, State: [5]byte([]byte("HY000")), Message: []byte("because of inactivity")}.AppendTo(nil)
	for _, c := range []struct {
		packet []byte
		want   string
		cause  error
	}{
		{farewell, "the server has closed the connection: server error 4031 (HY000): because of inactivity", io.ErrUnexpectedEOF},
		{farewell[:2], "out of order", ErrSequence},
		{[]byte{}, "out of order", ErrSequence},
		{append(farewell, make([]byte, maxFarewell)...), "out of order", ErrSequence},
		{okPacket, "out of order", ErrSequence},
	} {
		client, err := scripted(t, Config{User: "tare"}, func(s *Conn) {
			say(s, greeting(PluginNative, 0)...)
			hear(s)
			say(s, okPacket...)
			s.Seq = 0
			hear(s) // the statement, which a server that has ended the connection does not read
			s.Seq = 0
			say(s, c.packet...)
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Exec(t.Context(), "DO 1")
		if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		var refused *ServerError
		if errors.As(err, &refused) {
			t.Error("it is a response to the statement")
		}
		_ = client.Close()
	}
}

// TestResponseFailures plays servers that disconnect or send invalid packets in the middle of a response.
func TestResponseFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		packets [][]byte
		want    string
	}{
		{"hangs up", nil, "EOF"},
		{"hangs up in the definitions", [][]byte{{1}}, "EOF"},
		{"asks for a file", [][]byte{[]byte("\xfb/etc/passwd")}, "asks for a local file"},
		{"too many columns", [][]byte{{0xFD, 0xFF, 0xFF, 0xFF}}, "a result of 16777215 columns"},
		{"row too short", [][]byte{{1}, {3, 'd', 'e', 'f'}, {5, 'x'}}, "ends early"},
		{"empty packet", [][]byte{{}}, "ends early"},
		{"short OK", [][]byte{{0, 0}}, "ends early"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := scripted(t, Config{User: "tare"}, func(s *Conn) {
				say(s, greeting(PluginNative, 0)...)
				hear(s)
				say(s, okPacket...)
				s.Seq = 0
				hear(s)
				for _, p := range c.packets {
					say(s, p...)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Query(t.Context(), "SELECT 1", func(mysqlwire.TextRow) error { return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err := client.Ping(t.Context()); !errors.Is(err, ErrBroken) {
				t.Errorf("afterwards: got %v, want ErrBroken", err)
			}
		})
	}
}
