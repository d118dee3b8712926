//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
)

// TestMySQLLogin logs in through Tare, by caching_sha2_password in all of its forms: the server has cached
// the password's digest or requires the password, over TLS or encrypted with the server's key, and with TLS
// on only one connection.
func TestMySQLLogin(t *testing.T) {
	s := mysqlPlain.get(t)
	gateways := map[string]*tare{
		"mirror":    startTare(t, s.Addr),
		"TLS alone": startTare(t, s.Addr, "--backend-tls", "required", "--client-tls", "preferred"),
		"no TLS":    startTare(t, s.Addr, "--backend-tls", "off", "--backend-get-public-key"),
	}
	for name, p := range gateways {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, client with TLS %v", name, encrypted), func(t *testing.T) {
				must(t, s.Exec("create user if not exists sha2 identified by 'p ä ss'", "alter user sha2 identified by 'p ä ss'")) // removes it from the cache
				cfg := mysql.NewConfig()
				cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = "sha2", "p ä ss", "tcp", p.addr
				cfg.Logger = silent{}
				if encrypted {
					cfg.TLS = &tls.Config{InsecureSkipVerify: true}
				}
				ask := func() (user, cipher string, err error) {
					connector, err := mysql.NewConnector(cfg)
					must(t, err)
					db := sql.OpenDB(connector)
					defer db.Close()
					err = db.QueryRowContext(t.Context(), "select current_user(), variable_value from performance_schema.session_status where variable_name = 'Ssl_cipher'").Scan(&user, &cipher)
					return user, cipher, err
				}
				for _, how := range []string{"full", "fast"} {
					user, cipher, err := ask()
					if err != nil || user != "sha2@%" {
						t.Errorf("%s: %q, %v", how, user, err)
					}
					want := name == "TLS alone" || name == "mirror" && encrypted
					if (cipher != "") != want {
						t.Errorf("%s: TLS to the server: %q, want %v", how, cipher, want)
					}
				}
				cfg.Passwd = "wrong"
				_, _, err := ask()
				if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != 1045 {
					t.Errorf("with a wrong password: %v, want error 1045", err)
				}
			})
		}
	}
}

// mysqlArgs returns a command line of MySQL's client.
func mysqlArgs(t *testing.T, addr string, more ...string) []string {
	return append([]string{
		"--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + port(t, addr), "--user=" + testmysql.AppUser, "--password=" + testmysql.Password,
		"--default-character-set=utf8mb4", "--get-server-public-key",
	}, more...)
}

// TestMySQLClients types the same session into MySQL's and MariaDB's clients, directly and through Tare.
func TestMySQLClients(t *testing.T) {
	s := mysqlPlain.get(t)
	_ = s.Exec("install component 'file://component_query_attributes'") // it may be installed already
	p := startTare(t, s.Addr)
	for _, client := range []struct {
		name    string
		args    func(t *testing.T, addr string, more ...string) []string
		options []string
		more    string
	}{
		{"mysql", mysqlArgs, []string{"--commands", "--ssl-mode=DISABLED"}, "query_attributes n v\nselect mysql_query_attribute_string('n');\nresetconnection\nselect database();\n"},
		{"mysql", mysqlArgs, []string{"--commands", "--ssl-mode=REQUIRED"}, ""},
		{"mysql", mysqlArgs, []string{"--commands", "--ssl-mode=DISABLED", "--compression-algorithms=zstd,zlib,uncompressed"}, ""},
		{"mysql", mysqlArgs, []string{"--commands", "--ssl-mode=DISABLED", "--compression-algorithms=zstd,uncompressed"}, ""},
		{"mariadb", clientArgs, plain(), ""},
		{"mariadb", clientArgs, encrypted(), ""},
	} {
		t.Run(client.name+" "+strings.Join(client.options, " "), func(t *testing.T) {
			var said [2]string
			for i, addr := range []string{s.Addr, p.addr} {
				cleanSchema(t, "mysqlclient", s)
				args := client.args(t, addr, append(client.options, "--force", "--table", "--unbuffered", "--comments", "mysqlclient")...)
				stdout, stderr, err := command(t, fmt.Sprintf(userSession, "mysqlclient")+client.more, client.name, args...)
				if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
					t.Fatal(err)
				}
				said[i] = stdout + "--- errors\n" + stderr
			}
			if said[0] != said[1] {
				t.Errorf("through Tare:\n%s\ndirectly:\n%s", said[1], said[0])
			}
			for _, want := range []string{"Łukasz 🐘", "ERROR 1049", "ERROR 1054", "ERROR 1062", "|    42 |"} {
				if !strings.Contains(said[1], want) {
					t.Errorf("%q was not said:\n%s", want, said[1])
				}
			}
			if client.more != "" && !strings.Contains(said[1], "| v  ") {
				t.Errorf("the query's attribute did not arrive:\n%s", said[1])
			}
		})
	}
	// A client that requires compression reports its absence by a client error.
	for _, algorithm := range []string{"zlib", "zstd"} {
		_, stderr, err := command(t, "", "mysql", mysqlArgs(t, p.addr, "--compression-algorithms="+algorithm, "--execute=select 1")...)
		if err == nil || !strings.Contains(stderr, "ERROR 2066") {
			t.Errorf("%s: %v, %s; want error 2066 of the client", algorithm, err, stderr)
		}
	}
}

// TestMySQLInterrupt presses Ctrl-C in MySQL's client, and kills another client's connection.
func TestMySQLInterrupt(t *testing.T) {
	s := mysqlPlain.get(t)
	p := startTare(t, s.Addr)
	db := open(t, p.addr, "")
	const sleep, kill = "select sleep(60) as interrupted", "select sleep(60) as killed"
	start := func(text string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), "mysql", mysqlArgs(t, p.addr, "--unbuffered", "--force")...)
		var said bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text+";\nselect 'alive';\n"), &said, &said
		must(t, cmd.Start())
		return cmd, &said
	}
	id := func(text string) (id int) {
		eventually(t, text+" running", func() bool {
			return s.Config(testmysql.RootUser) != nil && open(t, s.Addr, "").QueryRow("select id from performance_schema.processlist where info like ? and id <> connection_id()", text+"%").Scan(&id) == nil
		})
		return id
	}
	c, said := start(kill)
	_, err := db.Exec(fmt.Sprint("kill ", id(kill)))
	must(t, err)
	_ = c.Wait()
	if text := said.String(); !strings.Contains(text, "ERROR 2013") && !strings.Contains(text, "ERROR 1927") && !strings.Contains(text, "ERROR 2006") {
		t.Errorf("killed: %s\nwant a lost connection", text)
	}
	c, said = start(sleep)
	_, err = db.Exec(fmt.Sprint("kill query ", id(sleep)))
	must(t, err)
	_ = c.Wait()
	if text := said.String(); !strings.Contains(text, "alive") {
		t.Errorf("interrupted: %s\nwant a session that goes on", text)
	}
}

// TestMySQLLoad runs sysbench through Tare, with and without prepared statements, and loads a file.
func TestMySQLLoad(t *testing.T) {
	s := mysqlPlain.get(t)
	p := startTare(t, s.Addr, "--bucket", "file://"+t.TempDir(), "--history-interval", "1s")
	cleanSchema(t, "mysqlload", s)
	sysbench(t, "prepare", p.addr, "mysqlload", "oltp_read_write")
	for _, prepared := range []string{"auto", "disable"} {
		out := sysbench(t, "run", p.addr, "mysqlload", "oltp_read_write", "--threads=4", "--db-ps-mode="+prepared, "--time=3")
		if figure(t, queries, out) == 0 || figure(t, reconnects, out) != 0 {
			t.Errorf("%s: %s", prepared, out)
		}
	}
	name := filepath.Join(t.TempDir(), "people.tsv")
	var file strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&file, "%d\tname %d: žluťoučký kůň\n", i, i)
	}
	must(t, os.WriteFile(name, []byte(file.String()), 0o600))
	load := "create table people (id int primary key, name varchar(80)); load data local infile '" + name + "' into table people; show warnings"
	mustRun(t, "", "mysql", mysqlArgs(t, p.addr, "--local-infile=1", "--execute="+load, "mysqlload")...)
	var n int
	scan(t, open(t, p.addr, "mysqlload"), "select count(*) from people where name like '%kůň'", &n)
	if n != 30_000 {
		t.Errorf("%d rows were loaded, want 30000", n)
	}

	// The gateway's data about it: digests, their history, and the table of tare top.
	eventuallyValue(t, p, `sum(tare_queries_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)select count.*people.*"})`, 1)
	_, top := get(t, p.http+"/api/v1/statements?limit=200&source=counters")
	for _, want := range []string{"UPDATE", "sbtest"} {
		if !strings.Contains(top, want) {
			t.Errorf("the statements do not have %q: %.2000s", want, top)
		}
	}
}
