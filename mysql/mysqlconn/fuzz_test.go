package mysqlconn

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// replay is a connection to a server that sends the same bytes regardless of its input.
type replay struct {
	said  bytes.Reader
	heard bytes.Buffer
}

func (r *replay) Read(b []byte) (int, error)       { return r.said.Read(b) }
func (r *replay) Write(b []byte) (int, error)      { return r.heard.Write(b) }
func (*replay) Close() error                       { return nil }
func (*replay) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*replay) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*replay) SetDeadline(time.Time) error        { return nil }
func (*replay) SetReadDeadline(t time.Time) error  { return nil }
func (*replay) SetWriteDeadline(t time.Time) error { return nil }

// FuzzServer logs in to a server that sends arbitrary bytes, and queries it: no panic, no hang, and on this
// plain-text connection the server never receives the password.
func FuzzServer(f *testing.F) {
	join := func(payloads ...[]byte) []byte {
		var out []byte
		for i, p := range payloads {
			out, _ = mysqlwire.AppendPacket(out, p, uint8(2*i))
		}
		return out
	}
	native, tls := greeting(PluginNative, 0), greeting(PluginNative, mysqlwire.CapSSL)
	f.Add(join(native, okPacket), uint8(TLSDisabled))
	f.Add(join(native, authSwitch(PluginSHA2, challenge20), []byte{1, 4}), uint8(TLSDisabled))
	f.Add(join(native, authSwitch(PluginClear, nil)), uint8(TLSDisabled))
	f.Add(join(tls, okPacket), uint8(TLSRequired))
	f.Add(join(mysqlwire.NewErr(1040, []byte("x")).AppendTo(nil)), uint8(TLSPreferred))
	result, seq := mysqlwire.AppendPacket(join(native, okPacket), []byte{1}, 1)
	for _, p := range [][]byte{{3, 'd', 'e', 'f'}, {1, '7'}, {0xFE, 0, 0, 2, 0, 0, 0}} {
		result, seq = mysqlwire.AppendPacket(result, p, seq)
	}
	f.Add(result, uint8(TLSDisabled))

	const password = "correct horse"
	f.Fuzz(func(t *testing.T, said []byte, mode uint8) {
		defer alloctest.Bounded(t, 32<<20)()
		r := &replay{}
		r.said.Reset(said)
		c, err := Dial(t.Context(), Config{
			Addr: "replay:3306", User: "tare", Password: password, AllowClearText: true,
			TLSMode: TLSMode(mode % uint8(len(tlsModes))), MaxPacket: 1 << 20, ServerKey: ServerKey{Request: mode > 127},
			DialFunc: func(context.Context, string, string) (net.Conn, error) { return r, nil },
		})
		if err == nil {
			_, _ = c.Exec(t.Context(), "SELECT 1") // any outcome is valid
			_ = c.Close()
		}
		if bytes.Contains(r.heard.Bytes(), []byte(password)) {
			t.Errorf("the password left in clear: %q", r.heard.Bytes())
		}
	})
}
