//go:build e2e

package e2e

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// startTiDB runs the server that `make tidb` builds. Where there is none, the test is skipped.
func startTiDB(t *testing.T) (addr string) {
	t.Helper()
	program, err := filepath.Abs("../.tools/tidb/tidb-server")
	must(t, err)
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("UNTESTED: there is no TiDB server; make tidb builds one")
	}
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	addr, status := free(), free()
	cmd := exec.CommandContext(t.Context(), program, "-store", "unistore", "-path", t.TempDir(), "-host", "127.0.0.1", "-P", port(t, addr), "-status", port(t, status), "-log-file", filepath.Join(t.TempDir(), "log"))
	cmd.Dir = t.TempDir() // of its log of slow statements
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // its context is cancelled before
	setup := "create user app@'%' identified by '" + testmysql.Password + "'; grant all on *.* to app@'%'; create user sha@'%' identified with caching_sha2_password by '" + testmysql.Password + "'"
	eventually(t, "TiDB serving", func() bool {
		_, _, err := command(t, "", "mariadb", "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+port(t, addr), "--user=root", "--skip-ssl", "--execute="+setup)
		return err == nil
	})
	return addr
}

// TestTiDBClients types the same session into MySQL's and MariaDB's clients, directly and through.
// MySQL's has no mysql_native_password, and TiDB requires TLS of the other account: it sees the error.
func TestTiDBClients(t *testing.T) {
	addr := startTiDB(t)
	p := startTare(t, addr)
	for _, client := range []struct {
		name, want string
		args       func(t *testing.T, addr string) []string
	}{
		{"mariadb", "Łukasz 🐘", func(t *testing.T, addr string) []string { return clientArgs(t, addr, "--skip-ssl") }},
		{"mysql", "ERROR 1045", func(t *testing.T, addr string) []string {
			return mysqlArgs(t, addr, "--ssl-mode=DISABLED", "--user=sha")
		}},
	} {
		t.Run(client.name, func(t *testing.T) {
			for range 2 { // through, the second login knows the method of the first
				var said [2]string
				for i, at := range []string{addr, p.addr} {
					session := strings.ReplaceAll("drop database if exists s; create database s; use s\n"+userSession, "%s", "s")
					stdout, stderr, err := command(t, session, client.name, append(client.args(t, at), "--force", "--table", "--unbuffered")...)
					if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
						t.Fatal(err)
					}
					said[i] = stdout + "--- errors\n" + stderr
				}
				if said[0] != said[1] || !strings.Contains(said[1], client.want) {
					t.Errorf("through Tare:\n%s\ndirectly:\n%s", said[1], said[0])
				}
			}
		})
	}
}
