//go:build e2e

package e2e

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Versions of the drivers of other languages, so that a run is repeatable.
var (
	pythonDrivers = []string{"PyMySQL[rsa,ed25519]==1.1.1", "mysql-connector-python==9.1.0"}
	nodeDrivers   = []string{"mysql2@3.11.5"}
	javaDrivers   = []string{"com.mysql:mysql-connector-j:9.1.0", "org.mariadb.jdbc:mariadb-java-client:3.5.1"}
)

// matrixClients returns the rows of the matrix. Installed drivers stay until t ends.
func matrixClients(t *testing.T) []matrixClient {
	install := func(into func(t *testing.T, dir string)) func(*testing.T) {
		once := sync.OnceFunc(func() { into(t, t.TempDir()) })
		return func(*testing.T) { once() }
	}
	python, node, java := install(installPython), install(installNode), install(installJava)
	return []matrixClient{
		{name: "go-sql-driver", run: runGo},
		{name: "mysql", run: runCLI("mysql")},
		{name: "mariadb", run: runCLI("mariadb")},
		{name: "PyMySQL", prepare: python, run: runScript("python3", "testdata/drivers.py", "pymysql")},
		{name: "Connector/Python", prepare: python, run: runScript("python3", "testdata/drivers.py", "connector")},
		{name: "Connector/Python, pure", prepare: python, run: runScript("python3", "testdata/drivers.py", "connector-pure")},
		{name: "Connector/Python, compressed", prepare: python, run: runScript("python3", "testdata/drivers.py", "connector-compressed")},
		{name: "Connector/Python, pure, compressed", prepare: python, run: runScript("python3", "testdata/drivers.py", "connector-pure-compressed")},
		{name: "mysql2", prepare: node, run: runScript("node", "testdata/driver.mjs")},
		{name: "Connector/J", prepare: java, run: runScript("java", "Driver", "mysql")},
		{name: "MariaDB Connector/J", prepare: java, run: runScript("java", "Driver", "mariadb")},
		{name: "sysbench", run: runSysbench, plainOnly: true},
	}
}

func installPython(t *testing.T, dir string) {
	pipInstall(t, dir, pythonDrivers)
	t.Setenv("PYTHONPATH", dir)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	t.Setenv("PYTHONIOENCODING", "utf-8")
}

func pipInstall(t *testing.T, dir string, packages []string) {
	mustRun(t, "", "python3", append([]string{
		"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--target", dir,
	}, packages...)...)
}

func installNode(t *testing.T, dir string) {
	mustRun(t, "", "npm", append([]string{"install", "--prefix", dir, "--cache", dir + "/cache", "--silent", "--no-audit", "--no-fund"}, nodeDrivers...)...)
	t.Setenv("NODE_PATH", dir+string(os.PathSeparator)+"node_modules")
}

func installJava(t *testing.T, dir string) {
	mavenCopy(t, dir, javaDrivers)
	mustRun(t, "", "javac", "-d", dir, "testdata/Driver.java")
	t.Setenv("CLASSPATH", dir+":"+filepath.Join(dir, "*"))
	t.Setenv("JAVA_TOOL_OPTIONS", "") // a JVM would report them
}

func mavenCopy(t *testing.T, dir string, artifacts []string) {
	for _, artifact := range artifacts {
		mustRun(t, "", "mvn", "--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy", "-Dartifact="+artifact, "-DoutputDirectory="+dir)
	}
}

// runScript runs a program of testdata.
func runScript(name string, first ...string) func(*testing.T, string, string, string, string, bool) string {
	return func(t *testing.T, addr, user, schema, security string, whole bool) string {
		args := append(append([]string{}, first...), security, "127.0.0.1", port(t, addr), user, matrixPassword, schema)
		if !whole {
			args = append(args, "login")
		}
		stdout, stderr, err := command(t, "", name, args...)
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		if err != nil { // the last line of a traceback, without positions
			return stdout + lastCause(stderr) + "\n"
		}
		return stdout
	}
}

// lastCause returns the message of an uncaught exception: the stacks do not matter.
func lastCause(stderr string) string {
	var cause string
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "}") && !strings.HasPrefix(line, "Node.js") {
			cause = line
		}
	}
	return connNumber.ReplaceAllString(cause, "conn") // the gateway has separate connection numbers
}

var connNumber = regexp.MustCompile(`conn=-?\d+`)

// runCLI types the session into a command-line client.
func runCLI(name string) func(*testing.T, string, string, string, string, bool) string {
	return func(t *testing.T, addr, user, schema, security string, whole bool) string {
		args := clientArgs(t, addr, "--user="+user, "--force", "--table", "--unbuffered", "--comments")
		switch {
		case name == "mariadb" && security == "tls":
			args = append(args, encrypted()...)
		case name == "mariadb":
			args = append(args, plain()...)
		case security == "tls":
			args = append(args, "--ssl-mode=REQUIRED")
		default:
			args = append(args, "--ssl-mode=DISABLED", "--get-server-public-key")
		}
		session := "select current_user(), database();\n"
		if whole {
			session += fmt.Sprintf(userSession, schema)
		}
		stdout, stderr, err := command(t, session+"select 'the end';\n", name, append(args, schema)...)
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		text := stdout + "--- errors\n" + stderr
		if !strings.Contains(stdout, "the end") {
			return text
		}
		cipher := mustRun(t, "show status like 'Ssl_cipher'", name, append(args, "--batch", "--skip-column-names")...)
		bit := 0
		if strings.Contains(cipher, "TLS_") || strings.Contains(cipher, "ECDHE") {
			bit = 1
		}
		return fmt.Sprintf("tls on the backend's leg: %d\n%s%s", bit, text, matrixDone)
	}
}

// runSysbench runs a deterministic workload, and sums the table.
func runSysbench(t *testing.T, addr, user, schema, security string, whole bool) string {
	args := []string{
		"testdata/repeatable.lua", "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-port=" + port(t, addr), "--mysql-user=" + user,
		"--mysql-password=" + matrixPassword, "--mysql-db=" + schema, "--threads=1", "--db-ps-mode=auto",
	}
	for _, verb := range [][]string{{"prepare"}, {"--events=300", "--time=0", "run"}} {
		stdout, stderr, err := command(t, "", "sysbench", append(args, verb...)...)
		if err != nil {
			cause, _, _ := strings.Cut(stdout+stderr, "\n\n")
			for line := range strings.Lines(stdout + stderr) {
				if strings.Contains(line, "FATAL") {
					cause = line
					break
				}
			}
			return cause + "\n"
		}
	}
	db := openAs(t, addr, user, schema, false)
	defer db.Close()
	return "tls on the backend's leg: 0\n" + text(t, db, "select count(*), sum(crc32(concat_ws('|', id, k, c, pad))) from repeatable") + matrixDone
}

// openAs returns a pool of connections of an account.
func openAs(t *testing.T, addr, user, schema string, secure bool) *sql.DB {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName, cfg.MultiStatements, cfg.MaxAllowedPacket = user, matrixPassword, "tcp", addr, schema, true, 64<<20
	cfg.Logger = silent{}
	if secure {
		cfg.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db
}

// text returns the result of a query, or its error.
func text(t *testing.T, db interface {
	Query(string, ...any) (*sql.Rows, error)
}, query string, args ...any,
) string {
	t.Helper()
	var b strings.Builder
	rows, err := db.Query(query, args...)
	if err != nil {
		return fmt.Sprintf("%.80s: %v\n", query, err)
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		must(t, err)
		for _, c := range types {
			fmt.Fprintf(&b, "%s/%s ", c.Name(), c.DatabaseTypeName())
		}
		b.WriteByte('\n')
		values, into := make([]sql.RawBytes, len(types)), make([]any, len(types))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			must(t, rows.Scan(into...))
			for _, v := range values {
				switch {
				case v == nil:
					b.WriteString("[NULL] ")
				case len(v) > 200:
					fmt.Fprintf(&b, "[%d bytes, %x] ", len(v), md5.Sum(v))
				default:
					fmt.Fprintf(&b, "[%q] ", v)
				}
			}
			b.WriteByte('\n')
		}
	}
	if err := rows.Err(); err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	return b.String()
}

// runGo uses go-sql-driver like an application.
func runGo(t *testing.T, addr, user, schema, security string, whole bool) string {
	db := openAs(t, addr, user, schema, security == "tls")
	defer db.Close()
	var name, cipher string
	if err := db.QueryRow("show status like 'Ssl_cipher'").Scan(&name, &cipher); err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	bit := 0
	if cipher != "" {
		bit = 1
	}
	fmt.Fprintf(&b, "tls on the backend's leg: %d\n", bit)
	show := func(query string, args ...any) { b.WriteString(text(t, db, query, args...)) }
	exec := func(query string, args ...any) {
		r, err := db.Exec(query, args...)
		if err != nil {
			fmt.Fprintf(&b, "%.80s: %v\n", query, err)
			return
		}
		id, _ := r.LastInsertId()
		n, _ := r.RowsAffected()
		fmt.Fprintf(&b, "%d rows, id %d\n", n, id)
	}
	show("select current_user(), database()")
	if !whole {
		return b.String() + matrixDone
	}
	exec("create table things (id int primary key auto_increment, name varchar(100), price decimal(12,4), made datetime(6), data longblob) character set utf8mb4")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	exec("insert into things (name, price, made, data) values (?, ?, ?, ?)", "snöstorm ❄", "12345678.9012", "2026-02-28 23:59:59.123456", all)
	exec("insert into things (name, price, made, data) values (?, ?, ?, ?)", "日本語 🗾", "-0.0001", nil, []byte{})
	exec("insert into things (name) values (null)")
	show("select * from things order by id")
	show("select * from things where id < ? or name = ? order by id", 2, "日本語 🗾")
	if tx, err := db.Begin(); err == nil {
		_, _ = tx.Exec("update things set name = 'undone'")
		_ = tx.Rollback()
	}
	show("select count(*) from things where name = 'undone'")
	exec("selct 1")
	exec("insert into things (id) values (?)", 1)
	show("select * from nowhere where id = ?", 1)
	show("select 1 as one; select 2 as two, null; select 3 where 1 = 0")
	exec("create procedure pair(n int) begin select n; select n * 2, 'two'; end") // TiDB has none
	show("call pair(21)")
	exec("drop procedure pair")
	exec("insert into things (data) values (?)", make([]byte, 17<<20)) // exceeds one packet
	show("select length(data) from things order by id desc limit 1")
	show("select length(?), repeat('ž', 300)", strings.Repeat("x", 17<<20))
	exec("set names latin1")
	show("select hex('ž'), @@character_set_client")
	exec("set names utf8mb4")
	digest := sha256.Sum256([]byte(text(t, db, "with d as (select 0 n union all select 1 union all select 2 union all select 3 union all select 4), "+
		"s as (select a.n + 5 * b.n + 25 * c.n + 125 * d.n + 625 * e.n as n from d a, d b, d c, d, d e) select n, sha2(n, 256), repeat('ž', mod(n, 100)) from s order by n")))
	fmt.Fprintf(&b, "big result: %x\n", digest)
	return b.String() + matrixDone
}
