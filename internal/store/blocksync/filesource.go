package blocksync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/thanos-io/objstore"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/store/tsblock"
)

// A fileSource reads objects of a bucket whose readers are files, such as objstore's file provider. The
// provider opens and closes a file for each range; a fileSource keeps the file open and reads ranges by
// pread. It falls back to range reads if the bucket's readers are not files.
type fileSource struct {
	*tsblock.DirSource
	ranges  tsblock.Source
	noFiles atomic.Bool
}

var _ tsblock.Source = (*fileSource)(nil)

func newFileSource(bucket objstore.BucketReader, ranges tsblock.Source) *fileSource {
	s := &fileSource{ranges: ranges}
	s.DirSource = tsblock.Files(func(ctx context.Context, name string) (int, error) {
		r, err := bucket.GetRange(ctx, name, 0, -1)
		if err != nil {
			return 0, err // the bucket's own error: only the bucket can classify it as a missing object
		}
		fd, err := duplicate(r)
		_ = r.Close() // only read: a failed close loses nothing
		return fd, err
	})
	return s
}

// errNoFile reports that the readers of a bucket are not files.
var errNoFile = errors.New("the bucket's reader is not a file")

// duplicate returns a new descriptor of the file behind a reader.
func duplicate(r io.Reader) (int, error) {
	if sized, ok := r.(objstore.ObjectSizerReadCloser); ok {
		r = sized.ReadCloser
	}
	f, ok := r.(*os.File)
	if !ok {
		return 0, errNoFile
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("duplicate descriptor: %w", err)
	}
	var fd int
	var failure error
	err = raw.Control(func(own uintptr) { fd, failure = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, failure); err != nil {
		return 0, fmt.Errorf("duplicate descriptor: %w", err)
	}
	return fd, nil
}

// ReadRange implements tsblock.Source.
func (s *fileSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	if !s.noFiles.Load() {
		n, err := s.DirSource.ReadRange(ctx, name, off, dst)
		if !errors.Is(err, errNoFile) {
			return n, err
		}
		s.noFiles.Store(true)
	}
	return s.ranges.ReadRange(ctx, name, off, dst)
}

// Size implements tsblock.Source.
func (s *fileSource) Size(ctx context.Context, name string) (int64, error) {
	return s.ranges.Size(ctx, name)
}

// Costs returns the costs of files, or those of a bucket that is read by ranges.
func (s *fileSource) Costs() tsblock.Costs {
	if s.noFiles.Load() {
		return tsblock.CostsOf(s.ranges)
	}
	return s.DirSource.Costs()
}
