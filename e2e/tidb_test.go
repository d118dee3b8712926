//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// tiDB runs the server built by `make tidb`, with TLS, until the test ends.
func tiDB(t *testing.T) (addr string, err error) {
	t.Helper()
	program, err := filepath.Abs("../.tools/tidb/tidb-server")
	must(t, err)
	if _, err := exec.LookPath(program); err != nil {
		return "", errors.New("there is no TiDB server: make tidb builds one")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeCertificate(t, in("cert.pem"), in("key.pem"), "localhost")
	must(t, os.WriteFile(in("config.toml"), fmt.Appendf(nil, "[security]\nssl-cert = %q\nssl-key = %q\n", in("cert.pem"), in("key.pem")), 0o600))
	addr = testmysql.StartTiDB(t, program, dir, "-config", in("config.toml"))
	must(t, tiDBExec(t, addr)("create user if not exists app@'%' identified by '"+testmysql.Password+"'", "grant all on *.* to app@'%'",
		"create user if not exists sha@'%' identified with caching_sha2_password by '"+testmysql.Password+"'", "grant all on *.* to sha@'%'"))
	return addr, nil
}

// startTiDB is tiDB for tests that are skipped if there is none.
func startTiDB(t *testing.T) (addr string) {
	t.Helper()
	addr, err := tiDB(t)
	if err != nil {
		t.Skipf("UNTESTED: %v", err)
	}
	return addr
}

// tiDBExec runs statements as TiDB's root.
func tiDBExec(t *testing.T, addr string) func(statements ...string) error {
	return func(statements ...string) error {
		_, stderr, err := command(t, strings.Join(statements, ";\n"), "mariadb", "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+port(t, addr), "--user=root", "--skip-ssl")
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		return nil
	}
}
