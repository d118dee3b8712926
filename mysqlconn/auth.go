package mysqlconn

import (
	"crypto/rsa"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysqlwire"
)

// The authentication methods that Dial knows.
const (
	PluginNative  = "mysql_native_password"
	PluginSHA2    = "caching_sha2_password"
	PluginSHA256  = "sha256_password"
	PluginEd25519 = "client_ed25519"
	PluginClear   = "mysql_clear_password"
	PluginDialog  = "dialog"
)

var (
	// ErrPlainLeg says that the server wants the password in clear on a connection that
	// anyone on the way can read.
	ErrPlainLeg = errors.New("the password would leave in clear on a plain connection: " +
		"use tls mode required or better")

	// ErrClearText says that the server wants the password in clear and that this was not
	// allowed.
	ErrClearText = errors.New("the server asks for the password in clear: " +
		"set AllowClearText if it is trusted with it")

	errNeedAnswer = errors.New("the server requests a response that the method does not define")
)

// UnknownPluginError says that the server asks for an authentication method that Tare does
// not have.
type UnknownPluginError struct {
	Plugin string
}

func (e *UnknownPluginError) Error() string {
	return fmt.Sprintf("unknown authentication plugin %q", e.Plugin)
}

// authState is what an exchange by one method waits for.
type authState uint8

const (
	authPlain   authState = iota // the server decides, or caching_sha2's status comes
	authWantKey                  // the public key was asked for
	authDone                     // the password was sent
)

// An exchange is the client's side of one authentication method: bytes in, bytes out.
type exchange struct {
	password  string
	secure    bool           // TLS or a unix socket
	clearText bool           // Config.AllowClearText
	key       *rsa.PublicKey // Config.ServerPublicKey

	plugin    string
	challenge []byte
	state     authState
}

// knowsPlugin reports whether plugin is a method that begin can answer.
func knowsPlugin(plugin string) bool {
	switch plugin {
	case PluginNative, PluginSHA2, PluginSHA256, PluginEd25519, PluginClear, PluginDialog:
		return true
	}
	return false
}

// begin starts the method with the challenge as it is on the wire, which it copies, and
// gives the first answer.
func (x *exchange) begin(plugin string, challenge []byte) ([]byte, error) {
	x.plugin, x.state = plugin, authPlain
	x.challenge = append(x.challenge[:0], challenge...)
	if n := len(challenge); n > 0 && (n == scrambleLen+1 || n == challengeEd25519+1) && challenge[n-1] == 0 {
		x.challenge = x.challenge[:n-1]
	}
	switch plugin {
	case PluginNative:
		return ScrambleNative(x.password, x.challenge), nil
	case PluginSHA2:
		return ScrambleSHA2(x.password, x.challenge), nil
	case PluginSHA256:
		return x.fullPassword(mysqlwire.SHA256RequestKey)
	case PluginEd25519:
		return SignEd25519(x.password, x.challenge)
	case PluginClear:
		if !x.clearText {
			return nil, ErrClearText
		}
		return x.clear()
	case PluginDialog:
		return x.dialog()
	}
	return nil, &UnknownPluginError{plugin}
}

// next answers what the server says next, which begins with MarkAuthMore unless it is a
// question of dialog. A nil answer means that nothing is to be sent.
func (x *exchange) next(data []byte) ([]byte, error) {
	switch {
	case x.plugin == PluginDialog:
		return x.dialog()
	case x.state == authWantKey:
		key, err := ParsePublicKey(data)
		if err != nil {
			return nil, err
		}
		x.state = authDone
		return EncryptPassword(x.password, x.challenge, key)
	case x.plugin == PluginSHA2 && x.state == authPlain && len(data) == 1 && data[0] == mysqlwire.SHA2FastOK:
		x.state = authDone
		return nil, nil
	case x.plugin == PluginSHA2 && x.state == authPlain && len(data) == 1 && data[0] == mysqlwire.SHA2FullAuth:
		return x.fullPassword(mysqlwire.SHA2RequestKey)
	}
	return nil, fmt.Errorf("%w: %s", errNeedAnswer, x.plugin)
}

// fullPassword sends the password itself: over TLS as it is, otherwise encrypted, for which
// the key may have to be asked for with the byte ask.
func (x *exchange) fullPassword(ask byte) ([]byte, error) {
	switch {
	case x.password == "" || x.secure:
		x.state = authDone
		return x.clear()
	case x.key != nil:
		x.state = authDone
		return EncryptPassword(x.password, x.challenge, x.key)
	}
	x.state = authWantKey
	return []byte{ask}, nil
}

// dialog answers one question of PAM. There is one secret to tell, so there is one answer.
func (x *exchange) dialog() ([]byte, error) {
	switch {
	case !x.clearText:
		return nil, ErrClearText
	case x.state == authDone:
		return nil, errors.New("the server requests a second factor: only passwords are supported")
	}
	x.state = authDone
	return x.clear()
}

// clear is the password with the NUL byte that ends it. It is the one place where a
// password enters a packet as it is.
func (x *exchange) clear() ([]byte, error) {
	if !x.secure && x.password != "" {
		return nil, ErrPlainLeg
	}
	return append([]byte(x.password), 0), nil
}
