package main

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

// A dataDir holds what outlives the process. It is locked against another process while it is
// open. A nil dataDir holds nothing.
type dataDir struct {
	path  string
	lock  *os.File
	state *localstate.Store
}

// openDataDir opens the directory of --data-dir, or, when that is empty, the default one: where
// that cannot be had, a server that was not told where to keep its data goes on without.
func openDataDir(path string, getenv func(string) string, log *slog.Logger) (*dataDir, error) {
	if path != "" {
		return lockDataDir(path, log)
	}
	path, err := defaultDataDir(getenv)
	var d *dataDir
	if err == nil {
		d, err = lockDataDir(path, log)
	}
	if err != nil {
		log.Warn("no data directory: the query log cannot report records lost by a kill; name another one with --data-dir", "err", err)
		return nil, nil
	}
	return d, nil
}

// requireDataDir opens the directory of --data-dir, or the default one, for who cannot go on without.
func requireDataDir(path string, getenv func(string) string, log *slog.Logger) (*dataDir, error) {
	if path == "" {
		var err error
		if path, err = defaultDataDir(getenv); err != nil {
			return nil, fmt.Errorf("choose a data directory: %w; name one with --data-dir", err)
		}
	}
	return lockDataDir(path, log)
}

// defaultDataDir is systemd's StateDirectory=, else what the XDG Base Directory Specification
// says for state.
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

func lockDataDir(path string, log *slog.Logger) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	file := filepath.Join(path, "lock")
	if !localstate.IsFile(file) {
		// No process can hold it: there is nothing to take part in yet.
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
	return &dataDir{path: path, lock: lock, state: localstate.Open(path, nil, log)}, nil
}

// file is the path of a file in the directory, "" when there is no directory.
func (d *dataDir) file(name string) string {
	if d == nil {
		return ""
	}
	return filepath.Join(d.path, name)
}

// losses returns the local state that could not be used, the newest first.
func (d *dataDir) losses() []localstate.Loss {
	if d == nil {
		return nil
	}
	return d.state.Losses()
}

// close gives the directory up. The lock's file stays: a process that waits for it has it open.
func (d *dataDir) close() error {
	if d == nil {
		return nil
	}
	return d.lock.Close()
}
