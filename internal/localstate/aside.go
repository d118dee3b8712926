package localstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SetAside moves an unusable file or directory away, reports it and returns its new path. It returns false if
// the file could not be moved and is still in place.
func (s *Store) SetAside(path string, p Piece, cause error) (aside string, ok bool) {
	aside, err := s.move(path)
	if err != nil {
		s.log.Error("local state not set aside", "piece", p.Name, "path", path, "err", err, "cause", cause)
		return "", false
	}
	s.Forget(path)
	s.Report(Loss{Piece: p, Path: s.name(path), Aside: s.name(aside), Cause: cause.Error()})
	return aside, true
}

// move renames path into this process' directory in set-aside or, if that is impossible, to a name beside it.
func (s *Store) move(path string) (aside string, err error) {
	dir, err := s.asideDir()
	if err == nil {
		aside = free(filepath.Join(dir, filepath.FromSlash(s.name(path))))
		if err = os.MkdirAll(filepath.Dir(aside), 0o700); err == nil {
			err = os.Rename(path, aside)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return aside, err
	}
	aside = free(path + "." + AsideName + "-" + s.now().UTC().Format(asideStamp))
	return aside, os.Rename(path, aside)
}

// free returns the path, with a suffix if it is taken.
func free(path string) string {
	for {
		if _, err := os.Lstat(path); err != nil {
			return path
		}
		path += "_"
	}
}

// asideDir returns the directory for files that this process sets aside. The first call creates it, and
// removes the oldest ones of earlier processes.
func (s *Store) asideDir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.path(AsideName)
	if s.stamp != "" {
		return filepath.Join(root, s.stamp), nil
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) // links of Shadows
	for ; len(entries) >= maxAside; entries = entries[1:] {                                                    // sorted by name, hence by time
		old := filepath.Join(root, entries[0].Name())
		s.log.Warn("oldest set-aside state removed", "path", old, "kept", maxAside-1)
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	dir := free(filepath.Join(root, s.now().UTC().Format(asideStamp)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	s.stamp = filepath.Base(dir)
	return dir, nil
}

// Report logs, counts and lists a loss.
func (s *Store) Report(l Loss) {
	l.Time, l.Path = s.now().UTC(), s.name(l.Path)
	attrs := []any{"piece", l.Name, "path", s.path(l.Path), "cause", l.Cause, "lost", l.Lost}
	if l.Aside != "" {
		attrs = append(attrs, "set_aside_as", s.path(l.Aside))
	}
	s.log.Error("local state lost", attrs...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[l.Name]++
	s.manifest.Losses = append(s.manifest.Losses, l)
	if n := len(s.manifest.Losses) - maxLosses; n > 0 {
		s.manifest.Losses = slices.Delete(s.manifest.Losses, 0, n)
	}
	s.saveLocked()
}

// withdraw removes the newest report of a loss whose files were put back, and directories in set-aside that have become empty.
func (s *Store) withdraw(l Loss) {
	s.log.Warn("local state put back", "piece", l.Name, "path", s.path(l.Path), "from", s.path(l.Aside))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range slices.Backward(s.manifest.Losses) {
		if other.Piece == l.Piece && other.Path == l.Path && other.Aside == l.Aside {
			s.manifest.Losses = slices.Delete(s.manifest.Losses, i, i+1)
			s.counts[l.Name]--
			break
		}
	}
	if s.counts[l.Name] == 0 {
		delete(s.counts, l.Name)
	}
	s.saveLocked()
	root := s.path(AsideName)
	for dir := filepath.Dir(s.path(l.Aside)); strings.HasPrefix(dir, root+string(filepath.Separator)); dir = filepath.Dir(dir) {
		if err := os.Remove(dir); err != nil {
			return // it is not empty
		}
		if dir == filepath.Join(root, s.stamp) {
			s.stamp = ""
		}
	}
}

// Dir creates a directory if it does not exist; another file of that name is set aside.
func (s *Store) Dir(path string, f File) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() || isDangling(path) {
		s.SetAside(path, f.Piece, errors.New("not a directory"))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	s.Created(path, f)
	return nil
}

// SetAsideUnreadable sets aside the pipes, sockets and devices in a directory, and files with more bytes than most returns, if that
// is not 0: a library that opens a pipe in place of its file waits without end, and one that reads a file as a whole takes its size
// in memory.
func (s *Store) SetAsideUnreadable(dir string, p Piece, most func(path string) int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // an unreadable directory fails when it is used
		switch {
		case err != nil:
			return nil
		case e.IsDir() && s.name(path) == AsideName:
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		info, err := os.Stat(path)
		switch {
		case err != nil || info.IsDir():
		case !info.Mode().IsRegular():
			s.SetAside(path, p, ErrNotFile)
		case most(path) > 0 && info.Size() > most(path):
			s.SetAside(path, p, fmt.Errorf("%d bytes, want at most %d", info.Size(), most(path)))
		}
		return nil
	})
}

// isDangling reports whether path is a symbolic link to nothing.
func isDangling(path string) bool {
	_, err := os.Stat(path)
	info, lerr := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) && lerr == nil && info.Mode()&fs.ModeSymlink != 0
}
