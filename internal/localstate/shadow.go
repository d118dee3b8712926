package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Shadow is a second set of links to the files of a directory that another package repairs in place: it keeps
// files that the repair removes, and can undo the repair.
type Shadow struct {
	store  *Store
	from   string // a directory
	to     string // of the links; "" if there are none, or they were kept
	names  map[string]bool
	asides []aside // the newest last
}

// An aside is a loss whose files, if there were any, were moved from a Shadow's directory.
type aside struct {
	loss  Loss
	whole bool // all files
}

// Shadow links all files of a directory. Without links, as on a file system that has none, it also returns the error;
// the Shadow then keeps only files that Replace moves.
func (s *Store) Shadow(dir string) (*Shadow, error) {
	h := &Shadow{store: s, from: dir, to: s.path(filepath.Join(AsideName, "."+filepath.Base(dir))), names: make(map[string]bool)}
	err := os.RemoveAll(h.to) // left by a killed process
	if err == nil {
		err = h.link()
	}
	if err != nil {
		h.Discard()
	}
	return h, err
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
		h.names[rel] = true
		to := filepath.Join(h.to, rel)
		if e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return os.Link(path, to)
	})
}

// Discard removes the links.
func (h *Shadow) Discard() {
	if h.to == "" {
		return
	}
	if err := os.RemoveAll(h.to); err != nil {
		h.store.log.Warn("links not removed", "path", h.to, "err", err)
	}
	h.to = ""
}

// Keep sets aside the files that the repair has removed, and reports the loss. Without links it only reports it.
func (h *Shadow) Keep(p Piece, cause string) { h.keep(p, cause, false) }

// Replace sets all files aside and reports the loss. The directory no longer exists.
func (h *Shadow) Replace(p Piece, cause error) error {
	if h.to == "" {
		dir, ok := h.store.SetAside(h.from, p, cause)
		if !ok {
			return fmt.Errorf("set aside %s: %w", h.from, cause)
		}
		h.asides = append(h.asides, aside{Loss{Piece: p, Path: h.store.name(h.from), Aside: h.store.name(dir)}, true})
		return nil
	}
	if err := os.RemoveAll(h.from); err != nil {
		return err
	}
	h.keep(p, cause.Error(), true)
	return nil
}

func (h *Shadow) keep(p Piece, cause string, whole bool) {
	l := Loss{Piece: p, Path: h.store.name(h.from), Cause: cause}
	if h.to != "" {
		var err error
		if l.Aside, err = h.moveRemoved(l.Path); err != nil {
			h.store.log.Warn("damaged files not kept", "path", h.from, "err", err)
		} else {
			h.asides = append(h.asides, aside{l, whole})
		}
		h.Discard()
	}
	h.store.Report(l)
}

// moveRemoved moves links to files that are no longer in the directory to set-aside, and returns their new path there; ""
// if there are none.
func (h *Shadow) moveRemoved(name string) (string, error) {
	others, err := h.removed()
	if err != nil || !others {
		return "", err
	}
	dir, err := h.store.asideDir()
	if err != nil {
		return "", err
	}
	to := free(filepath.Join(dir, filepath.FromSlash(name)))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	return h.store.name(to), os.Rename(h.to, to)
}

// removed removes the links to files that are still in the directory, and reports whether others are left.
func (h *Shadow) removed() (others bool, err error) {
	err = filepath.WalkDir(h.to, func(path string, e fs.DirEntry, err error) error {
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
		others = true
		return nil
	})
	return others, err
}

// Undo puts all files back that were in the directory when Shadow was called, removes others, and withdraws the reports of
// Keep and Replace.
func (h *Shadow) Undo() error {
	if h.to != "" {
		if err := h.merge(h.to); err != nil {
			return err
		}
		h.Discard()
	}
	for len(h.asides) > 0 {
		n := len(h.asides) - 1
		if err := h.putBack(h.asides[n]); err != nil {
			return fmt.Errorf("put back %s from %s: %w", h.from, h.asides[n].loss.Aside, err)
		}
		h.store.withdraw(h.asides[n].loss)
		h.asides = h.asides[:n]
	}
	return nil
}

func (h *Shadow) putBack(a aside) error {
	dir := h.store.path(a.loss.Aside)
	switch {
	case a.loss.Aside == "":
		return nil
	case a.whole:
		return h.exchange(dir)
	}
	if err := h.merge(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// exchange replaces the directory by another one. It lists neither.
func (h *Shadow) exchange(dir string) error {
	replaced := free(dir + "-replaced")
	if err := os.Rename(h.from, replaced); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(dir, h.from); err != nil {
		return err
	}
	if err := os.RemoveAll(replaced); err != nil {
		h.store.log.Warn("files not removed", "path", replaced, "err", err)
	}
	return nil
}

// merge moves the files of another directory back, and removes those that were created since Shadow was called.
func (h *Shadow) merge(dir string) error {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(h.from, rel)
		if e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if same(path, to) {
			return nil
		}
		return os.Rename(path, to)
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(h.from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(h.from, path)
		if err != nil || h.names[rel] || path == h.from {
			return err
		}
		if err := os.RemoveAll(path); err != nil || !e.IsDir() {
			return err
		}
		return fs.SkipDir
	})
}

// same reports whether two paths are one file.
func same(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
