//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

var writeEnds = flag.Bool("ends.write", false, "write the table of lost connections to e2e/ENDS.md")

// Additional drivers of TestEnds.
var (
	endsPython = []string{"SQLAlchemy==2.0.36", "Django==5.1.4"}
	endsJava   = []string{"com.zaxxer:HikariCP:5.1.0", "org.slf4j:slf4j-api:2.0.16", "org.slf4j:slf4j-nop:2.0.16"}
)

// endsScenarios are the columns of the table.
var endsScenarios = []string{"killed while idle", "killed in a statement", "server restarted", "gone within a result", "unreachable at login"}

// An endsClient is a driver or pool: its program, which testdata/ends.py describes.
type endsClient struct {
	name string
	run  func(in io.Reader, out io.Writer, scenario, port string) error
}

func endsClients(t *testing.T) []endsClient {
	python, java, c := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "ends")
	installPython(t, python)
	pipInstall(t, python, endsPython)
	installNode(t, t.TempDir())
	mavenCopy(t, java, endsJava)
	installJava(t, java)
	mustRun(t, "", "javac", "-d", java, "testdata/Ends.java")
	mustRun(t, "", "gcc", append([]string{"-o", c, "testdata/ends.c"}, strings.Fields(mustRun(t, "", "mariadb_config", "--include", "--libs"))...)...)
	program := func(name string, first ...string) func(io.Reader, io.Writer, string, string) error {
		return func(in io.Reader, out io.Writer, scenario, port string) error {
			cmd := exec.CommandContext(t.Context(), name, append(append([]string{}, first...), scenario, "127.0.0.1", port, testmysql.AppUser, testmysql.Password, testmysql.DefaultSchema)...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
			return cmd.Run()
		}
	}
	return []endsClient{
		{"PyMySQL", program("python3", "testdata/ends.py", "pymysql")},
		{"Connector/Python", program("python3", "testdata/ends.py", "connector")},
		{"SQLAlchemy's pool, PyMySQL", program("python3", "testdata/ends.py", "sqlalchemy")},
		{"Django, PyMySQL", program("python3", "testdata/ends.py", "django")},
		{"database/sql, go-sql-driver", endsGo},
		{"mysql2 pool", program("node", "testdata/ends.mjs")},
		{"HikariCP, Connector/J", program("java", "Ends", "mysql")},
		{"HikariCP, MariaDB Connector/J", program("java", "Ends", "mariadb")},
		{"PHP mysqli", program("php", "testdata/ends.php", "mysqli")},
		{"PHP PDO", program("php", "testdata/ends.php", "pdo")},
		{"libmariadb", program(c)},
	}
}

// endsGo is the program of database/sql.
func endsGo(in io.Reader, out io.Writer, scenario, port string) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Logger = testmysql.AppUser, testmysql.Password, "tcp", "127.0.0.1:"+port, silent{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(1)
	replies := bufio.NewReader(in)
	ready := func(id string) {
		fmt.Fprintln(out, "ready", id)
		_, _ = replies.ReadString('\n')
	}
	report := func(what string, do func() (string, error)) {
		value, err := do()
		refused, isRefused := errors.AsType[*mysql.MySQLError](err)
		switch {
		case err == nil:
		case isRefused:
			value = fmt.Sprintf("MySQLError %d", refused.Number)
		case errors.Is(err, mysql.ErrInvalidConn):
			value = "ErrInvalidConn"
		case errors.Is(err, driver.ErrBadConn):
			value = "ErrBadConn"
		default:
			value = fmt.Sprintf("%T", err)
		}
		fmt.Fprintf(out, "%s: %s\n", what, value)
	}
	first := func(query string) func() (string, error) {
		return func() (value string, err error) {
			err = db.QueryRowContext(context.Background(), query).Scan(&value)
			return value, err
		}
	}
	big := "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b"
	switch scenario {
	case "login":
		ready("0")
		report("login", first("select 42"))
		ready("0")
	case "result":
		report("result", func() (string, error) {
			rows, err := db.QueryContext(context.Background(), big)
			if err != nil {
				return "", err
			}
			defer rows.Close()
			n := 0
			for rows.Next() {
				if n++; n == 1 {
					ready("0")
				}
			}
			return fmt.Sprintf("%d rows as if they were all", n), rows.Err()
		})
		ready("0")
	default:
		id, err := first("select connection_id()")()
		if err != nil {
			return err
		}
		if scenario == "idle" {
			ready(id)
			break
		}
		fmt.Fprintln(out, "runs", id)
		report("statement", first("select sleep(100)"))
		ready("0")
	}
	for range 3 {
		report("then", first("select 42"))
	}
	return nil
}

// An endsServer is a server whose connections are lost.
type endsServer struct {
	*testmysql.Server
	control *sql.DB
}

// processes returns the number of connections that match a condition.
func (s *endsServer) processes(t *testing.T, where string) (n int) {
	t.Helper()
	must(t, s.control.QueryRowContext(t.Context(), "select count(*) from information_schema.processlist where user = 'app' and "+where).Scan(&n))
	return n
}

// restart starts the server again. MySQL caches the account's password: Connector/Python sends it by TLS only.
func (s *endsServer) restart(t *testing.T) {
	t.Helper()
	must(t, s.Restart())
	s.cache(t)
}

func (s *endsServer) cache(t *testing.T) {
	t.Helper()
	db := open(t, s.Addr, "")
	must(t, db.PingContext(t.Context()))
	must(t, db.Close())
}

// lose makes the server fail for the number-th time that a client is ready. p is the gateway, or nil.
func (s *endsServer) lose(t *testing.T, scenario string, number int, id string, p *tare) {
	t.Helper()
	gone := func() {
		if p != nil {
			testwait.Until(t, "the gateway to close the client's connection", func() bool { return metricValue(t, p, "tare_connections") == 0 })
		}
	}
	switch {
	case scenario == "killed while idle":
		must(t, s.Exec("kill connection "+id))
		testwait.Until(t, "the server to end the connection", func() bool { return s.processes(t, "true") == 0 })
		gone()
	case scenario == "server restarted":
		must(t, s.Stop())
		s.restart(t)
		gone()
	case scenario == "gone within a result" && number == 1:
		must(t, s.Kill())
		s.restart(t)
	case scenario == "unreachable at login" && number == 1:
		must(t, s.Stop())
	case scenario == "unreachable at login":
		s.restart(t)
	}
}

// transcript runs a client through a scenario at addr.
func (s *endsServer) transcript(t *testing.T, c endsClient, scenario, addr string, p *tare) (lines []string) {
	t.Helper()
	of := map[string]string{"killed in a statement": "statement", "gone within a result": "result", "unreachable at login": "login"}[scenario]
	if of == "" {
		of = "idle"
	}
	in, replies, err := os.Pipe() // not io.Pipe: a process would be waited for until the test ends its input
	must(t, err)
	said, out, err := os.Pipe()
	must(t, err)
	defer said.Close()
	var wg sync.WaitGroup
	var ended error
	wg.Go(func() {
		ended = c.run(in, out, of, port(t, addr))
		out.Close()
		in.Close()
	})
	defer replies.Close()
	number := 0
	for r := bufio.NewScanner(said); r.Scan(); {
		what, id, _ := strings.Cut(r.Text(), " ")
		switch what {
		case "ready":
			number++
			s.lose(t, scenario, number, id, p)
			_, _ = io.WriteString(replies, "\n")
		case "runs":
			testwait.Until(t, "the statement to run", func() bool { return s.processes(t, "id = "+id+" and info like '%sleep%'") == 1 })
			must(t, s.Exec("kill connection "+id))
		default:
			lines = append(lines, strings.TrimSpace(r.Text()))
		}
	}
	testwait.Group(t, "the client to end", &wg)
	must(t, ended)
	return lines
}

// endsCell describes a transcript: the outcome of the operation, then those of the statements after it, up to the last that failed.
func endsCell(lines []string) string {
	var outcomes []string
	for _, line := range lines {
		_, outcome, _ := strings.Cut(line, ": ")
		outcomes = append(outcomes, outcome)
	}
	for len(outcomes) > 1 && outcomes[len(outcomes)-1] == "42" {
		outcomes = outcomes[:len(outcomes)-1]
	}
	cell := strings.Join(outcomes, ", ")
	if len(outcomes) > 1 {
		cell = outcomes[0] + ", then " + strings.Join(outcomes[1:], ", ")
	}
	return cell
}

// The table is between these lines of a page.
const (
	endsPage  = "ENDS.md"
	endsBegin = "<!-- ends: make e2e -->\n"
	endsEnd   = "<!-- end of the ends -->\n"
)

// TestEnds loses connections of drivers and pools, directly and through the gateway: applications see the same. Only a
// server that is unreachable at the login has another error: the gateway's. The table is in ENDS.md.
func TestEnds(t *testing.T) {
	clients := endsClients(t)
	onMariaDB, onMySQL := make(map[string]string), make(map[string]string) // cells by client and scenario
	run := func(cells map[string]string, opts ...testmysql.Option) func(*testing.T) {
		return func(t *testing.T) {
			s := &endsServer{Server: testmysql.StartOrSkip(t, opts...)}
			connector, err := mysql.NewConnector(s.Config(testmysql.RootUser))
			must(t, err)
			s.control = sql.OpenDB(connector)
			defer s.control.Close()
			s.cache(t)
			p := startTare(t, s.Addr)
			for _, c := range clients {
				for _, scenario := range endsScenarios {
					t.Run(strings.ReplaceAll(c.name, "/", "-")+"/"+scenario, func(t *testing.T) {
						cells[c.name+"/"+scenario] = s.compare(t, c, scenario, p)
					})
				}
			}
		}
	}
	var servers sync.WaitGroup
	servers.Go(func() { t.Run("MariaDB", run(onMariaDB)) })
	servers.Go(func() { t.Run("MySQL", run(onMySQL, testmysql.WithMySQL())) })
	servers.Wait() // no limit of its own: the test has one
	table := fmt.Sprintf("| driver or pool | %s |\n|---|%s\n", strings.Join(endsScenarios, " | "), strings.Repeat("---|", len(endsScenarios)))
	for _, c := range clients {
		row := []string{c.name}
		for _, scenario := range endsScenarios {
			cell, other := onMariaDB[c.name+"/"+scenario], onMySQL[c.name+"/"+scenario]
			if cell == "" || other == "" {
				t.Skip("a part of the table was run") // by a pattern of -run, or it failed
			}
			if cell != other {
				cell = "MariaDB: " + cell + "; MySQL: " + other
			}
			row = append(row, cell)
		}
		table += fmt.Sprintf("| %s |\n", strings.Join(row, " | "))
	}
	page, err := os.ReadFile(endsPage)
	must(t, err)
	before, rest, _ := strings.Cut(string(page), endsBegin)
	documented, after, ok := strings.Cut(rest, endsEnd)
	switch {
	case !ok:
		t.Errorf("%s has no table of lost connections", endsPage)
	case *writeEnds:
		must(t, os.WriteFile(endsPage, []byte(before+endsBegin+table+endsEnd+after), 0o644))
	case documented != table:
		t.Errorf("other than the table of %s, which -ends.write replaces:\n%s", endsPage, table)
	}
}

// compare runs a client through a scenario directly and through the gateway, and returns the cell of the table.
func (s *endsServer) compare(t *testing.T, c endsClient, scenario string, p *tare) (cell string) {
	direct := s.transcript(t, c, scenario, s.Addr, nil)
	through := s.transcript(t, c, scenario, p.addr, p)
	t.Logf("directly %q, through %q", direct, through)
	cell = endsCell(direct)
	if scenario == "unreachable at login" && len(direct) > 0 && len(through) > 0 && direct[0] != through[0] {
		_, there, _ := strings.Cut(direct[0], ": ")
		_, here, _ := strings.Cut(through[0], ": ")
		cell = there + "; through Tare " + here + strings.TrimPrefix(cell, there)
		direct[0] = through[0]
	}
	if strings.Join(through, "\n") != strings.Join(direct, "\n") {
		t.Errorf("through the gateway %q, directly %q", through, direct)
	}
	return cell
}
