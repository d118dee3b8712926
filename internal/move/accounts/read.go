package accounts

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A server is the accounts and privileges of a server, as the tables of its schema mysql have them.
type server struct {
	vendor   dialect.Vendor
	literal  bool // names of schemas in grants are no patterns
	accounts map[Name]*account
	held     map[Name]map[Name]bool // by holder: roles, and whether with the admin option
	grants   map[Name]map[level]privileges
	proxies  map[Name][]Name               // by the accounts that may act as others
	all      map[inventory.Kind]privileges // those that exist, besides the grant option
	global   map[string][]string           // by the text of the grantee
	plugins  map[string]bool               // that authenticate
	schemas  []string
	me       Name // the account of the connection

	mandatory   map[Name]bool // roles that every account of MySQL has
	activateAll bool          // roles are active without being default roles
}

// A level is what privileges were granted on.
type level struct {
	kind   inventory.Kind // Schema, Table, Function, Procedure, or another
	schema string         // of the kind Schema: a pattern, as it was granted
	name   string         // of a routine: in lower case, since its case has no meaning
	column string         // of a table; empty: all
}

// privileges are names of privileges, one of which may be grantOption.
type privileges map[string]bool

const grantOption = "GRANT OPTION"

// known are the privileges on schemas and their objects.
var known = []string{
	"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "INDEX", "ALTER", "CREATE TEMPORARY TABLES", "LOCK TABLES", "CREATE VIEW", "SHOW VIEW",
	"CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE", "EVENT", "TRIGGER", "DELETE HISTORY", "SHOW CREATE ROUTINE", grantOption,
}

// privilege returns the name of a privilege by that of its column or member of a set in the schema mysql.
func privilege(text string) string {
	name := strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(text, "_priv"), "_", " "))
	switch name {
	case "GRANT":
		return grantOption
	case "CREATE TMP TABLE":
		return "CREATE TEMPORARY TABLES"
	case "DELETE VERSIONING ROWS":
		return "DELETE HISTORY"
	}
	return name
}

// readServer reads the accounts and privileges of a server. It needs SELECT on its schema mysql.
func readServer(ctx context.Context, q session.Querier) (*server, error) {
	s := &server{
		accounts: make(map[Name]*account), held: make(map[Name]map[Name]bool), grants: make(map[Name]map[level]privileges), proxies: make(map[Name][]Name), mandatory: make(map[Name]bool),
		all: make(map[inventory.Kind]privileges), global: make(map[string][]string), plugins: make(map[string]bool),
	}
	r := &tables{ctx: ctx, q: q, server: s}
	var err error
	if s.vendor, err = inventory.VendorOf(ctx, q); err != nil {
		return nil, err
	}
	if s.vendor == dialect.MySQL {
		r.readMySQL()
	} else {
		r.readMariaDB()
	}
	r.readGrants()
	var refused *mysqlconn.ServerError
	switch {
	case errors.As(r.err, &refused) && session.Denied(refused.Number):
		return nil, fmt.Errorf("the account may not read the accounts: GRANT SELECT ON mysql.* to it: %w", r.err)
	case refused != nil && slices.Contains([]mysqlwire.Errno{errNoSuchTable, errNoSuchColumn, errNoSuchVariable}, refused.Number):
		return nil, fmt.Errorf("accounts are copied from and to MySQL from 8.0.17 on and MariaDB from 10.4 on: %w", r.err)
	}
	return s, r.err
}

// Errors of servers without a part of the schema mysql.
const (
	errNoSuchColumn   = 1054
	errNoSuchTable    = 1146
	errNoSuchVariable = 1193
)

// parseName returns the name in a text such as CURRENT_USER(). Quotes are removed, and the host is % if there is none.
func parseName(text string) Name {
	text = strings.NewReplacer("`", "", "'", "", `"`, "").Replace(strings.TrimSpace(text))
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return Name{text[:at], text[at+1:]}
	}
	return Name{text, "%"}
}

// tables reads tables of the schema mysql, until the first error.
type tables struct {
	ctx    context.Context //nolint:containedctx // of one call
	q      session.Querier
	server *server
	err    error
}

func (r *tables) query(sql string, each func(row []string)) {
	if r.err != nil {
		return
	}
	err := r.q.Query(r.ctx, sql, func(row mysqlwire.TextRow) error {
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = string(row[i])
		}
		each(texts)
		return nil
	})
	if err != nil {
		r.err = fmt.Errorf("read accounts and privileges: %w", err)
	}
}

func (r *tables) readMySQL() {
	s := r.server
	r.query("SELECT @@partial_revokes, @@activate_all_roles_on_login, @@mandatory_roles", func(row []string) {
		s.literal, s.activateAll = row[0] == "1", row[1] == "1"
		for role := range strings.SplitSeq(row[2], ",") {
			s.mandatory[parseName(role)] = true
		}
	})
	r.query("SELECT User, Host, plugin, HEX(authentication_string), ssl_type, x509_issuer, x509_subject, ssl_cipher, max_questions, max_updates, max_connections, max_user_connections,"+
		" password_expired, password_lifetime, account_locked, Password_reuse_history, Password_reuse_time, Password_require_current, User_attributes FROM mysql.user", func(row []string) {
		a := &account{}
		auth, _ := hex.DecodeString(row[3])
		a.methods = []method{{plugin: row[2], auth: newSecret(string(auth))}}
		a.require = require{row[4], row[5], row[6], row[7]}
		for i, n := range []*int64{&a.limits.questions, &a.limits.updates, &a.limits.connections, &a.limits.userConnections} {
			*n, _ = strconv.ParseInt(row[8+i], 10, 64)
		}
		a.expired, a.lifetime, a.locked = row[12] == "Y", row[13], row[14] == "Y"
		a.history, a.reuse, a.current = row[15], row[16], row[17]
		for _, number := range []string{a.lifetime, a.history, a.reuse} { // which become parts of a statement
			if strings.Trim(number, "0123456789") != "" {
				a.problems = append(a.problems, "its rules for passwords in mysql.user are not understood")
			}
		}
		a.attributes(row[18])
		a.role = row[1] == "%" && len(auth) == 0 && a.terms == terms{expired: true, locked: true}
		s.accounts[Name{row[0], row[1]}] = a
	})
	r.query("SELECT TO_USER, TO_HOST, FROM_USER, FROM_HOST, WITH_ADMIN_OPTION FROM mysql.role_edges", func(row []string) {
		s.hold(Name{row[0], row[1]}, Name{row[2], row[3]}, row[4] == "Y")
	})
	r.query("SELECT USER, HOST, DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST FROM mysql.default_roles ORDER BY 3, 4", func(row []string) {
		if a := s.accounts[Name{row[0], row[1]}]; a != nil {
			a.defaults = append(a.defaults, Name{row[2], row[3]})
		}
	})
}

// attributes reads MySQL's column of that name, JSON.
func (a *account) attributes(text string) {
	if text == "" {
		return
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &parts) != nil {
		a.problems = append(a.problems, "its User_attributes in mysql.user are not understood")
	}
	for name, value := range parts {
		switch name {
		case "metadata":
			a.attribute = string(value)
		case "Restrictions": // of global privileges, which are not carried
		case "Password_locking":
			var lock struct {
				Failed int `json:"failed_login_attempts"`
				Days   int `json:"password_lock_time_days"`
			}
			if json.Unmarshal(value, &lock) != nil {
				a.problems = append(a.problems, "its Password_locking in mysql.user is not understood")
			}
			a.failed, a.lockDays = lock.Failed, lock.Days
		case "additional_password":
			a.problems = append(a.problems, "it has a second password, which cannot be copied: ALTER USER … DISCARD OLD PASSWORD on the source, or exclude it by option exclude-users")
		default:
			a.problems = append(a.problems, fmt.Sprintf("its attribute %q in mysql.user is not understood; exclude it by option exclude-users", name))
		}
	}
	slices.Sort(a.problems)
}

// mariadbAccount is the JSON of mysql.global_priv.
type mariadbAccount struct {
	Access          json.Number     `json:"access"`
	Version         json.Number     `json:"version_id"`
	Plugin          string          `json:"plugin"`
	Auth            secret          `json:"authentication_string"`
	Alternatives    []mariadbMethod `json:"auth_or"`
	SSL             int             `json:"ssl_type"`
	Cipher          string          `json:"ssl_cipher"`
	Issuer          string          `json:"x509_issuer"`
	Subject         string          `json:"x509_subject"`
	Questions       int64           `json:"max_questions"`
	Updates         int64           `json:"max_updates"`
	Connections     int64           `json:"max_connections"`
	UserConnections int64           `json:"max_user_connections"`
	StatementTime   json.Number     `json:"max_statement_time"`
	Locked          bool            `json:"account_locked"`
	Changed         *int64          `json:"password_last_changed"`
	Lifetime        *int64          `json:"password_lifetime"`
	DefaultRole     string          `json:"default_role"`
	Role            bool            `json:"is_role"`
}

type mariadbMethod struct {
	Plugin string `json:"plugin"`
	Auth   secret `json:"authentication_string"`
}

// UnmarshalText keeps a secret that is read.
func (s *secret) UnmarshalText(text []byte) error {
	*s = newSecret(string(text))
	return nil
}

func (r *tables) readMariaDB() {
	s := r.server
	r.query("SELECT User, Host, Priv FROM mysql.global_priv", func(row []string) {
		s.accounts[Name{row[0], row[1]}] = mariadbDefinition(row[2])
	})
	r.query("SELECT User, Host, Role, Admin_option FROM mysql.roles_mapping", func(row []string) {
		s.hold(Name{row[0], row[1]}, Name{row[2], ""}, row[3] == "Y")
	})
	// information_schema.USER_PRIVILEGES does not have the privileges of roles on all schemas.
	columns := r.privilegeColumns("user")
	r.query("SELECT User, "+session.Idents(columns)+" FROM mysql.user WHERE is_role = 'Y'", func(row []string) {
		for i, value := range row[1:] {
			if name := privilege(columns[i]); value == "Y" && name != grantOption && slices.Contains(known, name) {
				s.global["'"+row[0]+"'@''"] = append(s.global["'"+row[0]+"'@''"], name)
			}
		}
	})
}

// privilegeColumns returns the columns of a table of the schema mysql that are privileges.
func (r *tables) privilegeColumns(table string) (columns []string) {
	r.query("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = '"+table+"' AND COLUMN_NAME LIKE '%\\_priv' ORDER BY ORDINAL_POSITION",
		func(row []string) { columns = append(columns, row[0]) })
	return columns
}

func mariadbDefinition(text string) *account {
	a := &account{}
	var j mariadbAccount
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		a.problems = append(a.problems, "its row in mysql.global_priv is not understood")
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			a.problems = []string{"its row in mysql.global_priv has " + name + ", which is not understood"}
		}
		return a
	}
	a.role = j.Role
	if n, err := j.Access.Float64(); err == nil && n != 0 {
		a.global = true
	}
	if j.DefaultRole != "" {
		a.defaults = []Name{{j.DefaultRole, ""}}
	}
	if j.Alternatives == nil {
		j.Alternatives = []mariadbMethod{{}}
	}
	for _, m := range j.Alternatives {
		if m == (mariadbMethod{}) {
			m = mariadbMethod{j.Plugin, j.Auth}
		}
		if m.Plugin == "" {
			m.Plugin = nativePassword
		}
		a.methods = append(a.methods, method{m.Plugin, m.Auth})
	}
	if j.SSL < 0 || j.SSL > 3 {
		a.problems = append(a.problems, "its ssl_type in mysql.global_priv is not understood")
		return a
	}
	a.require = require{[]string{"", "ANY", "X509", "SPECIFIED"}[j.SSL], j.Issuer, j.Subject, j.Cipher}
	a.limits = limits{j.Questions, j.Updates, j.Connections, j.UserConnections, string(j.StatementTime)}
	if n, err := j.StatementTime.Float64(); err == nil && n == 0 {
		a.limits.statementTime = ""
	}
	a.locked, a.expired = j.Locked, j.Changed != nil && *j.Changed == 0
	if j.Lifetime != nil && *j.Lifetime >= 0 {
		a.lifetime = strconv.FormatInt(*j.Lifetime, 10)
	}
	return a
}

func (s *server) hold(holder, role Name, admin bool) {
	if s.held[holder] == nil {
		s.held[holder] = make(map[Name]bool)
	}
	s.held[holder][role] = admin
}

// grant records privileges.
func (s *server) grant(a Name, l level, names []string) {
	for _, name := range names {
		if s.grants[a] == nil {
			s.grants[a] = make(map[level]privileges)
		}
		if s.grants[a][l] == nil {
			s.grants[a][l] = make(privileges)
		}
		if name != "" {
			s.grants[a][l][privilege(name)] = true
		}
	}
}

// readGrants reads the privileges, which both vendors store alike.
func (r *tables) readGrants() {
	s := r.server
	r.query("SELECT PLUGIN_NAME FROM information_schema.PLUGINS WHERE PLUGIN_TYPE = 'AUTHENTICATION' AND PLUGIN_STATUS = 'ACTIVE'", func(row []string) { s.plugins[row[0]] = true })
	r.query("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA", func(row []string) { s.schemas = append(s.schemas, row[0]) })
	r.query("SELECT GRANTEE, PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE <> 'USAGE' ORDER BY 1, 2", func(row []string) {
		s.global[row[0]] = append(s.global[row[0]], row[1])
	})
	r.query("SELECT CURRENT_USER()", func(row []string) {
		at := max(strings.LastIndexByte(row[0], '@'), 0)
		s.me = Name{row[0][:at], strings.TrimPrefix(row[0][at:], "@")}
	})
	r.query("SELECT User, Host, Proxied_user, Proxied_host FROM mysql.proxies_priv WHERE Proxied_user <> '' ORDER BY 3, 4", func(row []string) {
		n := Name{row[0], row[1]}
		s.proxies[n] = append(s.proxies[n], Name{row[2], row[3]})
	})
	columns := r.privilegeColumns("db")
	s.all[inventory.Schema] = set(columns)
	r.query("SELECT User, Host, Db, "+session.Idents(columns)+" FROM mysql.db", func(row []string) {
		var names []string
		for i, value := range row[3:] {
			if value == "Y" {
				names = append(names, columns[i])
			}
		}
		s.grant(Name{row[0], row[1]}, level{kind: inventory.Schema, schema: row[2]}, names)
	})
	for _, of := range []struct {
		table string
		kind  inventory.Kind
	}{{"tables_priv' AND COLUMN_NAME = 'Table_priv", inventory.Table}, {"procs_priv' AND COLUMN_NAME = 'Proc_priv", inventory.Function}} {
		r.query("SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = '"+of.table+"'", func(row []string) {
			members := strings.TrimSuffix(strings.TrimPrefix(row[0], "set("), ")")
			s.all[of.kind] = set(strings.Split(strings.ReplaceAll(members, "'", ""), ","))
		})
	}
	s.all[inventory.Procedure] = s.all[inventory.Function]
	r.query("SELECT User, Host, Db, Table_name, Table_priv FROM mysql.tables_priv", func(row []string) {
		s.grant(Name{row[0], row[1]}, level{kind: inventory.Table, schema: row[2], name: row[3]}, strings.Split(row[4], ","))
	})
	r.query("SELECT User, Host, Db, Table_name, Column_name, Column_priv FROM mysql.columns_priv", func(row []string) {
		s.grant(Name{row[0], row[1]}, level{inventory.Table, row[2], row[3], row[4]}, strings.Split(row[5], ","))
	})
	r.query("SELECT User, Host, Db, Routine_name, Routine_type, Proc_priv FROM mysql.procs_priv", func(row []string) {
		kind := inventory.Kind(strings.ToLower(row[4]))
		s.grant(Name{row[0], row[1]}, level{kind: kind, schema: row[2], name: strings.ToLower(row[3])}, strings.Split(row[5], ","))
	})
}

// set returns the privileges besides the grant option.
func set(names []string) privileges {
	all := make(privileges)
	for _, name := range names {
		if p := privilege(name); p != grantOption {
			all[p] = true
		}
	}
	return all
}
