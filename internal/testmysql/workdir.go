package testmysql

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testdir"
)

const (
	workDirPattern = "tare-mysql-"

	// maxWorkDirPath leaves room for the socket's name in sockaddr_un, whose limit is 107 bytes.
	maxWorkDirPath = 90
)

// An owner is the user that the server runs as: the current one, or mysql for root, because mariadbd refuses
// to run as root.
type owner struct {
	name     string
	uid, gid int
	switches bool // the server's user differs from the current one
}

func serverOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		return owner{}, fmt.Errorf("find the user that MariaDB's package makes (mariadbd does not run as root): %w", err)
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	if err := errors.Join(errUID, errGID); err != nil {
		return owner{}, fmt.Errorf("read the ids of user mysql: %w", err)
	}
	return owner{name: u.Username, uid: uid, gid: gid, switches: true}, nil
}

// own changes a file's owner to the server's user.
func (o owner) own(path string) error {
	if !o.switches {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}

// A workDir is a temporary directory of one server. Its lock is held as long as this process lives, which
// distinguishes used directories from abandoned ones.
type workDir struct {
	path string
	lock *os.File
}

// makeWorkDir creates the directory of a server below parent, or, if that is empty, where tests have room.
func makeWorkDir(o owner, parent string) (*workDir, error) {
	given := parent != ""
	if !given {
		parent = os.TempDir()
	}
	// Servers that create and drop tables frequently are several times as fast in memory. Tests use it;
	// benchmarks, which may be large, use a disk.
	if !given && testing.Testing() && os.Getenv("TMPDIR") == "" && testdir.HasRoom(testdir.Memory) {
		parent = testdir.Memory
	}
	if len(parent) > maxWorkDirPath-len(workDirPattern)-10 {
		if given {
			return nil, fmt.Errorf("create the server's directory in %s: the path is too long for a socket", parent)
		}
		parent = "/tmp" // a socket's path must be short
	}
	removeDeadWorkDirs(parent)
	path, err := os.MkdirTemp(parent, workDirPattern)
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", err)
	}
	w := &workDir{path: path}
	// The lock gets its name after it is locked: no process can find it unlocked.
	w.lock, err = os.OpenFile(filepath.Join(path, "lock.new"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(w.lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(w.lock.Name(), filepath.Join(path, "lock"))
	}
	if err == nil {
		err = o.own(path)
	}
	if err != nil {
		return nil, fmt.Errorf("make the server's directory: %w", errors.Join(err, w.remove()))
	}
	return w, nil
}

func (w *workDir) remove() error {
	err := os.RemoveAll(w.path)
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
	}
	return err
}

// removeDeadWorkDirs removes directories of killed programs as far as permitted: those of other users stay.
func removeDeadWorkDirs(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, workDirPattern+"*"))
	if err != nil {
		panic("BUG: " + err.Error()) // the pattern is a constant
	}
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // being created, being removed, or another user's
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
				fmt.Fprintf(os.Stderr, "testmysql: remove the directory of a dead server: %v\n", err)
			}
		}
		lock.Close()
	}
}
