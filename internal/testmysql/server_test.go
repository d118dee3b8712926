package testmysql_test

import (
	"bufio"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// holdEnv makes the test binary the program that TestKilledProgram kills.
const holdEnv = "TESTMYSQL_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		hold()
	}
	goleak.VerifyTestMain(testmysql.Main(m))
}

// hold starts a server, prints its process id and directory, and waits to be killed.
func hold() {
	s, err := testmysql.New()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Pid(), s.Socket)
	select {}
}

func open(t *testing.T, c *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func scalar(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var v string
	if err := db.QueryRow(query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestAccounts(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithEd25519())
	for _, user := range []string{testmysql.RootUser, testmysql.AppUser, testmysql.EdUser} {
		// The driver cannot sign a challenge of client_ed25519 that ends with a zero byte.
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: s.Addr, User: user, Password: testmysql.Password})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		_, err = c.Query(t.Context(), "SELECT CURRENT_USER()", func(row mysqlwire.TextRow) error {
			got = string(row[0])
			return nil
		})
		if want := user + "@%"; err != nil || got != want {
			t.Errorf("logged in as %s, want %s: another account shadows it (%v)", got, want, err)
		}
		c.Close()
	}
	app := open(t, s.Config(testmysql.AppUser))
	if _, err := app.Exec("CREATE DATABASE mine"); err != nil {
		t.Errorf("the application's account makes no schema: %v", err)
	}
	if _, err := app.Exec("SET GLOBAL max_connections = 10"); err == nil {
		t.Error("the application's account administers the server")
	}
}

func TestTLS(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithTLS())
	c := s.Config(testmysql.AppUser)
	c.TLS = &tls.Config{RootCAs: s.CA, ServerName: "localhost"}
	var name, cipher string
	if err := open(t, c).QueryRow("SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher); err != nil {
		t.Fatal(err)
	}
	if cipher == "" {
		t.Error("the connection is in clear")
	}
	if _, err := os.ReadFile(s.CAFile); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithPerformanceSchema(),
		testmysql.WithArgs("--max-allowed-packet=32M", "--lc-messages=de_DE"), testmysql.WithSetup("CREATE TABLE marks (id INT)"))
	db := open(t, s.Config(testmysql.RootUser))
	for query, want := range map[string]string{
		"SELECT @@log_bin":                              "1",
		"SELECT @@performance_schema":                   "1",
		"SELECT @@max_allowed_packet":                   strconv.Itoa(32 << 20),
		"SELECT @@global.lc_messages":                   "de_DE", // the log too
		"SELECT COUNT(*) FROM test.marks":               "0",
		"SELECT @@global.binlog_row_image":              "FULL",
		"SELECT @@performance_schema_max_digest_length": "4096",
	} {
		if got := scalar(t, db, query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

// TestRestart checks that committed rows survive a kill and a restart, on the same address.
func TestRestart(t *testing.T) {
	s := testmysql.Start(t)
	addr, pid := s.Addr, s.Pid()
	if err := s.Exec("CREATE TABLE kept (id INT)", "INSERT INTO kept VALUES (42)"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{s.Kill, s.Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		db := open(t, s.Config(testmysql.AppUser))
		if got := scalar(t, db, "SELECT id FROM test.kept"); got != "42" {
			t.Errorf("read %s back, want 42", got)
		}
	}
	if s.Addr != addr || s.Pid() == pid {
		t.Errorf("restarted on %s as process %d, want another process on %s (was %d)", s.Addr, s.Pid(), addr, pid)
	}
}

func TestSharedSchemas(t *testing.T) {
	a, b := testmysql.Shared(t), testmysql.Shared(t)
	if a.Addr != b.Addr {
		t.Errorf("two servers, %s and %s, want one", a.Addr, b.Addr)
	}
	if a.Name == b.Name {
		t.Errorf("both schemas are named %s", a.Name)
	}
	db, err := sql.Open("mysql", a.DSN(testmysql.AppUser))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if got := scalar(t, db, "SELECT DATABASE()"); got != a.Name {
		t.Errorf("in schema %s, want %s", got, a.Name)
	}
	db2, err := sql.Open("mysql", a.Server.DSN(testmysql.AppUser))
	if err != nil {
		t.Fatal(err)
	}
	defer db2.Close()
	if got := scalar(t, db2, "SELECT DATABASE()"); got != testmysql.DefaultSchema {
		t.Errorf("in schema %s, want %s", got, testmysql.DefaultSchema)
	}
}

// TestKilledProgram kills a program with a server and checks that the server dies with it, and that the next
// start removes its directory.
func TestKilledProgram(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	word, socket, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(word)
	if err != nil {
		t.Fatalf("the program said %q", line)
	}
	// A pidfd reports the death of a process that is not a child.
	fd, err := pidfdOpen(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("only Linux stops the servers of a program that was killed")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if err := waitDead(fd); err != nil {
		t.Errorf("mariadbd (process %d) outlived its program: %v", pid, err)
	}

	testmysql.Start(t)
	testwait.Until(t, "the killed program's directory to be removed, possibly by another program that starts a server", func() bool {
		_, err := os.Stat(strings.TrimSuffix(socket, "/sock"))
		return os.IsNotExist(err)
	})
}

// fakeTB records calls to a test.
type fakeTB struct {
	testing.TB
	fatal, skipped string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) { f.fatal = fmt.Sprintf(format, args...) }

func (f *fakeTB) Skipf(format string, args ...any) { f.skipped = fmt.Sprintf(format, args...) }

func TestServersOff(t *testing.T) {
	f := &fakeTB{TB: t}
	if testmysql.SkipIfOff(f); f.skipped != "" {
		t.Errorf("skipped without a reason: %q", f.skipped)
	}
	t.Setenv("TARE_TEST_SERVERS", "off")
	if testmysql.SkipIfOff(f); !strings.Contains(f.skipped, "TARE_TEST_SERVERS") {
		t.Errorf("not skipped: %q", f.skipped)
	}
}

func TestStartFails(t *testing.T) {
	for arg, want := range map[string]string{
		"--no-such-option": "no-such-option",
		"--log-error=log":  "its log did",
	} {
		f := &fakeTB{TB: t}
		testmysql.Start(f, testmysql.WithArgs(arg))
		if !strings.Contains(f.fatal, want) {
			t.Errorf("%s: the failure does not say %q: %q", arg, want, f.fatal)
		}
	}
}
