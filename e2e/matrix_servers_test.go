//go:build e2e

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// Directories of further servers, separated as in PATH.
const (
	mariaDBDirs = "TARE_MARIADB_DIR"
	mySQLDirs   = "TARE_MYSQL_DIR"
)

// startMatrixServers starts the available servers: those in PATH, those of the directories, and TiDB. missing
// has the reason for each column without a server.
func startMatrixServers(t *testing.T) (servers []matrixServer, missing map[string]string) {
	missing = map[string]string{
		"MariaDB 10.11": "PATH and " + mariaDBDirs + " have another version",
		"MariaDB 11.8":  mariaDBDirs + " names no such server: make mariadb unpacks one",
		"MySQL 8.0":     mySQLDirs + " names no such server",
		"MySQL 8.4":     mySQLDirs + " names no such server",
		"MySQL 9.7":     "PATH and " + mySQLDirs + " have another version",
	}
	start := func(dir string, opts ...testmysql.Option) {
		opts = append(opts, testmysql.WithTLS())
		if dir != "" {
			opts = append(opts, testmysql.WithPrograms(dir))
		}
		s, err := testmysql.New(opts...)
		if errors.Is(err, testmysql.ErrNoMySQL) && dir == "" {
			missing["MySQL 9.7"] = "no MySQL server in PATH: .ci/unpack reports why"
			return
		}
		if err != nil {
			t.Fatalf("start the server in %q: %v", dir, err)
		}
		t.Cleanup(func() { must(t, s.Close()) })
		servers = append(servers, describeServer(t, s))
	}
	mariaDB := []testmysql.Option{testmysql.WithEd25519()}
	mySQL := []testmysql.Option{testmysql.WithMySQL(), testmysql.WithSetup("create user if not exists sha256@'%' identified with sha256_password by '"+matrixPassword+"'",
		"grant all on matrix.* to sha256@'%'")}
	start("", mariaDB...)
	for _, dir := range filepath.SplitList(os.Getenv(mariaDBDirs)) {
		start(dir, mariaDB...)
	}
	start("", mySQL...)
	for _, dir := range filepath.SplitList(os.Getenv(mySQLDirs)) {
		start(dir, mySQL...)
	}
	if addr, err := tiDB(t); err != nil {
		missing["TiDB 8.4"] = err.Error()
	} else {
		servers = append(servers, matrixServer{"TiDB 8.4", addr, []string{testmysql.AppUser, "sha"}, tiDBExec(t, addr)})
	}
	for _, s := range servers {
		delete(missing, s.name)
	}
	return servers, missing
}

var versionStart = regexp.MustCompile(`^\d+\.\d+`)

// describeServer asks a server for its version.
func describeServer(t *testing.T, s *testmysql.Server) matrixServer {
	t.Helper()
	var version string
	scan(t, open(t, s.Addr, ""), "select version()", &version)
	m := matrixServer{name: "MySQL ", addr: s.Addr, accounts: []string{testmysql.AppUser, "sha256"}, exec: s.Exec}
	if regexp.MustCompile(`(?i)mariadb`).MatchString(version) {
		m.name, m.accounts = "MariaDB ", []string{testmysql.AppUser, testmysql.EdUser}
	}
	m.name += versionStart.FindString(version)
	return m
}
