package mysqlconn

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// The authentication methods that Dial knows.
const (
	PluginNative  = "mysql_native_password"
	PluginSHA2    = "caching_sha2_password"
	PluginSHA256  = "sha256_password"
	PluginEd25519 = "client_ed25519"
	PluginParsec  = "parsec"
	PluginClear   = "mysql_clear_password"
	PluginDialog  = "dialog"
)

var (
	// errPlainLeg reports that the server requests the password in clear text on a connection without
	// encryption.
	errPlainLeg = errors.New("the server asks for the password in clear on a connection without TLS: " +
		"use tls mode required or better")

	// errClearText reports that the server requests the password in clear text and that Config does not allow
	// that.
	errClearText = errors.New("the server asks for the password in clear, which is not allowed: " +
		"use an account with another authentication method")

	errNeedResponse = errors.New("the server requests a response that the method does not define")
)

// unknownPluginError reports that the server requests an authentication method that Dial does not implement.
type unknownPluginError struct {
	Plugin string
}

func (e *unknownPluginError) Error() string {
	return fmt.Sprintf("unknown authentication plugin %q", e.Plugin)
}

// authState is the next packet that an exchange expects.
type authState uint8

const (
	authPlain   authState = iota // the server decides, or caching_sha2's status follows
	authWantKey                  // the public key was requested
	authDone                     // the password was sent
)

// An exchange is the client's side of one authentication method: bytes in, bytes out.
type exchange struct {
	password  string
	secure    bool // TLS or a unix socket
	clearText bool // Config.AllowClearText
	key       ServerKey

	plugin    string
	challenge []byte
	state     authState
}

// knowsPlugin reports whether begin implements the method of plugin.
func knowsPlugin(plugin string) bool {
	switch plugin {
	case PluginNative, PluginSHA2, PluginSHA256, PluginEd25519, PluginParsec, PluginClear, PluginDialog:
		return true
	}
	return false
}

// start starts the method with the challenge in wire form, which it copies, and returns the first response.
func (x *exchange) start(plugin string, challenge []byte) ([]byte, error) {
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
	case PluginParsec:
		return []byte{}, nil // requests how the key is derived
	case PluginClear:
		if !x.clearText {
			return nil, errClearText
		}
		return x.clear()
	case PluginDialog:
		return x.dialog()
	}
	return nil, &unknownPluginError{plugin}
}

// next returns the response to the server's next packet, which begins with MarkAuthMore unless it is a
// question of dialog. A nil response means that nothing is sent.
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
	case x.plugin == PluginParsec && x.state == authPlain:
		x.state = authDone
		return signParsec(x.password, x.challenge, data)
	case x.plugin == PluginSHA2 && x.state == authPlain && len(data) == 1 && data[0] == mysqlwire.SHA2FastOK:
		x.state = authDone
		return nil, nil
	case x.plugin == PluginSHA2 && x.state == authPlain && len(data) == 1 && data[0] == mysqlwire.SHA2FullAuth:
		return x.fullPassword(mysqlwire.SHA2RequestKey)
	}
	return nil, fmt.Errorf("%w: %s", errNeedResponse, x.plugin)
}

// fullPassword returns the password for sending: unchanged over TLS, otherwise encrypted. If the key is
// to be requested, it returns the byte ask.
func (x *exchange) fullPassword(ask byte) ([]byte, error) {
	switch {
	case x.password == "" || x.secure:
		x.state = authDone
		return x.clear()
	case x.key.Key != nil:
		x.state = authDone
		return EncryptPassword(x.password, x.challenge, x.key.Key)
	case !x.key.Request:
		return nil, &ServerKeyError{x.key.Options}
	}
	x.state = authWantKey
	return []byte{ask}, nil
}

// dialog returns the response to one question of PAM. There is one secret, so every question gets the same
// response.
func (x *exchange) dialog() ([]byte, error) {
	switch {
	case !x.clearText:
		return nil, errClearText
	case x.state == authDone:
		return nil, errors.New("the server requests a second factor: only passwords are supported")
	}
	x.state = authDone
	return x.clear()
}

// clear returns the password with its terminating NUL byte. It is the only function that puts an unencrypted
// password into a packet.
func (x *exchange) clear() ([]byte, error) {
	if !x.secure && x.password != "" {
		return nil, errPlainLeg
	}
	return append([]byte(x.password), 0), nil
}
