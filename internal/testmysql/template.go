package testmysql

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// logFileSize is the size of InnoDB's redo log, the same in the template and in the servers: another size
// would make each start rewrite it.
const logFileSize = "--innodb-log-file-size=8M"

// templateSQL replaces the accounts of a fresh installation. Its anonymous users would shadow 'app'@'%' for
// clients on this host, and root could log in only by Unix socket.
const templateSQL = `FLUSH PRIVILEGES;
DELETE FROM mysql.global_priv WHERE User NOT IN ('mariadb.sys');
FLUSH PRIVILEGES;
CREATE USER '` + RootUser + `'@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL PRIVILEGES ON *.* TO '` + RootUser + `'@'%' WITH GRANT OPTION;
CREATE USER '` + AppUser + `'@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL PRIVILEGES ON ` + "`%`" + `.* TO '` + AppUser + `'@'%';
CREATE DATABASE IF NOT EXISTS ` + DefaultSchema + ` CHARACTER SET utf8mb4;
`

// missing is the error for a missing MariaDB server.
const missing = `no %s found in PATH, /usr/sbin, /usr/local/sbin, /usr/libexec or /usr/local/bin: install MariaDB's server
	Debian, Ubuntu:  apt-get install mariadb-server
	Fedora, RHEL:    dnf install mariadb-server
	Alpine:          apk add mariadb
	macOS:           brew install mariadb`

// programDirs returns the directories to search for a server's programs, below in or, if it is "", in
// addition to PATH, which often lacks servers for ordinary users.
func programDirs(in string) (dirs []string) {
	if in == "" {
		return []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin"}
	}
	for _, sub := range []string{"bin", "sbin", "libexec", "scripts"} {
		dirs = append(dirs, filepath.Join(in, sub))
	}
	return dirs
}

// findProgram returns the path of one of MariaDB's programs.
func findProgram(in string, names ...string) (string, error) {
	for _, name := range names {
		if p, err := exec.LookPath(name); err == nil && in == "" {
			return p, nil
		}
		for _, dir := range programDirs(in) {
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return p, nil
			}
		}
	}
	if in != "" {
		return "", fmt.Errorf("no %s in %s", names[0], in)
	}
	return "", fmt.Errorf(missing, names[0])
}

// templateDir returns the initialized data directory for this server program, and creates it if the cache has
// none. Concurrent processes wait for the first one.
func templateDir(p *product, program string, o owner) (string, error) {
	version, err := exec.Command(program, "--no-defaults", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	key := sha256.Sum256(append(bytes.TrimSpace(version), p.key...))
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), fmt.Sprintf("tare-cache-%d", os.Getuid()))
	}
	cache = filepath.Join(cache, "tare", "testmysql")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("make the cache of data directories: %w", err)
	}

	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("open the lock of the cache of data directories: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the cache of data directories: %w", err)
	}
	dir := filepath.Join(cache, fmt.Sprintf("%x", key[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for the template: %w", err)
	}
	if err := makeTemplate(p, program, o, dir); err != nil {
		return "", fmt.Errorf("initialise a data directory: %w", err)
	}
	return dir, nil
}

// makeTemplate initializes a data directory and moves it to dir when it is complete. The work happens in a
// directory that is accessible to the server's user, which a cache may not be.
func makeTemplate(p *product, program string, o owner, dir string) (err error) {
	work, err := makeWorkDir(o, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	if err := p.initialise(program, o, work.path); err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := copyTree(partial, filepath.Join(work.path, "data"), o); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

func initialiseMariaDB(dir, mariadbd string, o owner, work string) error {
	install, err := findProgram(dir, "mariadb-install-db", "mysql_install_db")
	if err != nil {
		return err
	}
	data := filepath.Join(work, "data")
	args := []string{
		"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", logFileSize,
	}
	if dir != "" {
		args = append(args, "--basedir="+dir)
	}
	if o.switches {
		args = append(args, "--user="+o.name)
	}
	if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", install, err, out)
	}

	args = []string{"--no-defaults", "--bootstrap", "--datadir=" + data, "--skip-networking", logFileSize}
	if dir != "" {
		args = append(args, "--basedir="+dir)
	}
	if o.switches {
		args = append(args, "--user="+o.name)
	}
	bootstrap := exec.Command(mariadbd, args...)
	bootstrap.Stdin = strings.NewReader(templateSQL)
	out, err := bootstrap.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("ERROR")) {
		return fmt.Errorf("create the accounts: %w\n%s", err, out)
	}
	return nil
}

// copyTree copies a data directory, file by file, and gives it to the server's user.
func copyTree(to, from string, owner owner) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(target, path)
		}
		if err != nil {
			return fmt.Errorf("copy the data directory: %w", err)
		}
		return owner.own(target)
	})
}

// copyFile copies one file within the kernel.
func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := dst.ReadFrom(src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}
