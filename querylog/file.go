package querylog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// A file is an output that appends to a file. It goes on in a new one when the path no
// longer leads to the file that is open, and when reopen was called.
type file struct {
	path string
	mode fs.FileMode

	f    *os.File    // of the writer
	info fs.FileInfo // f's identity
	size int64       // bytes in f

	mu   sync.Mutex
	next *os.File // opened by reopen, not yet taken by the writer
}

func openFile(path string, mode fs.FileMode) (*file, error) {
	o := &file{path: path, mode: mode}
	f, err := o.open()
	if err != nil {
		return nil, err
	}
	return o, o.use(f)
}

func (o *file) open() (*os.File, error) {
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, o.mode)
	if err != nil {
		return nil, fmt.Errorf("open query log: %w", err)
	}
	return f, nil
}

// use makes f the file that is written.
func (o *file) use(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open query log: %w", err), f.Close())
	}
	if o.f != nil {
		err = o.f.Close()
	}
	o.f, o.info, o.size = f, info, info.Size()
	return err
}

// reopen opens the path again. When that fails the file in use stays in use.
func (o *file) reopen() error {
	f, err := o.open()
	if err != nil {
		return err
	}
	o.mu.Lock()
	f, o.next = o.next, f
	o.mu.Unlock()
	if f != nil {
		return f.Close() // never written: a later reopen came before the writer
	}
	return nil
}

// turn takes the file that reopen opened, or opens the path anew when it no longer leads
// to the file in use.
func (o *file) turn() error {
	o.mu.Lock()
	f := o.next
	o.next = nil
	o.mu.Unlock()
	if f == nil {
		if info, err := os.Stat(o.path); err == nil && os.SameFile(info, o.info) {
			return nil
		}
		var err error
		if f, err = o.open(); err != nil {
			return err // the file in use, wherever it is, stays in use
		}
	}
	return o.use(f)
}

func (o *file) write(p []byte) (int, error) {
	turned := o.turn()
	n, err := o.f.Write(p)
	if err != nil {
		err = fmt.Errorf("write query log: %w", err)
		n, err = o.untear(p, n, err)
	}
	o.size += int64(n)
	return n, errors.Join(err, turned)
}

// untear takes back the beginning of a line that a failed write left in the file.
func (o *file) untear(p []byte, n int, err error) (int, error) {
	whole := bytes.LastIndexByte(p[:n], '\n') + 1
	if whole < n {
		if terr := o.f.Truncate(o.size + int64(whole)); terr != nil {
			err = errors.Join(err, fmt.Errorf("take back half a line: %w", terr))
		}
	}
	return whole, err
}

func (o *file) close() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.next != nil {
		err = o.next.Close()
	}
	return 0, errors.Join(err, o.f.Close())
}
