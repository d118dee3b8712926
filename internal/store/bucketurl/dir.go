package bucketurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/thanos-io/objstore"
	"golang.org/x/sys/unix"
)

// A dirBucket is a directory. Its listings follow symbolic links, as reads do: a link to a directory is a directory.
// Links that lead nowhere or into a loop are listed as objects; pipes, sockets and devices are not listed.
type dirBucket struct {
	objstore.Bucket
	root string
}

// notFiles are the types of files that are not read: to open or read them may block without end.
const notFiles = fs.ModeNamedPipe | fs.ModeDevice | fs.ModeCharDevice | fs.ModeSocket | fs.ModeIrregular

// Get implements objstore.BucketReader.
func (b dirBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return b.GetRange(ctx, name, 0, -1)
}

// GetRange implements objstore.BucketReader. It returns an error for a pipe, a socket or a device.
func (b dirBucket) GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if name == "" {
		return nil, errors.New("object name is empty")
	}
	f, err := os.OpenFile(filepath.Join(b.root, name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("read %s: it is a socket or a device, not a file", name)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // as the provider, whose errors are classified
	}
	size, err := openedSize(f)
	if err == nil && off > 0 {
		_, err = f.Seek(off, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // only read
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	r := objstore.ObjectSizerReadCloser{ReadCloser: f, Size: func() (int64, error) { return max(size-off, 0), nil }}
	if length >= 0 {
		r.ReadCloser = filePart{io.LimitReader(f, length), f}
		r.Size = func() (int64, error) { return min(length, max(size-off, 0)), nil }
	}
	return r, nil
}

// A filePart reads a part of a file.
type filePart struct {
	io.Reader
	io.Closer
}

// openedSize returns the size of a file, and an error if it is none.
func openedSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("find its size: %w", err)
	}
	if info.Mode()&notFiles != 0 {
		return 0, errors.New("it is a pipe, a socket or a device, not a file")
	}
	return info.Size(), nil
}

// Iter implements objstore.BucketReader.
func (b dirBucket) Iter(ctx context.Context, dir string, f func(string) error, options ...objstore.IterOption) error {
	return b.IterWithAttributes(ctx, dir, func(a objstore.IterObjectAttributes) error { return f(a.Name) }, options...)
}

// IterWithAttributes implements objstore.BucketReader.
func (b dirBucket) IterWithAttributes(ctx context.Context, dir string, f func(objstore.IterObjectAttributes) error, options ...objstore.IterOption) error {
	if err := objstore.ValidateIterOptions(b.SupportedIterOptions(), options...); err != nil {
		return err //nolint:wrapcheck // as the provider
	}
	w := dirWalk{ctx: ctx, root: b.root, params: objstore.ApplyIterOptions(options...), f: f}
	info, err := os.Stat(filepath.Join(b.root, dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("list directory: %w", err)
	case !info.IsDir():
		return nil
	}
	return w.walk(filepath.Clean(dir), []fs.FileInfo{info})
}

// A dirWalk is one listing.
type dirWalk struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the listing
	root   string
	params objstore.IterParams
	f      func(objstore.IterObjectAttributes) error
}

// walk visits the entries of a directory, whose ancestors and itself are given.
func (w *dirWalk) walk(dir string, above []fs.FileInfo) error {
	if err := w.ctx.Err(); err != nil {
		return err //nolint:wrapcheck // as the provider
	}
	entries, err := os.ReadDir(filepath.Join(w.root, dir))
	if err != nil {
		return fmt.Errorf("list directory: %w", err)
	}
	for _, e := range entries {
		if err := w.visit(filepath.Join(dir, e.Name()), e, above); err != nil {
			return err
		}
	}
	return nil
}

// visit visits an entry.
func (w *dirWalk) visit(name string, e fs.DirEntry, above []fs.FileInfo) error {
	if e.Type().IsRegular() && !w.params.LastModified {
		return w.f(objstore.IterObjectAttributes{Name: name})
	}
	info, err := os.Stat(filepath.Join(w.root, name))
	loops := err == nil && info.IsDir() && slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) })
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0:
		return nil // deleted meanwhile
	case err != nil || loops:
		return w.f(objstore.IterObjectAttributes{Name: name})
	case info.IsDir() && isEmpty(filepath.Join(w.root, name)):
		return nil
	case info.IsDir() && !w.params.Recursive:
		name += objstore.DirDelim
	case info.IsDir():
		err := w.walk(name, append(slices.Clip(above), info))
		if errors.Is(err, fs.ErrPermission) { // named without its files: one directory does not hide all others
			return w.f(objstore.IterObjectAttributes{Name: name + objstore.DirDelim})
		}
		return err
	case !info.Mode().IsRegular():
		return nil
	}
	a := objstore.IterObjectAttributes{Name: name}
	if w.params.LastModified {
		a.SetLastModified(info.ModTime())
	}
	return w.f(a)
}

// isEmpty reports whether a directory has no entries, or has been deleted.
func isEmpty(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err == io.EOF || errors.Is(err, fs.ErrNotExist) //nolint:errorlint // as os.File says
}
