package localstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names in the directory of a Store.
const (
	ManifestName = "state.json"
	AsideName    = "set-aside"
)

// Bounds of a Store.
const (
	maxLosses  = 64
	lossAge    = 30 * 24 * time.Hour
	maxAside   = 16 // directories in set-aside, one per start that set a file aside
	asideStamp = "20060102T150405.000Z"
)

// A Piece is one kind of local state.
type Piece struct {
	Name string `json:"piece"` // name in logs, metrics and pages: "digest table"
	Lost string `json:"lost"`  // consequence of its loss
}

// A Loss is a piece of local state that could not be used.
type Loss struct {
	Piece
	Time  time.Time `json:"time"`
	Path  string    `json:"path"`            // relative to the Store's directory
	Aside string    `json:"aside,omitempty"` // its new path, relative too; "" if there is no copy
	Cause string    `json:"cause"`
}

// A File is a file that a process has created.
type File struct {
	Piece
	Bytes   int64 `json:"bytes,omitempty"`   // minimum size, for files that only grow
	Managed bool  `json:"managed,omitempty"` // its owner, not Open, checks whether it is missing
}

// manifest is the content of state.json.
type manifest struct {
	Version int             `json:"version"` // 1
	Files   map[string]File `json:"files"`   // by relative path, with slashes
	Losses  []Loss          `json:"losses"`  // the newest last
}

// A Store is a directory of local state. It is safe for concurrent use.
type Store struct {
	dir string
	now func() time.Time
	log *slog.Logger

	mu       sync.Mutex
	manifest manifest          // guarded by mu
	counts   map[string]uint64 // guarded by mu; losses of this process by the piece's name
	stamp    string            // guarded by mu; of this process' directory in set-aside, "" before the first
}

var manifestPiece = Piece{
	Name: "manifest", Lost: "which files earlier processes created: a file missing now is not reported (expected once after an upgrade)",
}

// Open opens the Store of an existing directory, and reports missing files that an earlier process created.
// The caller has locked the directory. A nil now is time.Now.
func Open(dir string, now func() time.Time, log *slog.Logger) *Store {
	if now == nil {
		now = time.Now
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	s := &Store{dir: dir, now: now, log: log, counts: make(map[string]uint64)}
	s.manifest = manifest{Version: 1, Files: make(map[string]File)}
	if root := s.path(AsideName); !isDir(root) {
		if err := os.Rename(root, free(root+"-"+s.now().UTC().Format(asideStamp))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("set-aside is not a directory and cannot be renamed", "path", root, "err", err)
		}
	}
	file := filepath.Join(dir, ManifestName)
	m, err := readManifest(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if used(dir) {
			s.Report(Loss{Piece: manifestPiece, Path: ManifestName, Cause: "the file is missing, others exist"})
		}
	case err != nil:
		s.SetAside(file, manifestPiece, err)
	default:
		s.manifest = m
	}
	oldest := s.now().Add(-lossAge)
	s.manifest.Losses = slices.DeleteFunc(s.manifest.Losses, func(l Loss) bool { return l.Time.Before(oldest) })
	s.checkExist()
	s.save()
	return s
}

// checkExist reports recorded files that are missing: a directory once, not each of its files.
func (s *Store) checkExist() {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(s.manifest.Files)) {
		f := s.manifest.Files[name]
		inMissing := slices.ContainsFunc(missing, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
		if !inMissing {
			if f.Managed {
				continue
			}
			if _, err := os.Lstat(s.path(name)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			missing = append(missing, name)
			s.Report(Loss{Piece: f.Piece, Path: name, Cause: "the file is missing"})
		}
		delete(s.manifest.Files, name)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// used reports whether dir has the files that every process with a Store creates.
func used(dir string) bool {
	return slices.ContainsFunc([]string{"history", "querylog.seq", "wal", "digests.table"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

func readManifest(path string) (m manifest, err error) {
	text, err := ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Version != 1 {
		return m, fmt.Errorf("version %d: want 1", m.Version)
	}
	for name := range m.Files {
		if !filepath.IsLocal(name) {
			return m, fmt.Errorf("path %q leaves the directory", name)
		}
	}
	if m.Files == nil {
		m.Files = make(map[string]File)
	}
	return m, nil
}

// path returns the path of a file named relative to the directory.
func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// name is the inverse of path. A path outside of the directory is unchanged.
func (s *Store) name(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(s.dir, abs)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// Created records that a file exists.
func (s *Store) Created(path string, f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.name(path)
	if s.manifest.Files[name] != f {
		s.manifest.Files[name] = f
		s.saveLocked()
	}
}

// Replace replaces the record of the files in a directory. The manifest is written only if it has changed.
func (s *Store) Replace(dir string, files map[string]File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := maps.Clone(s.manifest.Files)
	dir = s.name(dir)
	maps.DeleteFunc(s.manifest.Files, func(name string, _ File) bool { return path.Dir(name) == dir })
	for path, f := range files {
		s.manifest.Files[s.name(path)] = f
	}
	if !maps.Equal(before, s.manifest.Files) {
		s.saveLocked()
	}
}

// Forget removes files, and files below them, from the record before they are deleted on purpose.
func (s *Store) Forget(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.manifest.Files)
	for _, path := range paths {
		gone := s.name(path)
		maps.DeleteFunc(s.manifest.Files, func(name string, _ File) bool {
			return name == gone || strings.HasPrefix(name, gone+"/")
		})
	}
	if len(s.manifest.Files) != n {
		s.saveLocked()
	}
}

// Files returns the recorded files in a directory, by path.
func (s *Store) Files(dir string) map[string]File {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := make(map[string]File)
	for name, f := range s.manifest.Files {
		if path := s.path(name); filepath.Dir(path) == filepath.Clean(dir) {
			files[path] = f
		}
	}
	return files
}

func (s *Store) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saveLocked()
}

// saveLocked replaces the manifest. A failure is logged: it affects only reports of missing files.
func (s *Store) saveLocked() {
	text, err := json.MarshalIndent(s.manifest, "", "\t")
	if err == nil {
		err = WriteFile(s.path(ManifestName), append(text, '\n'))
	}
	if err != nil {
		s.log.Warn("state manifest not written", "path", s.path(ManifestName), "err", err)
	}
}

// Losses returns the losses of this and earlier processes, the newest first.
func (s *Store) Losses() []Loss {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.manifest.Losses)
	slices.Reverse(all)
	return all
}

// Counts returns the losses of this process by the name of the piece.
func (s *Store) Counts() map[string]uint64 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}
