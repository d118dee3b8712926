package tsblock

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxOpenFiles bounds the idle files that a DirSource keeps open.
	maxOpenFiles = 128

	// dirGap is the number of bytes of a file in the page cache that are read in about the time of another
	// call.
	dirGap = 16 << 10
)

// A DirSource reads objects that are files, usually below a directory, by pread. It does not map files:
// truncating a mapped file would kill the process, while here it is an error.
type DirSource struct {
	openFile func(ctx context.Context, name string) (fd int, err error)

	mu             sync.Mutex
	files          map[string]*openFile // reusable files by name
	newest, oldest *openFile            // ends of the list of files, by last use
	opened         int                  // files opened since the kept ones were checked
}

var _ Source = (*DirSource)(nil)

// An openFile is a descriptor that is kept for later readers.
type openFile struct {
	name string
	fd   int

	// Guarded by the source's mu.
	users        int
	kept         bool // it is in files
	newer, older *openFile
}

// Dir returns a source of the files below path. It keeps up to 128 of them open; Close closes them. It does not wait for
// the writer of a pipe: reads of one fail.
func Dir(path string) *DirSource {
	return Files(func(_ context.Context, name string) (int, error) {
		for {
			fd, err := unix.Open(filepath.Join(path, filepath.FromSlash(name)), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			switch {
			case err == nil:
				return fd, nil
			case err != unix.EINTR:
				return 0, &fs.PathError{Op: "open", Path: name, Err: err}
			}
		}
	})
}

// Files returns a source of files that open opens. The source closes the descriptors.
func Files(open func(ctx context.Context, name string) (fd int, err error)) *DirSource {
	return &DirSource{openFile: open, files: make(map[string]*openFile)}
}

// Costs returns the costs of reading files.
func (*DirSource) Costs() Costs { return Costs{Gap: dirGap, Calls: 1} }

// ReadRange implements Source. It does not allocate if the file is open.
func (d *DirSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	f, err := d.open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer d.release(f)
	for n := 0; ; {
		m, err := unix.Pread(f.fd, dst[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, &fs.PathError{Op: "read", Path: name, Err: err}
		case m == 0:
			return n, ErrObjectEnd
		}
		if n += m; n == len(dst) {
			return n, nil
		}
	}
}

// Size implements Source.
func (d *DirSource) Size(ctx context.Context, name string) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	f, err := d.open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer d.release(f)
	var stat unix.Stat_t
	if err := unix.Fstat(f.fd, &stat); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return stat.Size, nil
}

// Close closes idle files. The source remains usable.
func (d *DirSource) Close() error {
	d.mu.Lock()
	gone := d.dropLocked(func(*openFile) bool { return true })
	d.mu.Unlock()
	return closeFiles(gone)
}

// open returns the file, which the caller releases.
func (d *DirSource) open(ctx context.Context, name string) (*openFile, error) {
	d.mu.Lock()
	if f := d.files[name]; f != nil {
		f.users++
		d.unlink(f)
		d.link(f)
		d.mu.Unlock()
		return f, nil
	}
	d.mu.Unlock()
	fd, err := d.openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &openFile{name: name, fd: fd, users: 1}
	d.mu.Lock()
	// Another reader may have been faster: then this file is closed after its use.
	var gone []*openFile
	if d.files[name] == nil {
		d.files[name], f.kept = f, true
		d.link(f)
		if d.opened++; 2*d.opened >= len(d.files) { // two checks per opened file on average, not one of each kept file
			gone, d.opened = d.dropLocked(removed), 0
		}
		for d.oldest != nil && len(d.files) > maxOpenFiles {
			if o := d.forgetLocked(d.oldest); o.users == 0 {
				gone = append(gone, o)
			}
		}
	}
	d.mu.Unlock()
	_ = closeFiles(gone) // only read, and the current file is not among them
	return f, nil
}

// removed reports whether a file has no name any more: keeping it open would keep its space allocated, at most until
// half as many files were opened as are kept.
func removed(f *openFile) bool {
	var stat unix.Stat_t
	return unix.Fstat(f.fd, &stat) != nil || stat.Nlink == 0
}

// release releases one use of a file.
func (d *DirSource) release(f *openFile) {
	d.mu.Lock()
	f.users--
	last := f.users == 0 && !f.kept
	d.mu.Unlock()
	if last {
		_ = unix.Close(f.fd) // it was only read
	}
}

// dropLocked removes the files for which out returns true, and returns the idle ones. The others are closed
// by their last reader.
func (d *DirSource) dropLocked(out func(*openFile) bool) (gone []*openFile) {
	for f := d.oldest; f != nil; {
		next := f.newer
		if out(f) {
			if d.forgetLocked(f); f.users == 0 {
				gone = append(gone, f)
			}
		}
		f = next
	}
	return gone
}

func (d *DirSource) forgetLocked(f *openFile) *openFile {
	delete(d.files, f.name)
	d.unlink(f)
	f.kept = false
	return f
}

func closeFiles(files []*openFile) error {
	for _, f := range files {
		if err := unix.Close(f.fd); err != nil {
			return fmt.Errorf("close %s: %w", f.name, err)
		}
	}
	return nil
}

// link makes f the newest.
func (d *DirSource) link(f *openFile) {
	f.older = d.newest
	if d.newest != nil {
		d.newest.newer = f
	} else {
		d.oldest = f
	}
	d.newest = f
}

func (d *DirSource) unlink(f *openFile) {
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		d.newest = f.older
	}
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		d.oldest = f.newer
	}
	f.newer, f.older = nil, nil
}
