package querylog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// A file is an output that appends to a file. It switches to a new one if the file has been removed, after
// reopen, and when its rotation is due. A file that was only renamed stays in use until reopen, as programs
// that rotate logs expect. If the switch fails, the current file stays in use.
type file struct {
	path     string
	mode     fs.FileMode
	rotation Rotation
	log      *slog.Logger

	f    *os.File       // used by the writer only, as all below
	fd   int            // f's descriptor
	stat syscall.Stat_t // of f, at the last check
	size int64          // bytes in f
	last time.Time      // last write to f

	tidier

	mu   sync.Mutex
	next *os.File // opened by reopen, not yet used by the writer
}

func openFile(path string, mode fs.FileMode, r Rotation, log *slog.Logger) (*file, error) {
	o := &file{path: path, mode: mode, rotation: r, log: log}
	f, err := o.open()
	if err != nil {
		return nil, err
	}
	if err := o.use(f); err != nil {
		return nil, err
	}
	o.tidy(o) // files of an earlier run
	return o, nil
}

func (o *file) open() (*os.File, error) {
	how := os.O_WRONLY
	info, err := os.Stat(o.path)
	created := errors.Is(err, fs.ErrNotExist)
	if err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		how = os.O_RDWR // opening a pipe without a reader must not block: it is a slow sink
	}
	f, err := os.OpenFile(o.path, how|os.O_APPEND|os.O_CREATE, o.mode)
	if err != nil {
		return nil, fmt.Errorf("open query log: %w", err)
	}
	if created {
		err = f.Chmod(o.mode) // whatever the process's umask is
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open query log: %w", err), f.Close())
	}
	return f, nil
}

// use makes f the current file.
func (o *file) use(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open query log: %w", err), f.Close())
	}
	if o.f != nil {
		err = o.f.Close()
	}
	o.f, o.fd, o.size, o.last = f, int(f.Fd()), info.Size(), info.ModTime()
	return err
}

// reopen opens the path again. On failure the current file stays in use.
func (o *file) reopen() error {
	f, err := o.open()
	if err != nil {
		return err
	}
	o.mu.Lock()
	f, o.next = o.next, f
	o.mu.Unlock()
	if f != nil {
		return f.Close() // not used: the writer has not taken an earlier reopen yet
	}
	return nil
}

// switchFile switches to the file that reopen opened, or creates a new one if the current file has been removed.
func (o *file) switchFile() error {
	o.mu.Lock()
	f := o.next
	o.next = nil
	o.mu.Unlock()
	if f == nil {
		if err := syscall.Fstat(o.fd, &o.stat); err != nil || o.stat.Nlink > 0 {
			return nil // in doubt, the write reports the error
		}
		var err error
		if f, err = o.open(); err != nil {
			return err
		}
	}
	return o.use(f)
}

// rotate moves the current file aside and starts a new one.
func (o *file) rotate(now time.Time) error {
	old := rotatedPath(o.path, now)
	if err := os.Rename(o.path, old); err != nil {
		return fmt.Errorf("rotate query log: %w", err)
	}
	f, err := o.open()
	if err != nil {
		return errors.Join(err, os.Rename(old, o.path))
	}
	err = o.use(f)
	o.tidy(o)
	return err
}

func (o *file) write(p []byte) (int, error) {
	turned := o.switchFile()
	now := time.Now()
	if turned == nil && o.rotation.due(o.size, o.last, now, len(p)) {
		turned = o.rotate(now)
	}
	n, err := o.f.Write(p)
	if err != nil {
		err = fmt.Errorf("write query log: %w", err)
		n, err = o.truncateTorn(p, n, err)
	}
	o.size += int64(n)
	o.last = now
	return n, errors.Join(err, turned)
}

// truncateTorn truncates the partial line that a failed write left in the file.
func (o *file) truncateTorn(p []byte, n int, err error) (int, error) {
	whole := bytes.LastIndexByte(p[:n], '\n') + 1
	if whole < n {
		if terr := o.f.Truncate(o.size + int64(whole)); terr != nil {
			err = errors.Join(err, fmt.Errorf("take back half a line: %w", terr))
		}
	}
	return whole, err
}

func (o *file) close() (int, error) {
	o.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.next != nil {
		err = o.next.Close()
	}
	return 0, errors.Join(err, o.f.Close())
}
