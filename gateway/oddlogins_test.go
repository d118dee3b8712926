package gateway_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Sizes in bytes of logins, and the name of a method that no server has.
const (
	loginPacket   = 64 << 10
	challengeSize = 20
	signatureSize = 64
	parsecSize    = 32 + signatureSize // with the client's challenge
	noMethod      = "no_such_method"
)

// An oddLogin is a login, valid or not, and perhaps a COM_CHANGE_USER after it.
type oddLogin struct {
	name     string
	caps     mysqlwire.Capability // besides oddCaps
	old      bool                 // without CLIENT_PLUGIN_AUTH and, if bare, CLIENT_SECURE_CONNECTION
	bare     bool
	user     string
	plugin   string
	schema   string
	charset  uint8
	response int // bytes of a wrong response; -1: a right one
	change   *mysqlwire.ChangeUser
	leave    bool // disconnect after COM_CHANGE_USER, without reading
	want     mysqlwire.Errno
}

const oddCaps = mysqlwire.CapProtocol41 | mysqlwire.CapLongPassword

// oddLogins are logins that MariaDB counts as handshake errors unless the gateway refuses or rewrites them.
func oddLogins() []oddLogin {
	const withSchema, native = mysqlwire.CapConnectWithDB, mysqlconn.PluginNative
	app, ed := testmysql.AppUser, testmysql.EdUser
	odd := []oddLogin{
		{name: "a schema that is not UTF-8", caps: withSchema, user: app, schema: "\xff", response: -1, want: 1300},
		{name: "the same by ed25519 and a wrong password", caps: withSchema, user: ed, schema: "\xff", response: 20, want: mysqlwire.ErrnoAccessDenied},
		{name: "a schema outside of the BMP", caps: withSchema, user: app, schema: "😀", response: -1, want: 1300},
		{name: "a schema that is not GBK", caps: withSchema, user: app, schema: "\x81\xff", charset: 28, response: -1, want: 1300},
		{name: "a schema that is not ASCII", caps: withSchema, user: app, schema: "\x81\xff", charset: 11, response: -1, want: 1300},
		{name: "a schema that does not exist", caps: withSchema, user: app, schema: "où", response: -1, want: mysqlwire.ErrnoUnknownDatabase},
		{name: "a schema that exists", caps: withSchema, user: app, schema: "donnée", response: -1},
		{name: "an old client", old: true, user: app, response: -1},
		{name: "an old client's schema", caps: withSchema, old: true, user: app, schema: "donnée", response: -1},
		{name: "an old client of ed25519", old: true, user: ed, response: 20, want: mysqlwire.ErrnoAuthNotSupported},
		{name: "a password of MySQL 4.0", old: true, bare: true, user: app, response: 8, want: mysqlwire.ErrnoAuthNotSupported},
		{name: "no password of MySQL 4.0", old: true, bare: true, user: app, want: mysqlwire.ErrnoAccessDenied},
		{name: "an old client changes its user", old: true, user: app, response: -1, change: &mysqlwire.ChangeUser{User: []byte(ed), Charset: 45}, want: mysqlwire.ErrnoAuthNotSupported},
		{name: "an old client changes by an odd response", old: true, user: app, response: -1, change: &mysqlwire.ChangeUser{User: []byte(app), AuthResponse: make([]byte, 21), Charset: 45}, want: mysqlwire.ErrnoAuthNotSupported},
		{name: "a change by the method of MySQL 4.0", user: app, response: -1, change: &mysqlwire.ChangeUser{User: []byte(app), AuthPlugin: []byte("mysql_old_password"), Charset: 45}, want: mysqlwire.ErrnoAuthNotSupported},
	}
	for _, charset := range []uint8{35, 54, 56, 60, 128, 183} {
		odd = append(odd, oddLogin{name: "a character set of more than a byte", user: app, charset: charset, response: 20, want: mysqlwire.ErrnoWrongValueForVar})
	}
	for _, n := range []int{1, 8, 21} {
		want := mysqlwire.ErrnoHandshake
		if n == 1 {
			want = mysqlwire.ErrnoAccessDenied
		}
		odd = append(odd, oddLogin{name: "an old client's odd response", old: true, user: app, response: n, want: want})
	}
	for _, plugin := range []string{native, "mysql_old_password", "client_ed25519", "other"} {
		want := mysqlwire.ErrnoAccessDenied
		if plugin == "mysql_old_password" {
			want = mysqlwire.ErrnoAuthNotSupported
		}
		odd = append(odd, oddLogin{name: "a login of 8 bytes: " + plugin, user: app, plugin: plugin, response: 8, want: want})
		for _, user := range []string{app, ed, "nobody", "noone"} {
			odd = append(odd, oddLogin{
				name: "a change that is left: " + plugin, user: app, response: -1, leave: true,
				change: &mysqlwire.ChangeUser{User: []byte(user), AuthResponse: make([]byte, 20), AuthPlugin: []byte(plugin), Charset: 45},
			})
		}
	}
	return odd
}

// TestOddLogins checks that the servers count none of oddLogins against the gateway's address, and that each
// has the expected outcome.
func TestOddLogins(t *testing.T) {
	for _, server := range hostCacheServers() {
		t.Run(server.name, func(t *testing.T) {
			server.opts = append(server.opts, testmysql.WithSetup("CREATE DATABASE IF NOT EXISTS `donnée` CHARACTER SET utf8mb4", "GRANT ALL ON *.* TO app@'%'"))
			s, g := server.start(t)
			var changes []oddLogin
			for _, odd := range oddLogins() {
				if odd.change != nil {
					changes = append(changes, odd)
					continue
				}
				t.Run(odd.name, func(t *testing.T) {
					odd.run(t, g.addr, server.name == "MariaDB")
					checkCounted(t, s, g, odd.name)
				})
			}
			// MariaDB delays the error of each change of the user by a second.
			if err := parallel.ForEach(t.Context(), len(changes), changes, func(_ context.Context, odd oddLogin) error {
				t.Run(odd.name, func(t *testing.T) { odd.run(t, g.addr, server.name == "MariaDB") })
				return nil
			}); err != nil {
				t.Error(err)
			}
			checkCounted(t, s, g, "the changes of users")
		})
	}
}

func (o oddLogin) run(t *testing.T, addr string, maria bool) {
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer nc.Close()
	c := mysqlconn.New(nc)
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	p, err := c.ReadMessage(loginPacket)
	must(t, err)
	var h mysqlwire.Handshake
	must(t, h.Decode(p))
	caps := oddCaps | o.caps
	if !o.old {
		caps |= mysqlwire.CapPluginAuth
	}
	if !o.bare {
		caps |= mysqlwire.CapSecureConnection
	}
	r := mysqlwire.HandshakeResponse{
		Capabilities: caps, MaxPacket: 1 << 24, Charset: 45, User: []byte(o.user), AuthPlugin: []byte(o.plugin), Database: []byte(o.schema), AuthResponse: o.respond(h.AuthData, o.response),
	}
	if o.charset != 0 {
		r.Charset = o.charset
	}
	must(t, c.WriteMessage(r.AppendTo(nil)))
	p = o.authenticate(t, c)
	if o.change != nil {
		if p[0] != mysqlwire.MarkOK && o.old && !maria {
			return // its account uses another method
		}
		if p[0] != mysqlwire.MarkOK {
			t.Fatalf("the login ends by %q", p)
		}
		c.Seq = 0
		must(t, c.WriteMessage(o.change.AppendTo(nil, caps)))
		if o.leave {
			return
		}
		o.response = 20
		p = o.authenticate(t, c)
	}
	if !maria {
		return // oddLogin.want is MariaDB's error
	}
	var e mysqlwire.Err
	if p[0] == mysqlwire.MarkErr {
		must(t, e.Decode(p))
	}
	if e.Number != o.want {
		t.Errorf("the login ends by error %d %s, want %d", e.Number, e.Message, o.want)
	}
	if o.want == 0 && o.schema != "" {
		o.checkSchema(t, c)
	}
}

// respond returns a response to native password's challenge; it is wrong for accounts of other methods.
func (o oddLogin) respond(challenge []byte, size int) []byte {
	if size < 0 {
		return mysqlconn.ScrambleNative(testmysql.Password, challenge[:challengeSize])
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// authenticate responds to requests for a method and returns the last packet.
func (o oddLogin) authenticate(t *testing.T, c *mysqlconn.Conn) []byte {
	t.Helper()
	for {
		p, err := c.ReadMessage(loginPacket)
		must(t, err)
		if p[0] == mysqlwire.MarkAuthMore {
			if p[1] == mysqlwire.SHA2FullAuth {
				must(t, c.WriteMessage([]byte{0})) // no password
			}
			continue
		}
		if p[0] != mysqlwire.MarkEOF {
			return p
		}
		var sw mysqlwire.AuthSwitchRequest
		must(t, sw.Decode(p))
		size := o.response
		if size >= 0 {
			size = challengeSize
		}
		if string(sw.Plugin) == mysqlconn.PluginEd25519 {
			size = signatureSize
		}
		response := o.respond(sw.Data, size)
		if string(sw.Plugin) == mysqlconn.PluginSHA2 && size < 0 {
			response = mysqlconn.ScrambleSHA2(testmysql.Password, sw.Data[:challengeSize])
		}
		must(t, c.WriteMessage(response))
	}
}

func (o oddLogin) checkSchema(t *testing.T, c *mysqlconn.Conn) {
	t.Helper()
	c.Seq = 0
	must(t, c.WriteMessage([]byte("\x03SELECT DATABASE() = '"+o.schema+"'")))
	var last []byte
	for range 4 { // the number of columns, a column, EOF, the row
		p, err := c.ReadMessage(loginPacket)
		must(t, err)
		last = append(last[:0], p...)
	}
	if string(last) != "\x011" {
		t.Errorf("the schema is %q, want %s", last, o.schema)
	}
}
