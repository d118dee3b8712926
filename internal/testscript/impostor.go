package testscript

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"slices"
	"sync"
	"testing"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Results of Impostor.Learned, in ascending order.
const (
	LearnedNothing  = "nothing"
	LearnedLogin    = "login" // the user's name, and a response to a challenge if the method has one
	LearnedPassword = "password"
)

// Methods are the methods by which an Impostor may request a password.
var Methods = [...]string{
	mysqlconn.PluginNative, mysqlconn.PluginSHA2, mysqlconn.PluginSHA256, mysqlconn.PluginEd25519,
	mysqlconn.PluginParsec, mysqlconn.PluginClear, mysqlconn.PluginDialog, "mysql_old_password",
}

// An Impostor takes the place of a server: it has another certificate or none, requests the password by a method
// of its choice, presents its own RSA key, and refuses every login.
type Impostor struct {
	Certificate *tls.Certificate   // nil: it offers no TLS
	Method      string             // requested of every client
	Password    string             // the one to learn
	Key         *mysqlconn.KeyPair // nil: none is presented
	Message     string             // of the refusal; "": Access denied

	mu      sync.Mutex
	learned string
	plain   bytes.Buffer // bytes received without TLS
}

// Start serves until the test ends.
func (i *Impostor) Start(t testing.TB) (addr string) {
	t.Helper()
	i.learned = LearnedNothing
	return Start(t, func(_ int, c *mysqlconn.Conn) { i.serve(c) })
}

// Learned returns the result over all clients, and whether a listener on the network has seen the password.
func (i *Impostor) Learned() (learned string, listener bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.learned, bytes.Contains(i.plain.Bytes(), []byte(i.Password))
}

// received records a packet.
func (i *Impostor) received(c *mysqlconn.Conn, p []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.learned == LearnedNothing {
		i.learned = LearnedLogin
	}
	if bytes.Contains(p, []byte(i.Password)) {
		i.learned = LearnedPassword
	}
	if !c.IsTLS() {
		i.plain.Write(p)
	}
}

func (i *Impostor) serve(c *mysqlconn.Conn) {
	p, ok := greet(c, mysqlconn.PluginNative, i.Certificate)
	if !ok {
		return
	}
	i.received(c, p)
	i.authenticate(c)
	_ = refuse(c, cmp.Or(i.Message, "Access denied"))
}

// authenticate requests the password.
func (i *Impostor) authenticate(c *mysqlconn.Conn) {
	challenge := []byte(greeted + "\x00")
	if i.Method == mysqlconn.PluginEd25519 || i.Method == mysqlconn.PluginParsec {
		challenge = []byte("abcdefghijklmnopqrstuvwxyz012345")
	}
	p, ok := i.round(c, mysqlwire.AuthSwitchRequest{Plugin: []byte(i.Method), Data: challenge}.AppendTo(nil))
	if ok && i.Method == mysqlconn.PluginSHA2 {
		p, ok = i.round(c, []byte{mysqlwire.MarkAuthMore, mysqlwire.SHA2FullAuth})
	}
	if ok && i.Method == mysqlconn.PluginParsec {
		p, ok = i.round(c, append([]byte{mysqlwire.MarkAuthMore, 'P', 0}, "a salt of any size"...))
	}
	if ok && len(p) == 1 && slices.Contains([]byte{mysqlwire.SHA2RequestKey, mysqlwire.SHA256RequestKey}, p[0]) {
		p, ok = i.round(c, mysqlwire.AuthMoreData{Data: i.Key.PublicPEM()}.AppendTo(nil))
	}
	if !ok || i.Key == nil {
		return
	}
	if text, err := i.Key.DecryptPassword(p, challenge); err == nil && text == i.Password {
		i.mu.Lock()
		i.learned = LearnedPassword
		i.mu.Unlock()
	}
}

func (i *Impostor) round(c *mysqlconn.Conn, say []byte) (p []byte, ok bool) {
	if p, ok = round(c, say); ok {
		i.received(c, p)
	}
	return p, ok
}
