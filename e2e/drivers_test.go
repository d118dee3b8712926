//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// The drivers of other languages, by number, so that a run is repeatable.
var (
	pythonDrivers = []string{"PyMySQL==1.1.1", "mysql-connector-python==9.1.0"}
	nodeDrivers   = []string{"mysql2@3.11.5"}
)

// compareScript runs a program directly and through, plain and with TLS: it has to see the
// same, up to its last line.
func compareScript(t *testing.T, name string, args ...string) {
	t.Helper()
	p := startTare(t, mariadb.Addr)
	for _, security := range []string{"plain", "tls"} {
		t.Run(security, func(t *testing.T) {
			var saw [2]string
			for i, addr := range []string{mariadb.Addr, p.addr} {
				schema := newSchema(t, mariadb, "drivers")
				saw[i] = mustRun(t, "", name, append(args, security, "127.0.0.1", port(t, addr), testmysql.AppUser, testmysql.Password, schema)...)
			}
			if !strings.HasSuffix(saw[1], "done\n") {
				t.Errorf("the program did not come to its end:\n%s", saw[1])
			}
			if first, _, _ := strings.Cut(saw[1], "\n"); strings.Contains(first, "1") != (security == "tls") {
				t.Errorf("TLS %s: %s", security, first)
			}
			// Addresses are the one thing that may differ.
			if through := strings.ReplaceAll(saw[1], p.addr, mariadb.Addr); through != saw[0] {
				t.Errorf("through Tare it differs: %s", difference(through, saw[0]))
			}
		})
	}
}

func TestPython(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "", "python3", append([]string{
		"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--target", dir,
	}, pythonDrivers...)...)
	t.Setenv("PYTHONPATH", dir)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	t.Setenv("PYTHONIOENCODING", "utf-8")
	for _, driver := range []string{"pymysql", "connector", "connector-pure", "connector-compressed", "connector-pure-compressed"} {
		t.Run(driver, func(t *testing.T) { compareScript(t, "python3", "testdata/drivers.py", driver) })
	}
}

func TestNode(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "", "npm", append([]string{"install", "--prefix", dir, "--cache", dir + "/cache", "--silent", "--no-audit", "--no-fund"}, nodeDrivers...)...)
	t.Setenv("NODE_PATH", dir+string(os.PathSeparator)+"node_modules")
	compareScript(t, "node", "testdata/driver.mjs")
}
