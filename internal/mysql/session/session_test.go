package session_test

import (
	"os"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

func TestMain(m *testing.M) { os.Exit(testmysql.Main(m).Run()) }

func config(s *testmysql.Server, user string) mysqlconn.Config {
	return mysqlconn.Config{Addr: s.Addr, User: user, Password: testmysql.Password}
}

func value(t *testing.T, c *mysqlconn.Client, name string) (got string) {
	t.Helper()
	if _, err := c.Query(t.Context(), "SELECT @@SESSION."+name, func(row mysqlwire.TextRow) error {
		got = string(row[0])
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestOpen opens sessions on servers whose global variables and init_connect have other values.
func TestOpen(t *testing.T) {
	for product, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(product, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			if err := s.Exec("SET GLOBAL sql_select_limit = 0", "SET GLOBAL autocommit = 0", "SET GLOBAL completion_type = 2", "SET GLOBAL lc_messages = 'de_DE'",
				"SET GLOBAL sql_mode = 'ANSI,PAD_CHAR_TO_FULL_LENGTH'", "SET GLOBAL init_connect = 'SET SESSION sql_safe_updates = 1, wait_timeout = 1'"); err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{testmysql.RootUser, testmysql.AppUser} {
				c, err := session.Open(t.Context(), config(s, user), session.Int("innodb_lock_wait_timeout", 3))
				if err != nil {
					t.Fatalf("%s: %v", user, err)
				}
				for name, want := range map[string]string{
					"sql_select_limit": "18446744073709551615", "autocommit": "1", "completion_type": "NO_CHAIN",
					"sql_safe_updates": "0", "wait_timeout": "86400", "innodb_lock_wait_timeout": "3",
				} {
					if got := value(t, c, name); got != want {
						t.Errorf("%s: %s is %s, want %s", user, name, got, want)
					}
				}
				if err := session.Set(t.Context(), c, session.Int("lock_wait_timeout", 7)); err != nil || value(t, c, "lock_wait_timeout") != "7" {
					t.Errorf("set lock_wait_timeout: %v", err)
				}
				if err := session.Set(t.Context(), c, session.Usual(c, "lock_wait_timeout")...); err != nil || value(t, c, "lock_wait_timeout") != "86400" {
					t.Errorf("restore lock_wait_timeout: %v", err)
				}
				// A server takes a value beyond a variable's range with a warning, as the nearest one.
				if err := session.Set(t.Context(), c, session.Int("div_precision_increment", 99)); err == nil || !strings.Contains(err.Error(), "div_precision_increment is") {
					t.Errorf("a value that does not take: %v", err)
				}
				if err := session.Set(t.Context(), c, session.Int("no_such_variable", 1)); err == nil {
					t.Error("an unknown variable was set")
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if product == "MySQL" {
				restricted(t, s)
			}
		})
	}
}

// restricted opens sessions of an account that may not set a variable that is to be set.
func restricted(t *testing.T, s *testmysql.Server) {
	if err := s.Exec("SET GLOBAL sql_require_primary_key = 1", "CREATE USER plain IDENTIFIED BY '"+testmysql.Password+"'"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Open(t.Context(), config(s, "plain")); err == nil || !strings.Contains(err.Error(), `sql_require_primary_key is "1"`) {
		t.Errorf("without the privilege: %v", err)
	}
	for _, open := range []func() (*mysqlconn.Client, error){
		func() (*mysqlconn.Client, error) { return session.Open(t.Context(), config(s, testmysql.RootUser)) },
		func() (*mysqlconn.Client, error) { return session.OpenReader(t.Context(), config(s, "plain")) },
	} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close() // it only read
	}
}
