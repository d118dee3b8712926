package gateway

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Servers convert the names in logins and commands from the client's character set, drop bytes that are no character
// of it, and differ in what they take for the end of a name. So only a plain name is what it seems to be; every other
// one is unknown until the server reports it: a schema by DATABASE() before the next command, a user by USER()
// at the end of the login. An unknown schema is "", an unknown user starts with unresolved: both may be any.

// unresolved starts the name of a user that the server has not reported. It is not valid UTF-8, and rules match it as
// any user.
const unresolved = 0xff

// maxPlain is the length in bytes above which servers may cut a user's name.
const maxPlain = 32

// isPlain reports whether every server takes the name as it is.
func isPlain(name []byte) bool {
	for _, c := range name {
		switch {
		case c < ' ', c > '~':
			return false
		case c >= '[' && c <= '`' && c != '_', c >= '{': // letters in swe7
			return false
		}
	}
	return !bytes.HasSuffix(name, []byte(" "))
}

// userName returns the user's name, marked as unresolved if it is not plain. Servers remove enclosing quotes.
func userName(name []byte) string {
	if !isPlain(name) || len(name) > maxPlain || bytes.HasPrefix(name, []byte("'")) {
		return string([]byte{unresolved}) + string(name)
	}
	return string(name)
}

// schemaName returns the schema's name if it is plain, otherwise "".
func schemaName(name []byte) string {
	if !isPlain(name) {
		return ""
	}
	return string(name)
}

// isReported reports whether a name from the server is the one that it uses: MySQL reports NULs in the name of a
// COM_INIT_DB, and uses the name before them.
func isReported(name []byte) bool {
	return utf8.Valid(name) && bytes.IndexFunc(name, unicode.IsControl) < 0 && !bytes.HasSuffix(name, []byte(" "))
}
