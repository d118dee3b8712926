package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// A DataDir is a directory for data that outlives the process. It is locked against other processes while it
// is open. A nil DataDir contains nothing.
type DataDir struct {
	Path  string
	State *localstate.Store
	lock  *os.File
}

// OpenData opens the directory of --data-dir. By default it is sub in the user's or the service's directory
// for state. If the default is unusable and required is false, the server runs without it and logs a warning.
func (s *Server) OpenData(sub string, required bool) (err error) {
	path := s.DataDir
	if path == "" {
		if path, err = defaultDataDir(os.Getenv); err != nil {
			err = fmt.Errorf("choose a data directory: %w; name one with --data-dir", err)
		}
		path = filepath.Join(path, sub)
	}
	if err == nil {
		s.Data, err = lockDataDir(path, s.Log)
	}
	if err != nil && s.DataDir == "" && !required {
		s.Log.Warn("no data directory: the query log cannot report records lost by a kill; name another one with --data-dir", "err", err)
		return nil
	}
	return err
}

// defaultDataDir returns systemd's StateDirectory=, otherwise the directory for state of the XDG Base
// Directory Specification.
func defaultDataDir(getenv func(string) string) (string, error) {
	if dirs := getenv("STATE_DIRECTORY"); dirs != "" {
		dir, _, _ := strings.Cut(dirs, ":")
		return dir, nil
	}
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "tare"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tare"), nil
	}
	return "", errors.New("none of $STATE_DIRECTORY, $XDG_STATE_HOME and $HOME is set")
}

func lockDataDir(path string, log *slog.Logger) (*DataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	file := filepath.Join(path, "lock")
	if !localstate.IsFile(file) {
		// No process has a lock on it.
		aside := file + "." + localstate.AsideName + "-" + time.Now().UTC().Format("20060102T150405.000Z")
		if err := os.Rename(file, aside); err != nil {
			return nil, fmt.Errorf("lock data directory: %w", err)
		}
		log.Warn("data directory's lock is not a file: replaced", "path", file, "set_aside_as", aside)
	}
	lock, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process uses it: give each its own --data-dir")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", path, err), lock.Close())
	}
	return &DataDir{Path: path, lock: lock, State: localstate.Open(path, nil, log)}, nil
}

// File returns the path of a file in the directory, "" if there is no directory.
func (d *DataDir) File(name string) string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.Path, name)
}

// Losses returns the local state that could not be used, the newest first.
func (d *DataDir) Losses() []localstate.Loss {
	if d == nil {
		return nil
	}
	return d.State.Losses()
}

// close unlocks the directory. The lock's file stays: a process that waits for it has it open.
func (d *DataDir) close() error {
	if d == nil {
		return nil
	}
	return d.lock.Close()
}
