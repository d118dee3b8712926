package gateway

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Modes are what the text of a session's statements does not show about their meaning: the default schema, the user, the
// server's status, sql_mode and character set, and the rules. Only its methods change them.
type modes struct {
	planner *sqlplan.Planner
	user    string           // starts with unresolved until the server has reported it
	schema  string           // "": none, or unknown
	status  mysqlwire.Status // of the last OK or EOF
	mode    sqldigest.Mode
	scope   sqlplan.Scope // of the fields above
	rules   uint64        // epoch of the rules that scope was computed under
	unknown bool          // query the server before the next statement
	maria   bool          // the server is MariaDB, whose status reports ANSI_QUOTES
}

// logIn records the names of a login that has started. Its end calls rescope.
func (m *modes) logIn(user, schema string) { m.user, m.schema = user, schema }

// setUser records the user that the server reports.
func (m *modes) setUser(name []byte) {
	m.user = string(name)
	m.rescope()
}

// isUserUnknown reports whether the server has yet to report the session's user.
func (m *modes) isUserUnknown() bool { return len(m.user) > 0 && m.user[0] == unresolved }

// useSchema records that the client has selected a schema. The server is queried for a name that is not plain.
func (m *modes) useSchema(name []byte) {
	m.unknown = m.unknown || !isPlain(name)
	m.schema = schemaName(name)
	m.rescope()
}

// reportSchema records the default schema that the server reports.
func (m *modes) reportSchema(name []byte) {
	if !isReported(name) {
		name = nil
	}
	m.schema = string(name)
	m.rescope()
}

// setServer records the server's product by the version in its greeting.
func (m *modes) setServer(version string) {
	m.maria = isMaria(version)
	m.set(m.mode.WithServer(sqldigest.ParseServer(version)))
}

// follow records the server's product on another connection, which has a mode.
func (m *modes) follow(maria bool, mode sqldigest.Mode) {
	m.maria = maria
	m.set(m.mode.WithServer(mode.Server()))
}

// isMaria reports whether the version of a server is one of MariaDB.
func isMaria(version string) bool { return strings.Contains(version, "MariaDB") }

// setStatus records the server's status, which includes modes that change how SQL is read. It does not allocate.
func (m *modes) setStatus(st mysqlwire.Status) {
	m.status = st
	mode := m.mode &^ sqldigest.NoBackslashEscapes
	if st.Has(mysqlwire.StatusNoBackslashEscapes) {
		mode |= sqldigest.NoBackslashEscapes
	}
	if st.Has(mysqlwire.StatusMariaANSIQuotes) {
		mode |= sqldigest.ANSIQuotes
	} else if m.maria {
		mode &^= sqldigest.ANSIQuotes
	}
	m.set(mode)
}

// setSQLMode records the modes that a SET of sql_mode determines.
func (m *modes) setSQLMode(mode sqldigest.Mode) { m.set(m.mode&^sqlModes | mode&sqlModes) }

// sqlModes are the parts of a mode that sql_mode decides.
const sqlModes = sqldigest.ANSIQuotes | sqldigest.NoBackslashEscapes | sqldigest.Oracle | sqldigest.UnknownSQLMode

// setCharset records a change of the connection's character set. 0 means unknown: it is queried before the
// next statement.
func (m *modes) setCharset(c sqldigest.Charset) {
	m.set(m.mode.WithCharset(c))
	m.unknown = m.unknown || m.mode.Unknown()
}

// report records the modes and the default schema that the server reports.
func (m *modes) report(charset, sqlMode, schema []byte) {
	m.unknown = false
	m.set(m.mode.WithCharset(sqldigest.CharsetNamed(charset)).WithSQLMode(sqlMode))
	m.reportSchema(schema)
}

// forget marks the modes as unknown: the next statement has no text in logs and is refused by rules
// about its effects, and the modes are queried before the statement after it.
func (m *modes) forget() {
	m.set(m.mode.WithCharset(0) | sqldigest.UnknownSQLMode)
	m.unknown = true
}

// reset records COM_RESET_CONNECTION: the server's defaults apply, unless the status of its response reports others.
func (m *modes) reset(st mysqlwire.Status) {
	m.mode = sqldigest.Mode(0).WithServer(m.mode.Server()).WithCharset(0) | sqldigest.UnknownSQLMode
	m.unknown = true
	m.setStatus(st)
	m.rescope()
}

func (m *modes) set(mode sqldigest.Mode) {
	if mode != m.mode {
		m.mode = mode
		m.rescope()
	}
}

// rescope recomputes the parts of a plan's key besides the text.
func (m *modes) rescope() { m.scope = m.scopeIn(m.schema, m.mode) }

// scopeIn returns the scope of a statement in another schema and mode.
func (m *modes) scopeIn(schema string, mode sqldigest.Mode) sqlplan.Scope {
	return m.planner.ScopeOf([]byte(schema), []byte(m.user), mode)
}

// followRules recomputes the scope if the rules have changed.
func (m *modes) followRules() {
	if epoch := m.planner.RulesEpoch(); epoch != m.rules {
		m.rules = epoch
		m.rescope()
	}
}

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

// notPlain returns a name that is not plain, "" for one that is.
func notPlain(name []byte) string {
	if isPlain(name) {
		return ""
	}
	return string(name)
}

// isReported reports whether a name from the server is the one that it uses: MySQL reports NULs in the name of a
// COM_INIT_DB, and uses the name before them.
func isReported(name []byte) bool {
	return utf8.Valid(name) && bytes.IndexFunc(name, unicode.IsControl) < 0 && !bytes.HasSuffix(name, []byte(" "))
}
