package localstate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A Shadow is a second set of links to files that another package repairs in place: it keeps files that the
// repair removes.
type Shadow struct {
	store *Store
	from  string // a directory
	to    string // "" if there are no links
}

// Shadow links all files of a directory. It fails if the file system has no links.
func (s *Store) Shadow(dir string) (*Shadow, error) {
	h := &Shadow{store: s, from: dir, to: s.path(filepath.Join(AsideName, "."+filepath.Base(dir)))}
	err := os.RemoveAll(h.to) // left by a killed process
	if err == nil {
		err = h.link()
	}
	if err != nil {
		h.Discard()
		return nil, err
	}
	return h, nil
}

func (h *Shadow) link() error {
	dir := h.from
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == dir {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(h.to, rel)
		if e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return os.Link(path, to)
	})
}

// Discard removes the links.
func (h *Shadow) Discard() {
	if err := os.RemoveAll(h.to); err != nil {
		h.store.log.Warn("links not removed", "path", h.to, "err", err)
	}
}

// Keep sets aside the files that the repair has removed, and reports the loss.
func (h *Shadow) Keep(p Piece, cause string) {
	kept := false
	err := filepath.WalkDir(h.to, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(h.to, path)
		if err != nil {
			return err
		}
		if same(path, filepath.Join(h.from, rel)) {
			return os.Remove(path)
		}
		kept = true
		return nil
	})
	l := Loss{Piece: p, Path: h.store.name(h.from), Cause: cause}
	if kept && err == nil {
		var dir string
		if dir, err = h.store.asideDir(); err == nil {
			aside := free(filepath.Join(dir, filepath.FromSlash(l.Path)))
			if err = os.MkdirAll(filepath.Dir(aside), 0o700); err == nil {
				err = os.Rename(h.to, aside)
			}
			l.Aside = h.store.name(aside)
		}
	}
	if err != nil {
		l.Aside = ""
		h.store.log.Warn("damaged files not kept", "path", h.from, "err", err)
	}
	h.Discard()
	h.store.Report(l)
}

// same reports whether two paths are one file.
func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
