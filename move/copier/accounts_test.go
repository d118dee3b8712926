package copier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/accounts"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// staffed are the objects that privileges are granted on.
var staffed = []string{
	"CREATE TABLE t (a INT PRIMARY KEY, `b b` INT, c INT)", "CREATE TABLE u (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1, 2, 3)", "CREATE VIEW v AS SELECT a FROM t",
	"CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE PROCEDURE p() SELECT 1", "CREATE PROCEDURE MixedCase() SELECT 1", "CREATE TABLE log_1 (a INT PRIMARY KEY)",
}

// staff are accounts of a schema staff_1 that both vendors create by these statements.
var staff = []string{
	`CREATE USER 'staff o''d"d` + "`" + `@ü\\'@'::1', ''@'staff.example', staff_open, staff_other, staff_definer`, "CREATE USER staff_x509 REQUIRE X509", "CREATE USER staff_never PASSWORD EXPIRE NEVER", "CREATE USER staff_expired PASSWORD EXPIRE",
	`CREATE USER 'staff_net'@'10.0.0.0/255.0.0.0' REQUIRE SUBJECT '/CN=a''b\\c' AND ISSUER '/CN=ca' AND CIPHER 'AES'`,
	"CREATE USER staff_limited REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 7 MAX_UPDATES_PER_HOUR 6 MAX_CONNECTIONS_PER_HOUR 5 MAX_USER_CONNECTIONS 4 PASSWORD EXPIRE INTERVAL 30 DAY",
	"CREATE ROLE `staff-reads`, staff_writes, staff_unused",
	"GRANT SELECT ON staff_1.* TO `staff-reads`", "GRANT `staff-reads` TO staff_writes", "GRANT staff_writes TO staff_app WITH ADMIN OPTION", "GRANT staff_unused TO staff_app",
	"GRANT INSERT, UPDATE ON staff_1.* TO staff_writes", "GRANT ALL ON staff_1.* TO staff_open", "GRANT ALL ON staff_1.* TO staff_x509 WITH GRANT OPTION",
	"GRANT PROCESS, RELOAD ON *.* TO staff_app", "GRANT ALL ON staff_other.* TO staff_app", "GRANT ALL ON `staff\\_2`.* TO staff_other",
	"GRANT SELECT ON `staff\\_1`.* TO staff_never WITH GRANT OPTION", "GRANT SELECT ON staff_1.t TO staff_expired, 'staff_net'@'10.0.0.0/255.0.0.0'",
	"GRANT SELECT (a, `b b`), INSERT (c), UPDATE ON staff_1.t TO staff_app", "GRANT ALL ON staff_1.u TO staff_app", "GRANT SELECT ON staff_1.log_1 TO staff_app",
	"GRANT EXECUTE ON FUNCTION staff_1.f TO staff_app", "GRANT ALTER ROUTINE ON PROCEDURE staff_1.p TO staff_app WITH GRANT OPTION",
	"GRANT SELECT, SHOW VIEW ON `staff%`.* TO 'staff o''d\"d`@ü\\\\'@'::1'", "GRANT SELECT ON staff_1.v TO ''@'staff.example'", "GRANT DROP ON staff_1.* TO staff_limited",
	"GRANT SELECT (a) ON staff_1.t TO staff_limited WITH GRANT OPTION",
	"GRANT EXECUTE ON PROCEDURE staff_1.mixedcase TO staff_other", "GRANT SELECT ON staff_1.v TO staff_definer",
	"CREATE USER staff_global, staff_proxy, 'staff_open'@'localhost'", "GRANT SELECT, PROCESS ON *.* TO staff_global",
	"INSERT INTO mysql.proxies_priv (User, Host, Proxied_user, Proxied_host, Grantor) VALUES ('staff_proxy', '%', 'staff_open', '%', '')", "FLUSH PRIVILEGES",
	// Servers check the privileges of the definer of each view that another one refers to.
	"CREATE DEFINER = staff_definer VIEW staff_1.on_v AS SELECT a FROM staff_1.v", "CREATE DEFINER = staff_open VIEW staff_1.above AS SELECT a FROM staff_1.on_v",
}

// A query queries over a connection.
type query struct{ c *mysqlconn.Client }

func (q query) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	_, err := q.c.Query(ctx, sql, each)
	return err
}

// dropAccounts drops the accounts and roles whose names start with a prefix.
func dropAccounts(t *testing.T, prefix string, clients ...*mysqlconn.Client) {
	t.Helper()
	for _, c := range clients {
		var drops []string
		sql := "SELECT CONCAT('DROP USER ', QUOTE(User), '@', QUOTE(Host)) FROM mysql.user WHERE User LIKE '" + prefix + "%' OR User = '' AND Host = '" + prefix + ".example'"
		if session.IsMariaDB(c.ServerVersion) {
			sql = "SELECT IF(is_role = 'Y', CONCAT('DROP ROLE `', User, '`'), CONCAT('DROP USER ', QUOTE(User), '@', QUOTE(Host))) FROM mysql.user WHERE User LIKE '" + prefix + "%' OR User = '' AND Host = '" + prefix + ".example'"
		}
		if err := (query{c}).Query(context.Background(), sql, func(row mysqlwire.TextRow) error {
			drops = append(drops, string(row[0]))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, drop := range drops {
			if _, err := c.Exec(context.Background(), drop); err != nil {
				t.Fatalf("%s: %v", drop, err)
			}
		}
	}
}

// staffPair prepares a source with the objects and accounts, and a target without.
func staffPair(t *testing.T, from, to *testmysql.Server, schema string, statements ...string) *pair {
	t.Helper()
	p := between(t, from, to, schema)
	prefix, _, _ := strings.Cut(schema, "_")
	dropAccounts(t, prefix, p.source, p.target)
	sqlExec(t, p.target, "SET GLOBAL local_infile = 1", "SET GLOBAL log_bin_trust_function_creators = 1")
	sqlExec(t, p.source, "SET GLOBAL log_bin_trust_function_creators = 1", "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CREATE DATABASE IF NOT EXISTS "+prefix+"_2", "CREATE DATABASE IF NOT EXISTS "+prefix+"x1", "USE "+schema)
	p.fill(t, slices.Concat(staffed, statements)...)
	t.Cleanup(func() { dropAccounts(t, prefix, connectAfter(t, root(from)), connectAfter(t, root(to))) })
	return p
}

// connectAfter connects during the cleanup of a test.
func connectAfter(t *testing.T, cfg mysqlconn.Config) *mysqlconn.Client {
	t.Helper()
	c, err := session.Connect(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// users asks for the accounts, without the table log_1.
func (p *pair) users(_ *copier.Options, sel *inventory.Selection) {
	sel.Users = true
	sel.Exclude = []inventory.Pattern{{Schema: p.schema, Name: "log_1"}}
}

// privilegesOn returns the privileges on a schema as information_schema and the table of routines show them.
func (p *pair) privilegesOn(t *testing.T, c *mysqlconn.Client) []string {
	t.Helper()
	schema := "'" + p.schema + "'"
	return read(t, c, "SELECT * FROM (SELECT GRANTEE, '' AS object, '' AS part, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.SCHEMA_PRIVILEGES WHERE REPLACE(TABLE_SCHEMA, '\\\\_', '_') = "+schema+
		" UNION ALL SELECT GRANTEE, TABLE_NAME, '', PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_NAME <> 'log_1' AND TABLE_SCHEMA = "+schema+
		" UNION ALL SELECT GRANTEE, TABLE_NAME, COLUMN_NAME, PRIVILEGE_TYPE, IS_GRANTABLE FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_SCHEMA = "+schema+
		" UNION ALL SELECT CONCAT('''', User, '''@''', Host, ''''), Routine_name, Routine_type, Proc_priv, '' FROM mysql.procs_priv WHERE Db = "+schema+") x WHERE GRANTEE LIKE '%crew%' ORDER BY 1, 2, 3, 4")
}

// grantsOf returns what the server shows about an account, without what is not carried.
func grantsOf(t *testing.T, c *mysqlconn.Client, account, schema string) (lines []string) {
	t.Helper()
	for _, line := range read(t, c, "SHOW GRANTS FOR "+account) {
		line = strings.ReplaceAll(line, `\\_`, "_")
		if strings.Contains(line, "`"+schema+"`.") && !strings.Contains(line, "`log_1`") || !strings.Contains(line, " ON ") && !strings.Contains(line, "staff_unused") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestUsers copies accounts between two servers of one vendor: they log in with their passwords, and have their privileges.
func TestUsers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of     func(*testing.T) (from, to *testmysql.Server)
		also   []string
		stored string // the authentication strings of a server
	}{
		{
			"MariaDB", func(t *testing.T) (from, to *testmysql.Server) { pair := servers.hold(t); return pair.from, pair.to },
			[]string{
				"CREATE USER staff_app IDENTIFIED BY 'secret' WITH MAX_STATEMENT_TIME 2.5", "CREATE USER staff_socket IDENTIFIED VIA unix_socket",
				"INSTALL SONAME 'auth_ed25519'", "CREATE USER staff_ed IDENTIFIED VIA ed25519 USING PASSWORD('ed''\\\\')", "GRANT SELECT ON staff_1.* TO staff_ed",
				"CREATE USER staff_either IDENTIFIED VIA mysql_native_password USING PASSWORD('x') OR unix_socket ACCOUNT LOCK", "GRANT SELECT ON staff_1.* TO staff_either, staff_socket",
			},
			"SELECT JSON_VALUE(Priv, '$.authentication_string') FROM mysql.global_priv WHERE User LIKE 'staff%' AND JSON_VALUE(Priv, '$.authentication_string') <> ''",
		},
		{
			"MySQL", func(t *testing.T) (from, to *testmysql.Server) { return servers.holdMySQL(t), secondMySQL(t) },
			[]string{
				"CREATE USER staff_app IDENTIFIED BY 'secret' PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 3 DAY PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED COMMENT 'it''s'",
				"CREATE ROLE staff_described", "ALTER USER staff_described COMMENT 'a role'", "GRANT SELECT ON staff_1.* TO staff_described",
				"CREATE USER staff_sha IDENTIFIED WITH sha256_password BY 'x' PASSWORD REQUIRE CURRENT ACCOUNT LOCK ATTRIBUTE '{\"a\": [1, \"\\\\u00fc\"]}'", "GRANT SELECT ON staff_1.* TO staff_sha",
			},
			"SELECT HEX(authentication_string) FROM mysql.user WHERE User LIKE 'staff%' AND authentication_string <> '' UNION ALL SELECT RIGHT(authentication_string, 43) FROM mysql.user WHERE User LIKE 'staff%' AND authentication_string <> ''",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testmysql.SkipIfOff(t)
			from, to := tt.of(t)
			if tt.name == "MariaDB" {
				sqlExec(t, connect(t, root(to)), "INSTALL SONAME 'auth_ed25519'")
			}
			p := staffPair(t, from, to, "staff_1", slices.Concat(tt.also, withPasswords(), staff)...)
			p.withModes(t)
			sqlExec(t, p.target, "CREATE USER 'staff_never'@'10.%'")
			roles := map[string]string{"MySQL": "SET DEFAULT ROLE staff_writes TO staff_app", "MariaDB": "SET DEFAULT ROLE staff_writes FOR staff_app"}
			sqlExec(t, p.source, roles[tt.name], "CREATE DEFINER = staff_app PROCEDURE staff_1.theirs() SELECT 1")
			hashes := read(t, p.source, tt.stored)
			var output bytes.Buffer
			o := p.schemaOptions(t, p.users)
			o.Observe = func(e telemetry.Event) { fmt.Fprintf(&output, "%+v\n", e) }
			o.Workers = 1
			report, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Accounts.Created < 12 || report.Accounts.Accounts > report.Accounts.Created+2 || report.Accounts.Granted == 0 {
				t.Errorf("%+v", report.Accounts)
			}
			p.sameAccounts(t, "staff")
			text, _ := json.Marshal([]any{report, o.Objects})
			output.Write(text)
			fmt.Fprintf(&output, "%+v %#v %v", o.Accounts, o.Accounts, o.Objects.Err())
			for _, table := range read(t, p.target, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_tare'") {
				output.WriteString(strings.Join(read(t, p.target, "SELECT * FROM _tare."+strings.Trim(table, `["]`)), "\n"))
			}
			for _, hash := range hashes {
				if hash = strings.Trim(hash, `["]`); len(hash) < 40 || strings.Contains(output.String(), hash) || strings.Contains(output.String(), strings.TrimPrefix(hash, "*")) {
					t.Errorf("the output has the authentication string %s", hash)
				}
			}
			for _, want := range []string{
				"PROCESS, RELOAD on *.*", "staff_unused", "staff_1.log_1", "staff%", "staff_other", "'root'@'%': left out: an administrator", "'staff_global'@'%': left out: it has SELECT on *.*",
				"'staff_proxy'@'%': left out: it may act as 'staff_open'@'%'", "'staff_open'@'localhost': left out: it has no privileges on the schemas, but its clients have those of 'staff_open'@'%'",
				"the target has 'staff_never'@'10.%', too, whose clients may get its privileges",
			} {
				if !strings.Contains(strings.Join(report.Accounts.Notes, "\n"), want) {
					t.Errorf("the report does not list %s: %q", want, report.Accounts.Notes)
				}
			}
			p.logsIn(t, "staff_app", "secret", "SELECT c FROM staff_1.t", "3")
			for i := range 20 {
				p.logsIn(t, fmt.Sprintf("staff_pw%d", i), fmt.Sprintf("pw%d'\\ü", i), "SELECT a FROM staff_1.above", "1")
			}
			if tt.name == "MariaDB" {
				p.logsIn(t, "staff_ed", `ed'\`, "SELECT b FROM (SELECT `b b` AS b FROM staff_1.t) x", "2")
			}
			o = p.schemaOptions(t, p.users)
			for _, obj := range o.Objects.Objects {
				if obj.Kind == inventory.Account && obj.Fate == inventory.Copied && !obj.Exists {
					t.Errorf("%s is not found to exist", obj)
				}
			}
			if report, err = copier.Run(t.Context(), o); err != nil || report.Accounts.Created != 0 || report.Accounts.Granted != 0 {
				t.Errorf("again: %+v, %v", report.Accounts, err)
			}
			p.keepsAccounts(t)
		})
	}
}

// withPasswords creates accounts whose authentication strings have random bytes, in MySQL.
func withPasswords() (all []string) {
	for i := range 20 {
		all = append(all, fmt.Sprintf("CREATE USER staff_pw%d IDENTIFIED BY 'pw%d''\\\\ü'", i, i), fmt.Sprintf("GRANT SELECT ON staff_1.* TO staff_pw%d", i))
	}
	return all
}

// withModes sets modes of SQL on both servers in which quotes have another meaning.
func (p *pair) withModes(t *testing.T) {
	t.Helper()
	for _, c := range []*mysqlconn.Client{p.source, p.target} {
		sqlExec(t, c, "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
	}
	t.Cleanup(func() {
		for _, server := range []*testmysql.Server{p.from, p.to} {
			if _, err := connectAfter(t, root(server)).Exec(context.Background(), "SET GLOBAL sql_mode = DEFAULT"); err != nil {
				t.Error(err)
			}
		}
	})
}

// logsIn fails unless an account of the target can log in and reads a value.
func (p *pair) logsIn(t *testing.T, user, password, sql, want string) {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: p.to.Addr, User: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got, err := session.QueryValue(t.Context(), c, sql); got != want || err != nil {
		t.Errorf("%s reads %q: %v", user, got, err)
	}
}

// sameAccounts fails unless the target has the accounts of the source that have privileges on the schema, with these privileges.
func (p *pair) sameAccounts(t *testing.T, prefix string) {
	t.Helper()
	if diff := cmp.Diff(p.privilegesOn(t, p.source), p.privilegesOn(t, p.target)); diff != "" && prefix != "staff" { // staff has a grant on a pattern
		t.Error(diff)
	}
	names := read(t, p.target, "SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.user WHERE User LIKE '"+prefix+"%' AND NOT (User = 'staff_never' AND Host <> '%')")
	if len(names) < 3 {
		t.Fatalf("the target has the accounts %s", names)
	}
	for _, name := range names {
		name = strings.ReplaceAll(name[2:len(name)-2], `\"`, `"`)
		name = strings.ReplaceAll(name, `\\`, `\`)
		isRole := strings.HasSuffix(name, "@''")
		if isRole {
			name = "`" + strings.Trim(strings.TrimSuffix(name, "@''"), "'") + "`"
		}
		if diff := cmp.Diff(sortedColumns(grantsOf(t, p.source, name, p.schema)), sortedColumns(grantsOf(t, p.target, name, p.schema))); diff != "" && !strings.Contains(name, "::1") {
			t.Errorf("%s: %s", name, diff)
		}
		if isRole {
			continue
		}
		if diff := cmp.Diff(read(t, p.source, "SHOW CREATE USER "+name), read(t, p.target, "SHOW CREATE USER "+name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// sortedColumns sorts the columns in grants, whose order in the servers is that of a hash table.
func sortedColumns(lines []string) (all []string) {
	for _, line := range lines {
		parts := strings.SplitAfter(line, "(")
		for i, part := range parts[1:] {
			inside, rest, _ := strings.Cut(part, ")")
			columns := strings.Split(strings.TrimSuffix(inside, "("), ", ")
			slices.Sort(columns)
			parts[i+1] = strings.Join(columns, ", ") + ")" + rest
		}
		all = append(all, strings.Join(parts, ""))
	}
	return all
}

// keepsAccounts alters accounts of the target: none of it is undone, and missing privileges are granted.
func (p *pair) keepsAccounts(t *testing.T) {
	t.Helper()
	sqlExec(t, p.target, "REVOKE ALL ON `staff\\_1`.* FROM staff_never", "REVOKE GRANT OPTION ON `staff\\_1`.* FROM staff_never", "GRANT INSERT, DELETE ON `staff%`.* TO staff_never",
		"ALTER USER staff_app IDENTIFIED BY 'other' WITH MAX_USER_CONNECTIONS 9", "REVOKE UPDATE ON staff_1.t FROM staff_app", "GRANT DELETE ON staff_1.t TO staff_app")
	o := p.options()
	sel := inventory.Selection{Schemas: []string{p.schema}}
	p.users(&o, &sel)
	if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "account 'staff_app'@'%': exists in the target with another definition (authentication, limits), and lacks privileges there: if both are the same user, grant them by option grant-existing") ||
		strings.Count(err.Error(), "account '") != 1 {
		t.Fatalf("%v", err)
	}
	o = p.schemaOptions(t, p.users, func(_ *copier.Options, sel *inventory.Selection) { sel.GrantExisting = []string{"staff_app@%"} })
	before := read(t, p.target, "SHOW CREATE USER staff_app")
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(report.Accounts.Notes, "\n")
	if report.Accounts.Granted != 2 || !strings.Contains(notes, "another definition (authentication, limits), which stays") || !strings.Contains(notes, "more privileges in the target, which stay: on staff_1.t") {
		t.Errorf("%+v", report.Accounts)
	}
	if diff := cmp.Diff(before, read(t, p.target, "SHOW CREATE USER staff_app")); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(grantsOf(t, p.target, "staff_app", "staff_1"), "\n"); !strings.Contains(got, "DELETE") || !strings.Contains(got, "UPDATE") {
		t.Error(got)
	}
	if got := strings.Join(grantsOf(t, p.target, "staff_never", "staff_1"), "\n"); !strings.Contains(got, "SELECT, INSERT, DELETE ON `staff_1`.*") { // the grant on a pattern has no effect any more
		t.Error(got)
	}
	p.sharesRole(t)
	o = p.schemaOptions(t, p.users)
	sqlExec(t, p.source, "GRANT INDEX ON staff_1.* TO staff_never")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "account 'staff_never'@'%' or its privileges were altered; run the same command again") {
		t.Errorf("after a change on the source: %v", err)
	}
}

// sharesRole has an account of the target hold a role: what the role lacks is not granted to that account silently.
func (p *pair) sharesRole(t *testing.T) {
	t.Helper()
	sqlExec(t, p.target, "CREATE USER local_user", "GRANT `staff-reads` TO local_user")
	defer sqlExec(t, p.target, "DROP USER local_user")
	p.schemaOptions(t, p.users) // it lacks nothing
	sqlExec(t, p.source, "GRANT SHOW VIEW ON staff_1.* TO `staff-reads`")
	defer sqlExec(t, p.source, "REVOKE SHOW VIEW ON staff_1.* FROM `staff-reads`")
	o := p.options()
	sel := inventory.Selection{Schemas: []string{p.schema}}
	p.users(&o, &sel)
	if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "exists in the target, where 'local_user'@'%' holds it and would get its privileges, too") {
		t.Fatalf("%v", err)
	}
	p.schemaOptions(t, p.users, func(_ *copier.Options, sel *inventory.Selection) { sel.GrantExisting = []string{"staff-reads"} })
}

// TestUsersAcross copies accounts to the other vendor.
func TestUsersAcross(t *testing.T) {
	testmysql.SkipIfOff(t)
	mysql, maria := servers.holdMySQL(t), servers.hold(t)
	t.Run("to MariaDB", func(t *testing.T) {
		p := staffPair(t, mysql, maria.to, "staff_1", append([]string{"CREATE USER staff_app PASSWORD HISTORY 5 COMMENT 'x'"}, append(slices.Clone(staff), "CREATE USER staff_sha IDENTIFIED BY 'x'",
			"GRANT SELECT ON staff_1.* TO staff_sha", "CREATE USER 'staff_cidr'@'10.1.0.0/16'", "GRANT SELECT ON staff_1.* TO 'staff_cidr'@'10.1.0.0/16'", "SET DEFAULT ROLE staff_writes TO staff_app")...)...)
		o := p.options()
		sel := inventory.Selection{Schemas: []string{"staff_1"}}
		p.users(&o, &sel)
		if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "account 'staff_sha'@'%': it authenticates by caching_sha2_password, which MariaDB does not have") ||
			!strings.Contains(err.Error(), "'staff_cidr'@'10.1.0.0/16': its host is an address with the length of a prefix") || strings.Count(err.Error(), "\n") != 2 {
			t.Fatalf("%v", err)
		}
		sqlExec(t, p.target, "CREATE USER staff_sha IDENTIFIED BY 'y'")
		for runs := range 2 {
			o = p.schemaOptions(t, p.users, func(_ *copier.Options, sel *inventory.Selection) {
				sel.GrantExisting, sel.ExcludeUsers = []string{"staff_sha"}, []string{"*@*/16"}
			})
			report, err := copier.Run(t.Context(), o)
			if err != nil || runs > 0 && (report.Accounts.Created > 0 || report.Accounts.Granted > 0) {
				t.Fatalf("%+v, %v", report, err)
			}
		}
		for account, want := range map[string][]string{
			"staff_sha":     {"[\"GRANT SELECT ON `staff_1`.* TO `staff_sha`@`%`\"]"},
			"staff_writes":  {"[\"GRANT INSERT, UPDATE ON `staff_1`.* TO `staff_writes`\"]", "[\"GRANT SELECT ON `staff_1`.* TO `staff-reads`\"]", "[\"GRANT `staff-reads` TO `staff_writes`\"]"},
			"staff_x509":    {"[\"GRANT ALL PRIVILEGES ON `staff_1`.* TO `staff_x509`@`%` WITH GRANT OPTION\"]"},
			"staff_limited": {"[\"GRANT DROP ON `staff_1`.* TO `staff_limited`@`%`\"]", "[\"GRANT SELECT (`a`) ON `staff_1`.`t` TO `staff_limited`@`%` WITH GRANT OPTION\"]"},
			"staff_app": {
				"[\"GRANT ALL PRIVILEGES ON `staff_1`.`u` TO `staff_app`@`%`\"]", "[\"GRANT ALTER ROUTINE ON PROCEDURE `staff_1`.`p` TO `staff_app`@`%` WITH GRANT OPTION\"]",
				"[\"GRANT EXECUTE ON FUNCTION `staff_1`.`f` TO `staff_app`@`%`\"]", "[\"GRANT SELECT (`a`, `b b`), INSERT (`c`), UPDATE ON `staff_1`.`t` TO `staff_app`@`%`\"]",
				"[\"GRANT `staff_writes` TO `staff_app`@`%` WITH ADMIN OPTION\"]", "[\"SET DEFAULT ROLE `staff_writes` FOR `staff_app`@`%`\"]",
			},
		} {
			if diff := cmp.Diff(want, grantsOf(t, p.target, account, "staff_1")); diff != "" {
				t.Errorf("%s: %s", account, diff)
			}
		}
		want := []string{"[\"CREATE USER `staff_limited`@`%` REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 7 MAX_UPDATES_PER_HOUR 6 MAX_CONNECTIONS_PER_HOUR 5 MAX_USER_CONNECTIONS 4 PASSWORD EXPIRE INTERVAL 30 DAY\"]"}
		if diff := cmp.Diff(want, read(t, p.target, "SHOW CREATE USER staff_limited")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("to MySQL", func(t *testing.T) {
		p := staffPair(t, maria.from, mysql, "staff_1", append([]string{"CREATE USER staff_app"}, append(slices.Clone(staff), "CREATE USER staff_native IDENTIFIED BY 'x'", "GRANT SELECT ON staff_1.* TO staff_native",
			"GRANT DELETE HISTORY, SELECT ON staff_1.t TO staff_open", "CREATE USER staff_ed IDENTIFIED VIA unix_socket", "GRANT SELECT ON staff_1.* TO staff_ed", "SET DEFAULT ROLE staff_writes FOR staff_app")...)...)
		exclude := func(o *copier.Options, sel *inventory.Selection) {
			p.users(o, sel)
			sel.ExcludeUsers = []string{"staff_ed@%", "root", "staff_nativ?"}
		}
		o := p.options()
		sel := inventory.Selection{Schemas: []string{"staff_1"}}
		p.users(&o, &sel)
		_, err := copier.Resolve(t.Context(), &o, sel)
		for _, want := range []string{"'staff_native'@'%': it authenticates by mysql_native_password, which MySQL does not have", "auth_socket, which the target has not"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %s", err, want)
			}
		}
		o = p.schemaOptions(t, exclude)
		report, err := copier.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(report.Accounts.Notes, "\n"), "since the target does not have them: DELETE HISTORY") {
			t.Errorf("%q", report.Accounts.Notes)
		}
		for account, want := range map[string][]string{
			"staff_writes": {"[\"GRANT INSERT, UPDATE ON `staff_1`.* TO `staff_writes`@`%`\"]", "[\"GRANT `staff-reads`@`%` TO `staff_writes`@`%`\"]"},
			"staff_open":   {"[\"GRANT ALL PRIVILEGES ON `staff_1`.* TO `staff_open`@`%`\"]", "[\"GRANT SELECT ON `staff_1`.`t` TO `staff_open`@`%`\"]"},
			"staff_app": {
				"[\"GRANT ALL PRIVILEGES ON `staff_1`.`u` TO `staff_app`@`%`\"]", "[\"GRANT ALTER ROUTINE ON PROCEDURE `staff_1`.`p` TO `staff_app`@`%` WITH GRANT OPTION\"]",
				"[\"GRANT EXECUTE ON FUNCTION `staff_1`.`f` TO `staff_app`@`%`\"]", "[\"GRANT SELECT (`a`, `b b`), INSERT (`c`), UPDATE ON `staff_1`.`t` TO `staff_app`@`%`\"]",
				"[\"GRANT `staff_writes`@`%` TO `staff_app`@`%` WITH ADMIN OPTION\"]",
			},
		} {
			if diff := cmp.Diff(want, grantsOf(t, p.target, account, "staff_1")); diff != "" {
				t.Errorf("%s: %s", account, diff)
			}
		}
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: mysql.Addr, User: "staff_app"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), "SELECT * FROM staff_1.v"); err != nil { // by its default role
			t.Error(err)
		}
		_ = c.Close()
	})
}

// TestUsersSettings copies accounts between servers of MySQL whose settings give the same statements another meaning.
func TestUsersSettings(t *testing.T) {
	testmysql.SkipIfOff(t)
	first, second := servers.holdMySQL(t), secondMySQL(t)
	p := staffPair(t, first, second, "staff_1", "CREATE ROLE staff_all", "CREATE USER staff_user IDENTIFIED BY 'x'", "GRANT SELECT ON staff_1.* TO staff_all", "GRANT staff_all TO staff_user")
	t.Cleanup(func() {
		if _, err := connectAfter(t, root(first)).Exec(context.Background(), "SET GLOBAL mandatory_roles = '', GLOBAL activate_all_roles_on_login = OFF"); err != nil {
			t.Error(err)
		}
	})
	sqlExec(t, p.source, "SET GLOBAL mandatory_roles = 'staff_none,`staff_all`@`%`', GLOBAL activate_all_roles_on_login = ON")
	sqlExec(t, p.target, "SET GLOBAL partial_revokes = ON")
	report, err := copier.Run(t.Context(), p.schemaOptions(t, p.users))
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(report.Accounts.Notes, "\n")
	for _, want := range []string{"'staff_all'@'%': its grant on the pattern staff_1, which matches other schemas, too, is made on staff_1 alone; every account of the source has it by mandatory_roles", "activates all of its roles at login"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
	if got := strings.Join(read(t, p.target, "SHOW GRANTS FOR staff_all"), "\n"); !strings.Contains(got, "GRANT SELECT ON `staff_1`.*") {
		t.Error(got)
	}
	sqlExec(t, p.target, "SET GLOBAL activate_all_roles_on_login = ON")
	p.logsIn(t, "staff_user", "x", "SELECT c FROM staff_1.t", "3")
}

// TestUsersRandom copies random privileges, in runs that end at random statements, and compares what information_schema shows.
func TestUsersRandom(t *testing.T) {
	p := newPair(t, "crew_1")
	p = staffPair(t, p.from, p.to, "crew_1")
	rnd := testseed.Rand(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		dropAccounts(t, "crew", p.source, p.target)
		for _, sql := range randomGrants(rnd) {
			if _, err := p.source.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		o := p.schemaOptions(t, func(_ *copier.Options, sel *inventory.Selection) { sel.Kinds = nil })
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		sel := &inventory.Selection{Schemas: []string{"crew_1"}, Users: true, ExcludeUsers: []string{"root"}}
		stopped := errors.New("stopped")
		for runs, done := 0, false; !done; runs++ {
			plan, err := accounts.New(t.Context(), query{p.source}, p.target, o.Objects, sel)
			if err != nil {
				t.Fatal(err)
			}
			left := rnd.IntN(8) + runs
			c := &accounts.Creator{Conn: p.target, Created: func(string) {}, Check: func(context.Context) error {
				if left--; left < 0 {
					return stopped
				}
				return nil
			}}
			err = plan.Create(t.Context(), c)
			for _, obj := range o.Objects.Objects {
				if err == nil {
					err = plan.Grant(t.Context(), c, obj)
				}
			}
			if err == nil {
				_, err = plan.Report(t.Context(), p.target)
			}
			if done = err == nil; err != nil && !errors.Is(err, stopped) {
				t.Fatal(err)
			}
		}
		p.sameAccounts(t, "crew")
	}
}

// randomGrants creates accounts and roles, and grants privileges on a schema.
func randomGrants(rnd *rand.Rand) (all []string) {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	names := []string{"crew_a", "'crew_a'@'10.%'", "'crew''b'", "crew_r1", "crew_r2", "crew_r3"}
	all = append(all, "CREATE USER crew_a IDENTIFIED BY 'a', 'crew_a'@'10.%', 'crew''b' IDENTIFIED BY 'b'", "CREATE ROLE crew_r1, crew_r2, crew_r3")
	on := func(levels []string, privileges ...string) {
		var chosen []string
		for _, name := range privileges {
			if rnd.IntN(2) == 0 {
				chosen = append(chosen, name)
			}
		}
		if len(chosen) == 0 {
			chosen = privileges[:1]
		}
		all = append(all, "GRANT "+strings.Join(chosen, ", ")+" ON "+pick(levels...)+" TO "+pick(names...)+pick("", "", " WITH GRANT OPTION"))
	}
	for range 4 + rnd.IntN(30) {
		switch rnd.IntN(5) {
		case 0:
			on([]string{"`crew\\_1`.*"}, "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE TEMPORARY TABLES", "LOCK TABLES", "EVENT", "TRIGGER", "CREATE ROUTINE", "EXECUTE", "DELETE HISTORY")
		case 1:
			on([]string{"crew_1.t", "crew_1.u", "crew_1.v"}, "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE VIEW", "SHOW VIEW", "REFERENCES", "INDEX", "ALTER", "DROP", "DELETE HISTORY")
		case 2:
			on([]string{"crew_1.t"}, "SELECT (a)", "INSERT (`b b`)", "UPDATE (c, a)", "REFERENCES (c)")
		case 3:
			on([]string{"FUNCTION crew_1.f", "PROCEDURE crew_1.p"}, "EXECUTE", "ALTER ROUTINE")
		case 4:
			r := rnd.IntN(3) + 1
			all = append(all, fmt.Sprintf("GRANT crew_r%d TO %s%s", r, pick(names[:3+r-1]...), pick("", " WITH ADMIN OPTION")))
		}
	}
	return append(all, "GRANT SELECT ON `crew\\_1`.* TO crew_a, crew_r1, crew_r2, crew_r3")
}

// TestUsersLacking refuses accounts that lack privileges, and says which.
func TestUsersLacking(t *testing.T) {
	p := newPair(t, "lacks_1")
	p = staffPair(t, p.from, p.to, "lacks_1", "CREATE USER lacks_reader IDENTIFIED BY 'x'", "GRANT ALL ON *.* TO lacks_reader", "REVOKE ALL ON *.* FROM lacks_reader", "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON lacks_1.* TO lacks_reader",
		"GRANT SELECT ON mysql.proc TO lacks_reader")
	sqlExec(t, p.target, "CREATE USER lacks_writer IDENTIFIED BY 'x'", "GRANT ALL ON lacks_1.* TO lacks_writer", "GRANT ALL ON _tare.* TO lacks_writer", "GRANT SELECT ON mysql.* TO lacks_writer")
	as := func(cfg mysqlconn.Config, user string) mysqlconn.Config {
		cfg.User, cfg.Password = user, "x"
		return cfg
	}
	sel := inventory.Selection{Schemas: []string{"lacks_1"}, Users: true, ExcludeUsers: []string{"app"}}
	o := p.options()
	o.From = copier.FromServer(as(root(p.from), "lacks_reader"))
	if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "GRANT SELECT ON mysql.* to it") {
		t.Errorf("%v", err)
	}
	o = p.options()
	o.To = as(root(p.to), "lacks_writer")
	if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "it lacks CREATE USER ON *.*; EVENT, SELECT, SHOW VIEW, TRIGGER ON `lacks_1`.* WITH GRANT OPTION") {
		t.Errorf("%v", err)
	}
	sel.ExcludeUsers = []string{"nobody*"}
	o = p.options()
	if _, err := copier.Resolve(t.Context(), &o, sel); err == nil || !strings.Contains(err.Error(), "option exclude-users nobody* matches no account") {
		t.Errorf("%v", err)
	}
}
