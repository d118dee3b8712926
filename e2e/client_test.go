//go:build e2e

package e2e

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// clientArgs returns a command line of one of MariaDB's clients. Newer ones require TLS by default, and a
// certificate that they can verify.
func clientArgs(t *testing.T, addr string, more ...string) []string {
	return append([]string{
		"--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + port(t, addr),
		"--user=" + testmysql.AppUser, "--password=" + testmysql.Password, "--default-character-set=utf8mb4",
	}, more...)
}

// plain and encrypted return the clients' options for the two kinds of connections.
func plain() []string     { return []string{"--skip-ssl"} }
func encrypted() []string { return []string{"--ssl", "--skip-ssl-verify-server-cert"} }

// userSession is a session of a user: statements over several lines, USE, errors, several results, binary and
// foreign text, and the client's commands.
const userSession = `
create table people (
	id int primary key auto_increment,
	name varchar(40),
	photo blob,
	born date
);
insert into people (name, photo, born) values
	('Žofie', x'00ff10', '1990-02-28'),
	('Łukasz 🐘', null, null),
	('; delimiter "in" a string', '', '2000-01-01');
select
	id, name,
	hex(photo)
from people
order by id;
show warnings;
use information_schema
select database();
select table_rows >= 0 from tables where table_name = 'people' limit 1;
use nowhere
select nothing;
use %s
delimiter //
create procedure twice(n int)
begin
	select n;
	select n * 2, name from people where id = 1;
end//
call twice(21)//
delimiter ;
insert into people (id) values (1);
select * from people where id = 2 \G
warnings
select cast('x' as int);
prepare s from 'select ? + 1';
set @a = 41;
execute s using @a;
start transaction;
delete from people;
rollback;
select count(*) from people;
explain select * from people where id = 1;
drop table people;
select last_insert_id(), row_count(), found_rows();
`

// TestClientSession types the same session into the mariadb client directly and through Tare.
func TestClientSession(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	for name, options := range map[string][]string{"plain": plain(), "ssl": encrypted()} {
		t.Run(name, func(t *testing.T) {
			var said [2]string
			for i, addr := range []string{mariadb.Addr, p.addr} {
				schema := newSchema(t, mariadb, "clientsession")
				args := clientArgs(t, addr, append(options, "--force", "--table", "--unbuffered", "--comments", schema)...)
				stdout, stderr, err := command(t, fmt.Sprintf(userSession, schema), "mariadb", args...)
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
		})
	}
}

// TestClientTLS queries whether the backend connection uses TLS: it does if and only if the client's does.
func TestClientTLS(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	const ask = "select variable_value <> '' from information_schema.session_status where variable_name = 'ssl_cipher'"
	for want, options := range map[string][]string{"0": plain(), "1": encrypted()} {
		got := mustRun(t, "", "mariadb", clientArgs(t, p.addr, append(options, "--batch", "--skip-column-names", "--execute="+ask)...)...)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: TLS on the backend's leg is %s, want %s", options[0], got, want)
		}
	}
}

// TestClientLoadData loads a file of the client through Tare.
func TestClientLoadData(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	schema := newSchema(t, mariadb, "clientload")
	var file bytes.Buffer
	const rows = 50_000
	for i := range rows {
		fmt.Fprintf(&file, "%d\tname %d, and what else there is to say: žluťoučký kůň\n", i, i)
	}
	name := filepath.Join(t.TempDir(), "people.tsv")
	must(t, os.WriteFile(name, file.Bytes(), 0o600))
	db := open(t, mariadb.Addr, schema)
	var want string
	for i, c := range []struct {
		addr    string
		options []string
	}{{mariadb.Addr, plain()}, {p.addr, plain()}, {p.addr, encrypted()}} {
		table := fmt.Sprintf("t%d", i)
		load := fmt.Sprintf("create table %s (id int primary key, name varchar(80)) charset utf8mb4; load data local infile '%s' into table %[1]s; show warnings", table, name)
		mustRun(t, "", "mariadb", clientArgs(t, c.addr, append(c.options, "--local-infile=1", "--execute="+load, schema)...)...)
		var ignored, sum string
		scan(t, db, "checksum table "+table, &ignored, &sum)
		var n int
		scan(t, db, "select count(*) from "+table, &n)
		if want == "" {
			want = sum
		}
		if sum != want || n != rows {
			t.Errorf("load %d: %d rows, sum %s; directly %d, %s", i, n, sum, rows, want)
		}
	}
	// A missing file is an error of the client, and the session continues.
	stdout, stderr, _ := command(t, "load data local infile '/nonexistent' into table t1;\nselect 'still here';", "mariadb",
		clientArgs(t, p.addr, append(plain(), "--local-infile=1", "--force", schema)...)...)
	if !strings.Contains(stderr, "/nonexistent") || !strings.Contains(stdout, "still here") {
		t.Errorf("got %q, %q; want an error that names the file, and a session that goes on", stdout, stderr)
	}
}

// running waits until a statement with this text runs, and returns its connection's id.
func running(t *testing.T, db *sql.DB, text string) (id int) {
	t.Helper()
	eventually(t, text+" running", func() bool {
		return db.QueryRowContext(t.Context(), "select id from information_schema.processlist where info like ? and id <> connection_id()", text+"%").Scan(&id) == nil
	})
	return id
}

// longStatement starts a mariadb client with a statement that takes a minute.
func longStatement(t *testing.T, addr, text string) (wait func() (stdout, stderr string, err error), interrupt func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "mariadb", clientArgs(t, addr, append(plain(), "--unbuffered", "--force")...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin = strings.NewReader(text + ";\nselect 'alive';\n")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(t, cmd.Start())
	return func() (string, string, error) {
			err := cmd.Wait()
			return stdout.String(), stderr.String(), err
		}, func() {
			must(t, cmd.Process.Signal(syscall.SIGINT))
		}
}

// TestClientInterrupt presses Ctrl-C in the client while its statement runs: it sends a KILL for the
// connection id it received, which Tare has to translate.
func TestClientInterrupt(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	db := open(t, mariadb.Addr, "")
	const text = "select sleep(60) as interrupted"
	wait, interrupt := longStatement(t, p.addr, text)
	running(t, db, text)
	interrupt()
	stdout, stderr, _ := wait()
	if !strings.Contains(stderr+stdout, "query killed") || !strings.Contains(stderr, "1317") {
		t.Errorf("Ctrl-C: %s%s\nwant error 1317", stdout, stderr)
	}
	if !strings.Contains(stdout, "alive") {
		t.Errorf("the session ended with its statement: %s%s", stdout, stderr)
	}
}

// TestClientKill kills another client's connection through Tare.
func TestClientKill(t *testing.T) {
	p := startTare(t, mariadb.Addr)
	db := open(t, p.addr, "")
	const text = "select sleep(60) as killed"
	wait, _ := longStatement(t, p.addr, text)
	id := running(t, db, text)
	mustRun(t, "", "mariadb", clientArgs(t, p.addr, append(plain(), fmt.Sprintf("--execute=kill %d", id))...)...)
	stdout, stderr, _ := wait()
	if !strings.Contains(stderr, "ERROR 2013") && !strings.Contains(stderr, "ERROR 1927") && !strings.Contains(stderr, "ERROR 2006") {
		t.Errorf("killed: %s%s\nwant a lost connection", stdout, stderr)
	}
}
