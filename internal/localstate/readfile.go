package localstate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrNotFile is the cause of a loss if something other than a regular file was found.
var ErrNotFile = errors.New("not a regular file")

// MaxFile is the size of the largest file that ReadFile and ReadInput read.
const MaxFile = 16 << 20

// pipeTime is how long ReadInput waits for the end of a pipe.
const pipeTime = 10 * time.Second

// ReadFile returns the content of a regular file of at most MaxFile bytes. It refuses other files without blocking: opening
// a named pipe would block until a process writes to it, and devices have no end.
func ReadFile(path string) ([]byte, error) { return read(path, false) }

// ReadInput is ReadFile for a file that is read once: it also reads a pipe, such as that of a shell's process substitution,
// to its end. An empty pipe is an error: it has no writer, or was read before.
func ReadInput(path string) ([]byte, error) { return read(path, true) }

// read returns the content of a regular file or, if allowed, of a pipe.
func read(path string, pipes bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotFile} // a socket, or a device without a driver
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pipe := pipes && info.Mode()&fs.ModeNamedPipe != 0
	if !pipe && !info.Mode().IsRegular() && !info.IsDir() { // reading a directory fails with its name
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotFile}
	}
	if pipe {
		_ = f.SetReadDeadline(time.Now().Add(pipeTime)) // not supported by all systems
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxFile:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("larger than %d bytes", MaxFile)}
	case pipe && len(text) == 0:
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("the pipe is empty: it has no writer, or was read before")}
	}
	return text, nil
}

// IsFile reports whether path can be a regular file: it is one, or does not exist.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) && !isDangling(path)
}

// AreFiles returns an error if one of the paths, which a library is to read, is that of something other than a file. It ignores
// empty paths.
func AreFiles(paths ...string) error {
	for _, path := range paths {
		if path != "" && !IsFile(path) {
			return &fs.PathError{Op: "read", Path: path, Err: ErrNotFile}
		}
	}
	return nil
}
