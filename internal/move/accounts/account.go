package accounts

import (
	"fmt"
	"strconv"
	"strings"
	"unique"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/session"
)

// A Name is the name of an account. The host of MariaDB's roles is empty.
type Name struct{ User, Host string }

// String returns the name as information_schema shows it, for people.
func (n Name) String() string {
	if n.Host == "" {
		return "'" + n.User + "'"
	}
	return "'" + n.User + "'@'" + n.Host + "'"
}

// trimmed returns the name as MySQL stores it.
func (n Name) trimmed() Name {
	return Name{User: dialect.TrimName(n.User), Host: dialect.TrimName(n.Host)}
}

// sql returns the name, quoted for SQL.
func (n Name) sql() string {
	if n.Host == "" {
		return session.Ident(n.User)
	}
	return session.Ident(n.User) + "@" + session.Ident(n.Host)
}

// quote returns a text as a literal for sessions of package rowstream, whose sql_mode has no NO_BACKSLASH_ESCAPES.
func quote(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'" }

// A secret is an authentication string. Formatting it, or what has it, yields a placeholder or an address: of unexported fields, fmt
// calls no methods.
type secret struct{ of unique.Handle[string] }

const hidden = "(secret)"

func newSecret(text string) (s secret) {
	if text != "" {
		s.of = unique.Make(text)
	}
	return s
}

// text returns the authentication string, for a statement to the target.
func (s secret) text() string {
	if s == (secret{}) {
		return ""
	}
	return s.of.Value()
}

func (secret) String() string               { return hidden }
func (secret) GoString() string             { return hidden }
func (secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// A method is a way to authenticate.
type method struct {
	plugin string
	auth   secret
}

// A definition is an account without its privileges. Values that the server's defaults determine are zero.
type definition struct {
	role    bool
	methods []method // one; MariaDB permits alternatives
	terms
}

// terms are the parts of a definition that servers of both vendors have, and those of MySQL alone.
type terms struct {
	require   require
	limits    limits
	expired   bool
	lifetime  string // of the password, in days; 0: never expires
	locked    bool
	history   string
	reuse     string // in days
	current   string // whether a change of the password requires the current one: Y or N
	failed    int    // logins until the account is locked
	lockDays  int    // -1: until it is unlocked
	attribute string // JSON
}

// require says what is required of connections.
type require struct{ kind, issuer, subject, cipher string }

// limits are those of an account's use of the server.
type limits struct {
	questions, updates, connections, userConnections int64
	statementTime                                    string // MariaDB, in seconds
}

// An account is an account of a server.
type account struct {
	definition
	defaults []Name   // roles
	global   bool     // has privileges on *.*, also such that are not among known; of MariaDB alone
	problems []string // parts that are not understood, or cannot be created
}

// create returns the statement that creates an account.
func (d *definition) create(v dialect.Vendor, n Name) string {
	if d.role {
		return "CREATE ROLE " + n.sql()
	}
	var b strings.Builder
	b.WriteString("CREATE USER " + n.sql())
	for i, m := range d.methods {
		b.WriteString([]string{" IDENTIFIED ", " OR "}[min(i, 1)])
		b.WriteString(m.sql(v, i))
	}
	b.WriteString(d.require.sql())
	b.WriteString(d.limits.sql())
	switch {
	case d.expired:
		b.WriteString(" PASSWORD EXPIRE")
	case d.lifetime == "0":
		b.WriteString(" PASSWORD EXPIRE NEVER")
	case d.lifetime != "":
		b.WriteString(" PASSWORD EXPIRE INTERVAL " + d.lifetime + " DAY")
	}
	if d.locked {
		b.WriteString(" ACCOUNT LOCK")
	}
	d.mysqlTerms(&b)
	return b.String()
}

// mysqlTerms appends what MySQL alone has.
func (d *definition) mysqlTerms(b *strings.Builder) {
	if d.history != "" {
		b.WriteString(" PASSWORD HISTORY " + d.history)
	}
	if d.reuse != "" {
		b.WriteString(" PASSWORD REUSE INTERVAL " + d.reuse + " DAY")
	}
	switch d.current {
	case "Y":
		b.WriteString(" PASSWORD REQUIRE CURRENT")
	case "N":
		b.WriteString(" PASSWORD REQUIRE CURRENT OPTIONAL")
	}
	if d.failed != 0 {
		fmt.Fprintf(b, " FAILED_LOGIN_ATTEMPTS %d", d.failed)
	}
	switch {
	case d.lockDays < 0:
		b.WriteString(" PASSWORD_LOCK_TIME UNBOUNDED")
	case d.lockDays > 0:
		fmt.Fprintf(b, " PASSWORD_LOCK_TIME %d", d.lockDays)
	}
	if d.attribute != "" {
		b.WriteString(" ATTRIBUTE " + quote(d.attribute))
	}
}

// sql returns a method as CREATE USER takes it.
func (m method) sql(v dialect.Vendor, number int) string {
	if v == dialect.MySQL {
		text := "WITH " + quote(m.plugin)
		if auth := m.auth.text(); auth != "" {
			text += fmt.Sprintf(" AS 0x%X", auth)
		}
		return text
	}
	text := quote(m.plugin)
	if number == 0 {
		text = "VIA " + text
	}
	if auth := m.auth.text(); auth != "" {
		text += " USING " + quote(auth)
	}
	return text
}

func (r require) sql() string {
	switch r.kind {
	case "ANY":
		return " REQUIRE SSL"
	case "X509":
		return " REQUIRE X509"
	case "SPECIFIED":
	default:
		return ""
	}
	var text strings.Builder
	text.WriteString(" REQUIRE")
	for _, part := range []struct{ word, value string }{{" ISSUER ", r.issuer}, {" SUBJECT ", r.subject}, {" CIPHER ", r.cipher}} {
		if part.value != "" {
			text.WriteString(part.word + quote(part.value))
		}
	}
	return text.String()
}

func (l limits) sql() string {
	var text strings.Builder
	for _, part := range []struct {
		word  string
		value int64
	}{
		{" MAX_QUERIES_PER_HOUR ", l.questions},
		{" MAX_UPDATES_PER_HOUR ", l.updates},
		{" MAX_CONNECTIONS_PER_HOUR ", l.connections},
		{" MAX_USER_CONNECTIONS ", l.userConnections},
	} {
		if part.value != 0 {
			text.WriteString(part.word + strconv.FormatInt(part.value, 10))
		}
	}
	if l.statementTime != "" {
		text.WriteString(" MAX_STATEMENT_TIME " + l.statementTime)
	}
	if text.String() == "" {
		return ""
	}
	return " WITH" + text.String()
}

// Plugins of both vendors.
const (
	nativePassword = "mysql_native_password"
	cachingSHA2    = "caching_sha2_password"
	unixSocket     = "unix_socket" // of MariaDB
	authSocket     = "auth_socket" // of MySQL
)

// inTarget returns the definition of an account in the target, with notes about what is left out; or why there is none.
func (d *definition) inTarget(from, to *server) (there definition, notes []string, why string) {
	there = *d
	if d.role {
		return definition{role: true}, nil, ""
	}
	if from.vendor != to.vendor {
		if there.methods, why = otherMethods(d.methods, to); why != "" {
			return there, nil, why
		}
		notes = there.leaveOut()
	}
	for _, m := range there.methods {
		if !to.plugins[m.plugin] {
			return there, nil, fmt.Sprintf("it authenticates by %s, which the target has not; %s", m.plugin, byHand)
		}
	}
	return there, notes, ""
}

const byHand = "create the account in the target with a password, then run again with option grant-existing, or exclude it by option exclude-users"

// otherMethods translates how an account authenticates to a server of the other vendor.
func otherMethods(methods []method, to *server) (there []method, why string) {
	m := methods[0]
	refuse := func(name string) ([]method, string) {
		return nil, fmt.Sprintf("it authenticates by %s, which %v does not have in the same form; %s", name, to.vendor, byHand)
	}
	switch {
	case len(methods) > 1:
		return nil, "it has several ways to authenticate; " + byHand
	case m.auth == (secret{}) && (m.plugin == nativePassword || m.plugin == cachingSHA2): // no password
		if !to.plugins[nativePassword] {
			return []method{{plugin: cachingSHA2}}, ""
		}
		return []method{{plugin: nativePassword}}, ""
	case m.plugin == nativePassword && nativeHash(m.auth.text()) && to.plugins[nativePassword]:
		return methods, ""
	case m.plugin == unixSocket && m.auth == (secret{}):
		return []method{{plugin: authSocket}}, ""
	case m.plugin == authSocket && m.auth == (secret{}):
		return []method{{plugin: unixSocket}}, ""
	}
	return refuse(m.plugin)
}

// nativeHash reports whether a text is the hash of a password for mysql_native_password.
func nativeHash(s string) bool {
	return len(s) == 41 && s[0] == '*' && !strings.ContainsFunc(s[1:], func(r rune) bool { return !strings.ContainsRune("0123456789ABCDEFabcdef", r) })
}

// leaveOut removes what one vendor alone has.
func (d *definition) leaveOut() (notes []string) {
	for _, part := range []struct {
		name string
		set  bool
	}{
		{"PASSWORD HISTORY", d.history != ""},
		{"PASSWORD REUSE INTERVAL", d.reuse != ""},
		{"PASSWORD REQUIRE CURRENT", d.current != ""},
		{"FAILED_LOGIN_ATTEMPTS", d.failed != 0},
		{"PASSWORD_LOCK_TIME", d.lockDays != 0},
		{"comment or attribute", d.attribute != ""},
		{"MAX_STATEMENT_TIME", d.limits.statementTime != ""},
	} {
		if part.set {
			notes = append(notes, part.name)
		}
	}
	d.history, d.reuse, d.current, d.failed, d.lockDays, d.attribute, d.limits.statementTime = "", "", "", 0, 0, "", ""
	return notes
}
