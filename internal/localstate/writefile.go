package localstate

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically and durably. It writes to name + ".tmp" first, and removes an existing file or
// directory of that name: one process writes a file at a time.
func WriteFile(name string, text []byte) error {
	temporary := name + ".tmp"
	if err := os.RemoveAll(temporary); err != nil {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // not through a link of others
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Close(), os.Remove(temporary)) // on a full disk it would use the remaining space
	}
	return Replace(f, name)
}

// Replace closes a temporary file, which replaces the file name in the same directory atomically and durably: after a kill
// or a power failure, the old or the new one is there. If it fails, it removes the temporary file, unless it has replaced
// the other already.
func Replace(temporary *os.File, name string) error {
	if err := errors.Join(temporary.Sync(), temporary.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	if err := os.Rename(temporary.Name(), name); err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
