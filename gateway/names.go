package gateway

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlwire"
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

// appendUser appends the user's name, marked as unresolved if it is not plain. Servers remove enclosing quotes.
func appendUser(dst, name []byte) []byte {
	if !isPlain(name) || len(name) > maxPlain || bytes.HasPrefix(name, []byte("'")) {
		dst = append(dst, unresolved)
	}
	return append(dst, name...)
}

// appendSchema appends the schema's name if it is plain.
func appendSchema(dst, name []byte) []byte {
	if !isPlain(name) {
		return dst
	}
	return append(dst, name...)
}

// nameSchema records that the client has selected a schema. The modes are queried together with it.
func (s *session) nameSchema(name []byte) {
	s.modesUnknown = s.modesUnknown || !isPlain(name)
	s.schema = appendSchema(s.schema[:0], name)
	s.rescope()
}

// reportSchema records the default schema that the server reports.
func (s *session) reportSchema(name []byte) {
	if !isReported(name) {
		name = nil
	}
	s.setSchema(name)
}

// isReported reports whether a name from the server is the one that it uses: MySQL reports NULs in the name of a
// COM_INIT_DB, and uses the name before them.
func isReported(name []byte) bool {
	return utf8.Valid(name) && bytes.IndexFunc(name, unicode.IsControl) < 0 && !bytes.HasSuffix(name, []byte(" "))
}

// userUnknown reports whether the server has yet to report the session's user.
func (s *session) userUnknown() bool { return len(s.user) > 0 && s.user[0] == unresolved }

const userQuery = "SELECT CAST(CONVERT(USER() USING utf8mb4) AS BINARY), NULL, NULL"

// resolveUser queries the name of a user that is unknown, and counts the connection under it. It returns an error for
// the client if the user has too many connections. The name remains unknown if the account may execute no query, as
// with an expired password.
func (s *session) resolveUser(fill func() error) (*clientError, error) {
	if err := s.internalQuery(userQuery); err != nil {
		return nil, err
	}
	row, _, err := s.readInternalRow(fill)
	if err != nil || row == nil {
		return nil, err
	}
	name := row[0]
	if i := bytes.LastIndexByte(name, '@'); i >= 0 {
		name = name[:i]
	}
	if !isReported(name) {
		return nil, nil
	}
	if s.entered && !s.srv.users.transfer(string(s.user), string(name)) {
		return s.tooManyConnections(name), nil
	}
	s.user = append(s.user[:0], name...)
	s.rescope()
	return nil, nil
}

func (s *session) tooManyConnections(user []byte) *clientError {
	return &clientError{errno: mysqlwire.ErrnoTooManyUserConnections, msg: fmt.Sprintf(
		"User '%s' already has more than %d active connections through Tare (--max-user-connections)",
		user, s.srv.opts.MaxUserConnections)}
}
