package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// sourceSQL creates accounts with each kind of statement in a plan.
var sourceSQL = []string{
	"CREATE ROLE r1", "CREATE USER u, w", "GRANT SELECT ON `shop\\_1`.* TO r1", "GRANT r1 TO u", "SET DEFAULT ROLE r1 FOR u",
	"GRANT SELECT ON shop_1.t TO w", "GRANT SELECT ON shop_1.v TO w", "GRANT EXECUTE ON FUNCTION shop_1.f TO w",
}

var shop = &inventory.Selection{Schemas: []string{"shop_1"}, Users: true}

// TestFails has the target fail to execute each statement in turn: planning and creating fail with the cause, and the same commands again complete.
func TestFails(t *testing.T) {
	s := newSide(t, testmysql.Shared(t).Server)
	s.set(sourceSQL)
	source := s.record()
	t.Run("New", func(t *testing.T) {
		s.proxy.EachFails(t, func() error {
			_, err := New(t.Context(), querier{s.to}, s.to, objects(), shop)
			return err
		})
	})
	t.Run("Changed", func(t *testing.T) {
		p := must(New(t.Context(), source, s.to, objects(), shop))
		s.proxy.EachFails(t, func() error {
			_, err := p.Changed(t.Context(), querier{s.to})
			return err
		})
	})
	t.Run("Create", func(t *testing.T) {
		s.set(nil)
		p := must(New(t.Context(), source, s.c, objects(), shop))
		s.proxy.EachFails(t, func() error {
			_, _, err := p.createAll(t.Context(), s.to, func() {})
			if len(s.statements()) == 0 {
				return err
			}
			defer s.set(nil)
			if err == nil {
				return nil
			}
			again := must(New(t.Context(), source, s.c, objects(), shop))
			if _, r, err := again.createAll(t.Context(), s.c, func() {}); err != nil || r.Accounts != 3 {
				t.Errorf("again: %+v, %v", r, err)
			}
			return err
		}, "CREATE USER", // whose messages are withheld
			"SELECT User", "SELECT GRANTEE", "SELECT PLUGIN", "SELECT SCHEMA_NAME", "SELECT COLUMN", "SELECT CURRENT_USER") // of New, too
	})
	t.Run("CREATE USER", func(t *testing.T) {
		s.set(nil)
		p := must(New(t.Context(), source, s.c, objects(), shop))
		s.proxy.SetAt(func(sql string) bool { return strings.HasPrefix(sql, "CREATE USER `w`") }, testproxy.Failed)
		_, _, err := p.createAll(t.Context(), s.to, func() {})
		if all := s.statements(); err == nil || !strings.Contains(err.Error(), "create account 'w'@'%' and its privileges in the target: ") || !strings.Contains(err.Error(), "withheld") || len(all) != 3 {
			t.Errorf("%v after %q", err, all)
		}
	})
}

// TestChecks has the right to write end before each statement in turn: none is executed afterwards.
func TestChecks(t *testing.T) {
	s := newSide(t, testmysql.Shared(t).Server)
	s.set(sourceSQL)
	source := s.record()
	run := func(left int) ([]string, error) {
		s.set(nil)
		p := must(New(t.Context(), source, s.c, objects(), shop))
		s.proxy.Set(0, "")
		err := p.createObjects(t.Context(), &Creator{Conn: s.to, Created: func(string) {}, Check: func(context.Context) error {
			if left--; left < 0 {
				return errLost
			}
			return nil
		}})
		return s.statements(), err
	}
	all, err := run(100)
	if err != nil || len(all) != 9 {
		t.Fatalf("%q, %v", all, err)
	}
	for n := range all {
		if got, err := run(n); !errors.Is(err, errLost) || !slices.Equal(got, all[:n]) {
			t.Errorf("after %d: %q, %v", n, got, err)
		}
	}
}

var errLost = errors.New("the lock is lost")

// TestChanged alters the accounts of the source after they were planned.
func TestChanged(t *testing.T) {
	s := newSide(t, testmysql.Shared(t).Server)
	const u = "account 'u'@'%' or its privileges were altered"
	for _, tt := range []struct{ sql, want string }{
		{"DO 1", ""},
		{"GRANT INSERT ON shop_1.t TO w", "account 'w'@'%' or its privileges were altered"},
		{"GRANT SELECT ON shop_1.log TO w", "account 'w'@'%' or its privileges were altered"}, // whose object is not copied
		{"REVOKE EXECUTE ON FUNCTION shop_1.f FROM w", "account 'w'@'%' or its privileges were altered"},
		{"GRANT INSERT ON store.* TO w", ""},
		{"GRANT PROCESS ON *.* TO w", ""},
		{"ALTER USER u ACCOUNT LOCK", u},
		{"ALTER USER u IDENTIFIED BY 'other'", u},
		{"SET DEFAULT ROLE NONE FOR u", u},
		{"GRANT r1 TO u WITH ADMIN OPTION", u},
		{"REVOKE r1 FROM u", "account 'u'@'%' was dropped, or lost its privileges"},
		{"DROP USER w", "account 'w'@'%' was dropped, or lost its privileges"},
		{"REVOKE SELECT ON `shop\\_1`.* FROM r1", "account 'r1' was dropped, or lost its privileges account 'u'@'%' was dropped, or lost its privileges"},
		{"GRANT r1 TO x", "account 'x'@'%' was created, or got its first privilege"},
		{"GRANT SELECT ON shop_1.t TO x", "account 'x'@'%' was created, or got its first privilege"},
		{"GRANT SELECT ON `shop%`.* TO x", "account 'x'@'%' was created, or got its first privilege"},
		{"GRANT SELECT ON store.* TO x", ""},
		{"CREATE USER y", ""},
	} {
		s.set(append([]string{"CREATE USER x"}, sourceSQL...))
		p := must(New(t.Context(), s.record(), s.c, objects(), shop))
		testrows.Exec(t, s.c, tt.sql)
		if changed, err := p.Changed(t.Context(), querier{s.c}); err != nil || strings.Join(changed, " ") != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.sql, changed, err, tt.want)
		}
	}
}

// TestSecrets formats what has authentication strings, and errors of statements that have.
func TestSecrets(t *testing.T) {
	a := account{definition: definition{methods: []method{{"mysql_native_password", newSecret("*AC24")}}}}
	one, err := json.Marshal(map[string]any{"auth": a.methods[0].auth})
	for text, placeholder := range map[string]bool{
		fmt.Sprint(a): false, fmt.Sprintf("%+v", a): false, fmt.Sprintf("%#v", a): false, fmt.Sprintf("%q", a.methods[0].auth): true, fmt.Sprintf("%#v", a.methods[0].auth): true, string(one): true,
	} {
		if err != nil || strings.Contains(text, "AC24") || placeholder && !strings.Contains(text, hidden) {
			t.Errorf("%s, %v", text, err)
		}
	}
	for number, shown := range map[mysqlwire.Errno]bool{1045: false, 1044: true, 1142: true, 1227: true, 1290: true, 1372: true, 1396: true, 1524: true, 1064: false, 1827: false, 1819: false, 1105: false} {
		err := fmt.Errorf("execute: %w", &mysqlconn.ServerError{Number: number, Message: "near '*AC24'"})
		if got := withheld(err); strings.Contains(got.Error(), "AC24") != shown || !strings.Contains(got.Error(), fmt.Sprint(number)) {
			t.Errorf("%d: %v", number, got)
		}
	}
	if got := withheld(errLost); !errors.Is(got, errLost) {
		t.Error(got)
	}
	s := newSide(t, testmysql.Shared(t).Server)
	s.set(nil)
	c := &Creator{Conn: s.c, Check: func(context.Context) error { return nil }}
	for sql, want := range map[string]string{
		"CREATE USER x IDENTIFIED VIA mysql_native_password USING *AC24": "create account 'x' and its privileges in the target: server error 1064 (42000): (its message is withheld, since it may have a part of an authentication string)",
		"GRANT AC24 ON x": "the right syntax to use near",
	} {
		if err := c.exec(t.Context(), &planned{name: Name{User: "x"}}, sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestMariaDBRows reads rows of mysql.global_priv, as servers of other versions may write them, too.
func TestMariaDBRows(t *testing.T) {
	for _, tt := range []struct{ row, sql, problem string }{
		{`{}`, "IDENTIFIED VIA 'mysql_native_password'", ""},
		{`{"access":7,"version_id":101100,"plugin":"p","authentication_string":"a","password_last_changed":1}`, "IDENTIFIED VIA 'p' USING 'a'", ""},
		{`{"plugin":"p","authentication_string":"a'\\","auth_or":[{},{"plugin":"q"}]}`, `IDENTIFIED VIA 'p' USING 'a''\\' OR 'q'`, ""},
		{`{"auth_or":[{"plugin":"q","authentication_string":"b"},{}],"plugin":"p"}`, "IDENTIFIED VIA 'q' USING 'b' OR 'p'", ""},
		{`{"password_last_changed":0}`, "IDENTIFIED VIA 'mysql_native_password' PASSWORD EXPIRE", ""},
		{`{"password_lifetime":0}`, "IDENTIFIED VIA 'mysql_native_password' PASSWORD EXPIRE NEVER", ""},
		{`{"password_lifetime":-1}`, "IDENTIFIED VIA 'mysql_native_password'", ""},
		{`{"password_lifetime":1}`, "IDENTIFIED VIA 'mysql_native_password' PASSWORD EXPIRE INTERVAL 1 DAY", ""},
		{`{"ssl_type":0}`, "IDENTIFIED VIA 'mysql_native_password'", ""},
		{`{"ssl_type":1}`, "IDENTIFIED VIA 'mysql_native_password' REQUIRE SSL", ""},
		{`{"ssl_type":2}`, "IDENTIFIED VIA 'mysql_native_password' REQUIRE X509", ""},
		{`{"ssl_type":3,"x509_issuer":"i"}`, "IDENTIFIED VIA 'mysql_native_password' REQUIRE ISSUER 'i'", ""},
		{`{"ssl_type":4,"account_locked":true}`, "IDENTIFIED VIA 'mysql_native_password'", "its ssl_type in mysql.global_priv is not understood"},
		{`{"ssl_type":-1}`, "IDENTIFIED VIA 'mysql_native_password'", "its ssl_type in mysql.global_priv is not understood"},
		{`{"max_statement_time":0.0,"max_questions":1}`, "IDENTIFIED VIA 'mysql_native_password' WITH MAX_QUERIES_PER_HOUR 1", ""},
		{`{"max_statement_time":0.5}`, "IDENTIFIED VIA 'mysql_native_password' WITH MAX_STATEMENT_TIME 0.5", ""},
		{`{"is_role":true}`, "CREATE ROLE `x`", ""},
		{`{"account_locked":true}`, "IDENTIFIED VIA 'mysql_native_password' ACCOUNT LOCK", ""},
		{`{"none":1}`, "", `its row in mysql.global_priv has "none", which is not understood`},
		{`{`, "", "its row in mysql.global_priv is not understood"},
		{`{"plugin":1}`, "", "its row in mysql.global_priv is not understood"},
	} {
		a := mariadbDefinition(tt.row)
		got := strings.TrimPrefix(a.create(dialect.MariaDB, Name{User: "x"}), "CREATE USER `x` ")
		if tt.sql != "" && got != tt.sql || strings.Join(a.problems, "; ") != tt.problem {
			t.Errorf("%s: %s, %q", tt.row, got, a.problems)
		}
	}
}

// TestMySQLAttributes reads values of the column User_attributes.
func TestMySQLAttributes(t *testing.T) {
	for text, want := range map[string]string{
		``: `[] "" 0 0`, `{}`: `[] "" 0 0`, `{"metadata": {"a": 1}}`: `[] "{\"a\": 1}" 0 0`, `{"Restrictions": [1]}`: `[] "" 0 0`,
		`{"Password_locking": {"failed_login_attempts": 3, "password_lock_time_days": -1}}`: `[] "" 3 -1`,
		`{"Password_locking": 1}`:      `["its Password_locking in mysql.user is not understood"] "" 0 0`,
		`{"additional_password": "x"}`: `["it has a second password, which cannot be copied: ALTER USER … DISCARD OLD PASSWORD on the source, or exclude it by option exclude-users"] "" 0 0`,
		`{"z": 1, "b": 2}`:             `["its attribute \"b\" in mysql.user is not understood; exclude it by option exclude-users" "its attribute \"z\" in mysql.user is not understood; exclude it by option exclude-users"] "" 0 0`,
		`[]`:                           `["its User_attributes in mysql.user are not understood"] "" 0 0`,
	} {
		var a account
		a.attributes(text)
		if got := fmt.Sprintf("%q %q %d %d", a.problems, a.attribute, a.failed, a.lockDays); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A userTable has one row of mysql.user of MySQL, and no rows of other tables.
type userTable mysqlwire.TextRow

func (u userTable) Query(_ context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	if strings.HasSuffix(sql, " FROM mysql.user") {
		return each(mysqlwire.TextRow(u))
	}
	return nil
}

// TestHostileRules has rules for passwords that are more than numbers, which a server does not have: they are problems of the account.
func TestHostileRules(t *testing.T) {
	for column, name := range map[int]string{13: "lifetime", 15: "history", 16: "reuse", -1: "none"} {
		row := make([]any, 19)
		for i := range row {
			row[i] = "0"
		}
		row[0], row[1], row[18] = "x", "%", ""
		row[13], row[15], row[16] = nil, "12", "365"
		if column >= 0 {
			row[column] = "1 ACCOUNT UNLOCK ATTRIBUTE '{}'"
		}
		r := &tables{ctx: t.Context(), q: userTable(testrows.Row(row...)), server: &server{accounts: make(map[Name]*account), mandatory: make(map[Name]bool)}}
		r.readMySQL()
		a := r.server.accounts[Name{"x", "%"}]
		if r.err != nil || a == nil || (len(a.problems) > 0) != (column >= 0) {
			t.Errorf("%s: %v, %+v", name, r.err, a)
		}
	}
}

// TestOldServers reads servers that lack a part of the schema mysql.
func TestOldServers(t *testing.T) {
	s := newSide(t, testmysql.Shared(t).Server)
	s.set(nil)
	source := s.record()
	for _, tt := range []struct {
		number mysqlwire.Errno
		want   string
	}{
		{1146, "accounts are copied from and to MySQL from 8.0.17 on and MariaDB from 10.4 on"},
		{1054, "from 8.0.17 on"},
		{1193, "from 8.0.17 on"},
		{1142, "the account may not read the accounts: GRANT SELECT ON mysql.* to it"},
		{1227, "GRANT SELECT ON mysql.* to it"},
		{1064, "read accounts and privileges: server error 1064"},
	} {
		_, err := New(t.Context(), &failing{source, &mysqlconn.ServerError{Number: tt.number}}, s.c, objects(), shop)
		if err == nil || !strings.HasPrefix(err.Error(), "at the source: ") || !strings.Contains(err.Error(), tt.want) || tt.number == 1064 && strings.Contains(err.Error(), "GRANT") {
			t.Errorf("%d: %v", tt.number, err)
		}
	}
}

// TestHidden shows hidden characters of names in reasons and notes.
func TestHidden(t *testing.T) {
	p := &planned{}
	p.note("in a\u202eb")
	p.note("and more")
	p.needsHand("its name is %s", "c\u202ed")
	p.needsHand("and long")
	if got := p.object.Note + " | " + p.object.Why; got != "in a⟨U+202E⟩b; and more | its name is c⟨U+202E⟩d; and long" {
		t.Error(got)
	}
}

// failing fails to read grants.
type failing struct {
	of  *recording
	err error
}

func (f *failing) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	if strings.Contains(sql, "FROM mysql.db") {
		return f.err
	}
	return f.of.Query(ctx, sql, each)
}
