package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// Bounds of the calls to a bucket.
const (
	shipTries   = 3
	shipTimeout = 5 * time.Minute // of one call; a chunk file has up to 512 MiB
	shipPause   = time.Second     // before the second try: see retry.Policy
)

// A shipper copies the blocks of a directory to a bucket, each exactly once, in Thanos' layout: the objects
// of a block are uploaded, then read back and compared, and only then meta.json makes them a block. Shipped
// blocks are recorded in a file beside the blocks. Every step is idempotent, because names and bytes of the
// objects depend only on the block, so a killed process resumes where it stopped.
//
// It deletes nothing from the bucket, and does not ship a block again that was removed from there, as by a
// compactor.
type shipper struct {
	bucket objstore.Bucket
	dir    string // of the blocks
	labels map[string]string
	pause  time.Duration
	limit  time.Duration // of one call
	log    *slog.Logger

	mu       sync.Mutex
	shipped  map[ulid.ULID]time.Time // when this process learned of it
	replaced map[ulid.ULID]bool      // shipped, and deleted from the bucket since, as by a compactor
	counts   shipCounts
}

// shipCounts are the counters of a shipper.
type shipCounts struct {
	blocks, bytes, failures uint64
}

// newShipper returns a shipper that has read the record of shipped blocks.
func newShipper(bucket objstore.Bucket, dir string, labels map[string]string, state *localstate.Store, log *slog.Logger) *shipper {
	s := &shipper{bucket: bucket, dir: dir, labels: labels, pause: shipPause, limit: shipTimeout, log: log, shipped: make(map[ulid.ULID]time.Time), replaced: make(map[ulid.ULID]bool)}
	ids, err := readShipped(dir)
	if err != nil {
		state.SetAside(filepath.Join(dir, shippedName), shippedPiece, err)
	}
	for _, id := range ids {
		s.shipped[id] = time.Now()
	}
	return s
}

// since returns when a block was known to be in the bucket; false if it is not.
func (s *shipper) since(id ulid.ULID) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.shipped[id]
	return at, ok
}

// checkReplaced determines which of the shipped blocks that the gateway does not serve were deleted from the
// bucket: the block they were compacted into has their samples. One that exists and is not served is not
// listed yet.
func (s *shipper) checkReplaced(ctx context.Context, blocks []tsdb.BlockMeta, serves func(ulid.ULID) bool) {
	for _, m := range blocks {
		if _, ok := s.since(m.ULID); !ok || serves(m.ULID) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, s.limit)
		_, err := s.bucket.Attributes(call, path.Join(m.ULID.String(), tsblock.MetaFile))
		cancel()
		s.mu.Lock()
		s.replaced[m.ULID] = blocksync.IsObjectNotFound(s.bucket, err)
		s.mu.Unlock()
	}
}

// isReplaced reports whether a block was shipped and deleted from the bucket since.
func (s *shipper) isReplaced(id ulid.ULID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced[id]
}

// ship copies the blocks that were not shipped, the oldest first. A block that fails does not delay the
// others.
func (s *shipper) ship(ctx context.Context, blocks []tsdb.BlockMeta) error {
	s.forget(blocks)
	var errs []error
	for _, m := range slices.SortedFunc(slices.Values(blocks), func(a, b tsdb.BlockMeta) int { return a.ULID.Compare(b.ULID) }) {
		if _, ok := s.since(m.ULID); ok {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if err := s.block(ctx, m.ULID); err != nil {
			s.mu.Lock()
			s.counts.failures++
			s.mu.Unlock()
			errs = append(errs, fmt.Errorf("ship block %s: %w", m.ULID, err))
		}
	}
	return errors.Join(errs...)
}

// forget removes the records of blocks that are no longer in the directory.
func (s *shipper) forget(blocks []tsdb.BlockMeta) {
	here := make(map[ulid.ULID]bool, len(blocks))
	for _, m := range blocks {
		here[m.ULID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.shipped {
		if !here[id] {
			delete(s.shipped, id)
			delete(s.replaced, id)
		}
	}
}

// block ships one block.
func (s *shipper) block(ctx context.Context, id ulid.ULID) error {
	files, err := blockFiles(filepath.Join(s.dir, id.String()))
	if err != nil {
		return err
	}
	meta, err := thanosMeta(filepath.Join(s.dir, id.String()), s.labels, files)
	if err != nil {
		return err
	}
	there, err := s.isThere(ctx, id)
	if err != nil {
		return err
	}
	var sent uint64
	if !there {
		for _, f := range files {
			if err := s.file(ctx, id, f); err != nil {
				return err
			}
			sent += uint64(f.Bytes)
		}
		if err := s.object(ctx, path.Join(id.String(), tsblock.MetaFile), func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(meta)), nil
		}); err != nil {
			return err
		}
	}
	if err := s.markShipped(id); err != nil {
		return err
	}
	if !there {
		s.mu.Lock()
		s.counts.blocks++
		s.counts.bytes += sent
		s.mu.Unlock()
		s.log.Info("block shipped", "block", id, "bytes", sent, "files", len(files)+1)
	}
	return nil
}

// markShipped records a block as shipped, first in the file, then in memory.
func (s *shipper) markShipped(id ulid.ULID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]ulid.ULID, 0, len(s.shipped)+1)
	for other := range s.shipped {
		ids = append(ids, other)
	}
	if err := writeShipped(s.dir, append(ids, id)); err != nil {
		return err
	}
	s.shipped[id] = time.Now()
	return nil
}

// maxMeta exceeds the size of meta.json of any block written by Tare.
const maxMeta = 1 << 20

// isThere reports whether the bucket has the complete block. meta.json is written last, after all other
// objects were compared, so a readable one proves the block; an unreadable one was left by an interrupted
// upload.
func (s *shipper) isThere(ctx context.Context, id ulid.ULID) (bool, error) {
	name := path.Join(id.String(), tsblock.MetaFile)
	var text []byte
	found := false
	err := s.do(ctx, func(ctx context.Context) error {
		r, err := s.bucket.Get(ctx, name)
		if blocksync.IsObjectNotFound(s.bucket, err) {
			found = false
			return nil
		}
		if err != nil {
			return err
		}
		text, err = io.ReadAll(io.LimitReader(r, maxMeta))
		found = true
		return errors.Join(err, r.Close())
	})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	if !found {
		return false, nil
	}
	m, err := tsblock.ParseMeta(text)
	return err == nil && m.ULID == id && m.Thanos.Labels != nil, nil
}

// file ships one file of a block.
func (s *shipper) file(ctx context.Context, id ulid.ULID, f blockFile) error {
	local := filepath.Join(s.dir, id.String(), filepath.FromSlash(f.Name))
	return s.object(ctx, path.Join(id.String(), f.Name), func() (io.ReadCloser, error) { return os.Open(local) })
}

var errDiffers = errors.New("the object read back differs from the upload")

// object uploads an object and compares it with the bucket's. The result of an upload is not trusted: a
// failed one may have succeeded, and a successful one may be truncated.
func (s *shipper) object(ctx context.Context, name string, open func() (io.ReadCloser, error)) error {
	err := s.do(ctx, func(ctx context.Context) error {
		r, err := open()
		if err != nil {
			return err
		}
		err = s.bucket.Upload(ctx, name, r)
		_ = r.Close() // it was only read
		if err != nil {
			return err
		}
		return s.compare(ctx, name, open)
	})
	if err != nil {
		return fmt.Errorf("upload %s: %w", name, err)
	}
	return nil
}

func (s *shipper) compare(ctx context.Context, name string, open func() (io.ReadCloser, error)) error {
	want, err := open()
	if err != nil {
		return err
	}
	defer want.Close()
	got, err := s.bucket.Get(ctx, name)
	if err != nil {
		return err
	}
	same, err := sameBytes(got, want)
	switch err = errors.Join(err, got.Close()); {
	case err != nil:
		return err
	case !same:
		return errDiffers
	}
	return nil
}

// bytes ships an object unless the bucket already has the same one.
func (s *shipper) bytes(ctx context.Context, name string, text []byte) error {
	open := func() (io.ReadCloser, error) { //nolint:unparam // as the others open
		return io.NopCloser(bytes.NewReader(text)), nil
	}
	if s.once(ctx, func(ctx context.Context) error { return s.compare(ctx, name, open) }) == nil {
		return nil // by a process that has not recorded it
	}
	return s.object(ctx, name, open)
}

// sameBytes compares two streams to their ends.
func sameBytes(a, b io.Reader) (bool, error) {
	const piece = 64 << 10
	x, y := make([]byte, piece), make([]byte, piece)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if n < piece {
			return true, nil
		}
	}
}

// do calls attempt until it succeeds, at most shipTries times.
func (s *shipper) do(ctx context.Context, attempt func(context.Context) error) error {
	return retry.Policy{First: s.pause, Most: s.pause << shipTries, Tries: shipTries}.Do(ctx, func() error { return s.once(ctx, attempt) })
}

func (s *shipper) once(ctx context.Context, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	return attempt(ctx)
}
