package localstate

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically and durably.
func WriteFile(name string, text []byte) error {
	temporary := name + ".tmp"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary)) // on a full disk it would use the remaining space
	}
	if err := os.Rename(temporary, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
