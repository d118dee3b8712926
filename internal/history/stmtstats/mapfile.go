package stmtstats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/localstate"
)

// Names in Options.Dir. Tables are replaced by renaming, so the lock is a separate file.
const (
	tableName = "digests.table"
	lockName  = "digests.lock"
	newSuffix = ".new"
)

// The pieces of a table in the data directory, with the effect of their loss.
var (
	tablePiece = localstate.Piece{Name: "digest table", Lost: "the counters of all statements, which start at 0"}
	lockPiece  = localstate.Piece{Name: "digest table lock", Lost: "nothing"}
)

// A mapFile is the memory of a table: a mapped file, which the kernel keeps when the process is killed, or
// anonymous memory.
type mapFile struct {
	raw  []byte
	lock *os.File // nil: no file
}

// anonymous returns memory without a file.
func anonymous(bytes int64) (*mapFile, error) {
	raw, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return &mapFile{raw: raw}, nil
}

// lockDir locks the directory's table against other processes.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process uses it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// mapExisting maps a whole file. It returns nil without an error if there is none.
func mapExisting(path string) ([]byte, error) {
	if !localstate.IsFile(path) {
		return nil, localstate.ErrNotFile // before a pipe is opened, which blocks
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < headerBytes {
		return []byte{}, nil // too short for a header
	}
	return mapShared(f, info.Size())
}

// mapNew creates a file of zeroes and maps it.
func mapNew(path string, bytes int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := reserve(f, bytes); err != nil {
		return nil, fmt.Errorf("reserve %d bytes for %s: %w", bytes, path, err)
	}
	return mapShared(f, bytes)
}

// reserve allocates the file's blocks on the disk: the first use of a page without a block on a full disk
// would end the process.
func reserve(f *os.File, bytes int64) error {
	err := localstate.Allocate(f, bytes)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	zeroes := make([]byte, 1<<20)
	for at := int64(0); at < bytes; at += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes[:min(int64(len(zeroes)), bytes-at)], at); err != nil {
			return err
		}
	}
	return nil
}

func mapShared(f *os.File, bytes int64) ([]byte, error) {
	raw, err := unix.Mmap(int(f.Fd()), 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return raw, nil
}

func (m *mapFile) close() error {
	err := unix.Munmap(m.raw)
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}
