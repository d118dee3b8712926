package sqldigest

import (
	"strings"
)

// A Mode is the session state that changes how SQL is read: flags of sql_mode, the character set of the
// client, and the server with its version. The zero value reads like a server of unknown kind in utf8mb4.
//
//	bits 0–7    flags
//	bits 8–15   Charset
//	bits 16–19  ServerKind
//	bits 20–39  the server's version
type Mode uint64

const (
	// ANSIQuotes makes "…" an identifier, like sql_mode ANSI_QUOTES.
	ANSIQuotes Mode = 1 << iota
	// NoBackslashEscapes makes the backslash an ordinary byte in strings, like sql_mode NO_BACKSLASH_ESCAPES.
	NoBackslashEscapes
	// Big5 is set if the client's character set is big5, whose two-byte characters may end in a backslash or
	// a backtick. Of the three character set bits the lowest counts.
	Big5
	// GBK is set if the client's character set is gbk or gb18030.
	GBK
	// SJIS is set if the client's character set is sjis or cp932.
	SJIS
	// Oracle is MariaDB's sql_mode ORACLE, which has another grammar.
	Oracle
	// UnknownCharset marks an unknown character set: no byte of the text is reliable. See Mode.Unknown.
	UnknownCharset
	// UnknownSQLMode marks an unknown sql_mode.
	UnknownSQLMode
)

// Unknown reports whether the character set or the sql_mode is unknown. Any reading of a statement is then a
// guess, even of the extent of its strings: rules about tables, types or read-only statements refuse it, and
// its text is neither logged nor shown.
func (m Mode) Unknown() bool { return m&(UnknownCharset|UnknownSQLMode) != 0 }

const (
	charsetShift = 8
	serverShift  = 16
	versionShift = 20
	charsetBits  = Mode(0xff) << charsetShift
	serverBits   = Mode(0xffffff) << serverShift
	maxVersion   = 1<<20 - 1
)

// A ServerKind is the dialect of a server.
type ServerKind uint8

// The kinds of servers. ServerUnknown means that every difference between them counts as unknown.
const (
	ServerUnknown ServerKind = iota
	ServerMariaDB
	ServerMySQL
	ServerTiDB
)

// String returns the product's name.
func (k ServerKind) String() string {
	switch k {
	case ServerMariaDB:
		return "MariaDB"
	case ServerMySQL:
		return "MySQL"
	case ServerTiDB:
		return "TiDB"
	}
	return "unknown"
}

// A Server is a server's kind and version. The version of MySQL 8.0.36 is 80036, that of MariaDB 10.11.6 is
// 101106; 0 is an unknown one. TiDB's version is that of the MySQL version it emulates.
type Server struct {
	Kind    ServerKind
	Version int
}

// ParseServer parses the version string of a server's greeting, or of SELECT VERSION():
// "5.5.5-10.11.6-MariaDB-log", "8.0.36", "8.0.11-TiDB-v8.5.0". For other forms, such as those of other
// products, it returns a Server of ServerUnknown.
func ParseServer(version string) Server {
	s := Server{Kind: ServerMySQL}
	switch {
	case strings.Contains(version, "MariaDB"):
		s.Kind = ServerMariaDB
		version = strings.TrimPrefix(version, "5.5.5-") // prefix for clients that cannot parse versions above 5
	case strings.Contains(version, "-TiDB-"):
		s.Kind = ServerTiDB
	}
	for i := range 3 {
		n, digits := 0, 0
		for digits < len(version) && isDigit(version[digits]) {
			if n = 10*n + int(version[digits]-'0'); n > 99 {
				return Server{}
			}
			digits++
		}
		last := i == 2
		if digits == 0 || !last && (digits == len(version) || version[digits] != '.') {
			return Server{}
		}
		s.Version = 100*s.Version + n
		if version = version[digits:]; !last {
			version = version[1:]
		}
	}
	// MySQL's builds have no suffix, or one that starts with a hyphen.
	if version != "" && version[0] != '-' || s.Version > maxVersion || !known(s.Kind, version) {
		return Server{}
	}
	return s
}

// known reports whether a server with that version suffix is the product it seems to be. Other products that
// speak the protocol and greet with a MySQL version have a name in it.
func known(k ServerKind, suffix string) bool {
	if k != ServerMySQL {
		return true
	}
	for _, other := range [...]string{"vitess", "oceanbase", "polardb", "singlestore", "memsql", "starrocks", "doris", "tdsql", "dolt", "aurora"} {
		if strings.Contains(strings.ToLower(suffix), other) {
			return false
		}
	}
	return true
}

// WithServer returns m for statements to s.
func (m Mode) WithServer(s Server) Mode {
	m &^= serverBits
	if s.Version < 0 || s.Version > maxVersion || s.Kind > ServerTiDB {
		return m
	}
	return m | Mode(s.Kind)<<serverShift | Mode(s.Version)<<versionShift
}

// Server returns the server that m is for.
func (m Mode) Server() Server {
	return Server{Kind: m.kind(), Version: int(m >> versionShift & maxVersion)}
}

func (m Mode) kind() ServerKind { return ServerKind(m >> serverShift & 0xf) }

// WithSQLMode returns m with the flags in a server's value of sql_mode, which is then known.
func (m Mode) WithSQLMode(value []byte) Mode {
	m &^= ANSIQuotes | NoBackslashEscapes | Oracle | UnknownSQLMode
	for len(value) > 0 {
		name := value
		value = nil
		for i, c := range name {
			if c == ',' {
				name, value = name[:i], name[i+1:]
				break
			}
		}
		m |= sqlModeNamed(name)
	}
	return m
}

// sqlModeNamed returns the flags of the sql_mode with the given name, ignoring case.
//
// Source: "Server SQL Modes" of the MySQL manual, "SQL_MODE" of MariaDB's, whose modes named after other
// systems include ANSI_QUOTES. A server that has them set lists all of them.
func sqlModeNamed(name []byte) Mode {
	for _, f := range [...]struct {
		name string
		mode Mode
	}{
		{"ANSI_QUOTES", ANSIQuotes},
		{"ANSI", ANSIQuotes},
		{"DB2", ANSIQuotes},
		{"MAXDB", ANSIQuotes},
		{"MSSQL", ANSIQuotes},
		{"POSTGRESQL", ANSIQuotes},
		{"ORACLE", ANSIQuotes | Oracle},
		{"NO_BACKSLASH_ESCAPES", NoBackslashEscapes},
	} {
		if len(name) == len(f.name) && strings.EqualFold(string(name), f.name) {
			return f.mode
		}
	}
	return 0
}
