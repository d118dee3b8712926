package testmysql

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A product is the set of differences between the servers that this package can start.
type product struct {
	find  func() (program string, err error)
	owner func() (owner, error)

	// initialise creates a data directory in a work directory, with the accounts and the schema.
	initialise func(program string, o owner, work string) error

	// key identifies a template, together with the program's version.
	key string

	// common are arguments that keep the server small and quick.
	common []string
	binlog []string // additional arguments for WithBinlog
}

// mariaDB returns the server in a directory of programs, or in PATH if it is "".
func mariaDB(dir string) *product {
	p := &product{
		find:       func() (string, error) { return findProgram(dir, "mariadbd", "mysqld") },
		owner:      serverOwner,
		initialise: func(program string, o owner, work string) error { return initialiseMariaDB(dir, program, o, work) },
		key:        templateSQL + logFileSize,
		common:     []string{"--innodb-flush-method=nosync", "--debug-no-sync", logFileSize, "--key-buffer-size=1M", "--aria-pagecache-buffer-size=4M"},
		binlog:     []string{"--binlog-format=ROW"},
	}
	if dir != "" {
		p.common = append(p.common, "--basedir="+dir)
	}
	return p
}

// mySQL runs as the current user, even as root: its directory belongs to that user, and other users may not
// be able to read it.
func mySQL(dir string) *product {
	return &product{
		find:       func() (string, error) { return findMySQL(dir) },
		owner:      func() (owner, error) { return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil },
		initialise: initialiseMySQL,
		key:        mysqlTemplateSQL + redoLogCapacity,
		common:     append([]string{"--innodb-flush-method=nosync", redoLogCapacity, "--mysqlx=OFF"}, asRoot()...),
	}
}

// redoLogCapacity is the same in the template and in the servers, as logFileSize is.
const redoLogCapacity = "--innodb-redo-log-capacity=16M"

// mysqlTemplateSQL is templateSQL for MySQL, one statement per line.
const mysqlTemplateSQL = `DROP USER '` + RootUser + `'@'localhost';
CREATE USER '` + RootUser + `'@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL PRIVILEGES ON *.* TO '` + RootUser + `'@'%' WITH GRANT OPTION;
CREATE USER '` + AppUser + `'@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL PRIVILEGES ON ` + "`%`" + `.* TO '` + AppUser + `'@'%';
CREATE DATABASE ` + DefaultSchema + ` CHARACTER SET utf8mb4;
`

// ErrNoMySQL reports that no MySQL server was found.
var ErrNoMySQL = errors.New("no mysqld of MySQL (rather than MariaDB) found in PATH: .ci/unpack mysql DIR unpacks one, whose DIR/bin belongs into PATH then")

// findMySQL returns the path of MySQL's mysqld; MariaDB's may have the same name.
func findMySQL(in string) (string, error) {
	dirs := programDirs(in)
	if in == "" {
		dirs = append(filepath.SplitList(os.Getenv("PATH")), dirs...)
	}
	for _, dir := range dirs {
		path, err := exec.LookPath(filepath.Join(dir, "mysqld"))
		if err != nil || !filepath.IsAbs(path) {
			continue
		}
		if version, err := exec.Command(path, "--no-defaults", "--version").Output(); err == nil && !bytes.Contains(version, []byte("MariaDB")) {
			return path, nil
		}
	}
	return "", ErrNoMySQL
}

// asRoot returns the arguments that mysqld requires to run as root.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

func initialiseMySQL(mysqld string, _ owner, work string) error {
	script := filepath.Join(work, "accounts.sql")
	if err := os.WriteFile(script, []byte(mysqlTemplateSQL), 0o600); err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	args := append([]string{"--no-defaults", "--initialize-insecure", "--datadir=" + data, "--init-file=" + script, "--secure-file-priv=", redoLogCapacity}, asRoot()...)
	if out, err := exec.Command(mysqld, args...).CombinedOutput(); err != nil || strings.Contains(string(out), "[ERROR]") {
		return fmt.Errorf("%s --initialize-insecure: %w\n%s", mysqld, err, out)
	}
	// The server's id: each copy of the template creates a new one.
	return os.Remove(filepath.Join(data, "auto.cnf"))
}
