package throttle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func root(s *testmysql.Server) mysqlconn.Config {
	return mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password}
}

func execute(t *testing.T, s *testmysql.Server, statements ...string) {
	t.Helper()
	if err := s.Exec(statements...); err != nil {
		t.Fatal(err)
	}
}

// TestSQLSources polls servers for metrics, and a replica for its lag.
func TestSQLSources(t *testing.T) {
	from := testmysql.Start(t, testmysql.WithBinlog())
	ask := func(server *testmysql.Server, read sqlRead) (float64, error) {
		s := &sqlSource{cfg: root(server), read: read}
		defer s.close()
		return s.value(t.Context())
	}
	if v, err := ask(from, readNumber("SHOW GLOBAL STATUS LIKE 'Threads_running'", 1)); err != nil || v < 1 {
		t.Errorf("Threads_running: %v, %v", v, err)
	}
	for sql, want := range map[string]string{
		"SELECT NULL": "NULL", "SELECT 'x'": `"x" is not a number`, "SELECT 'nan'": "is not a number",
		"SELECT 1 WHERE 1 = 0": "returns 0 rows", "SELECT 1 UNION SELECT 2": "returns 2 rows", "SELEC 1": "syntax",
	} {
		if v, err := ask(from, readNumber(sql, 0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", sql, v, err)
		}
	}
	if _, err := ask(from, readLag); err == nil || !strings.Contains(err.Error(), "not a replica") {
		t.Errorf("a server that is no replica: %v", err)
	}

	replica := testmysql.Start(t, testmysql.WithArgs("--server-id=2", "--relay-log=relay", "--skip-slave-start"))
	execute(t, replica, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', MASTER_PASSWORD = '%s'",
		from.Port(), testmysql.RootUser, testmysql.Password))
	if _, err := ask(replica, readLag); err == nil || !strings.Contains(err.Error(), "does not replicate now") {
		t.Errorf("a replica that is stopped: %v", err)
	}
	execute(t, replica, "START SLAVE")
	testwait.UntilState(t, "a replica that has caught up", func() (string, bool) { // it reports a lag for a moment longer
		v, err := ask(replica, readLag)
		return fmt.Sprint(v, err), err == nil && v == 0
	})
	execute(t, replica, "STOP SLAVE")
}
