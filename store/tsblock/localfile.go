package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/crc32c"
	"github.com/taredb/tare/internal/localstate"
)

// A local file stores data derived from a block's index: pages that are read through the cache, and a part
// that is kept in memory. It ends with a footer:
//
//	pages │ memory part │ CRC32C of each page │ footer
//
//	footer: magic 8 │ version 4 │ kind 4 │ ULID 16 │ bytes of the index 8 │ bytes of the pages 8
//	        │ bytes of the memory part 8 │ CRC32C of the memory part 4, of the page sums 4, of the footer 4
//
// Numbers are big-endian. A file is written under a temporary name, synced, and renamed.
//
// A file of another version is rebuilt. Version 1 has the same form, but may have a wrong size of the last postings list: it was not
// compared with the section's.
const (
	localMagic   = "TAREBLK\n"
	localVersion = 2
	footerBytes  = 8 + 4 + 4 + 16 + 8 + 8 + 8 + 4 + 4 + 4

	// maxMemoryPart exceeds that of any block: 4 GiB of label values, one in 32 sampled.
	maxMemoryPart = 1 << 30
)

// Names of the local files.
const (
	headerName = "index-header"
	hashesName = "series-hashes"
)

// errStale is the reason why a local file must be rebuilt.
type errStale struct{ reason string }

func (e errStale) Error() string { return e.reason }

// An identity identifies the index from which a local file was built.
type identity struct {
	block ulid.ULID
	size  int64 // of the index
}

// A localFile is an opened local file: the part that is kept in memory, and the parameters for reading pages.
type localFile struct {
	memory []byte
	sums   []uint32
	paged  int64
}

// openLocal reads and checks the footer, the memory part and the page sums of a local file. It returns an
// error with fs.ErrNotExist if there is no file, and errStale if it is unusable.
func openLocal(path string, kind fileKind, id identity) (*localFile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe, which is too short
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var footer [footerBytes]byte
	if info.Size() < footerBytes {
		return nil, errStale{"it is too short"}
	}
	if n, err := f.ReadAt(footer[:], info.Size()-footerBytes); n < len(footer) {
		return nil, shortRead(err)
	}
	be := binary.BigEndian
	b := footer[:]
	switch {
	case string(b[:8]) != localMagic:
		return nil, errStale{"it does not end as it should"}
	case crc32c.Checksum(b[:footerBytes-4]) != be.Uint32(b[footerBytes-4:]):
		return nil, errStale{"its footer has a checksum mismatch"}
	case be.Uint32(b[8:]) != localVersion:
		return nil, errStale{fmt.Sprintf("it has version %d", be.Uint32(b[8:]))}
	case fileKind(be.Uint32(b[12:])) != kind:
		return nil, errStale{"it is a file of another kind"}
	case ulid.ULID(b[16:32]) != id.block || int64(be.Uint64(b[32:])) != id.size:
		return nil, errStale{"it belongs to another index"}
	}
	paged, memory := int64(be.Uint64(b[40:])), int64(be.Uint64(b[48:]))
	pages := (paged + pageSize - 1) >> pageBits
	if paged < 0 || memory < 0 || memory > maxMemoryPart || paged > info.Size() || paged+memory+4*pages+footerBytes != info.Size() {
		return nil, errStale{"its parts do not add up to its size"}
	}
	part, sums := make([]byte, memory), make([]byte, 4*pages) // of the two, the header keeps the first
	at := paged
	for _, b := range [...][]byte{part, sums} {
		if n, err := f.ReadAt(b, at); n < len(b) {
			return nil, shortRead(err)
		}
		at += int64(len(b))
	}
	l := &localFile{memory: part, sums: make([]uint32, pages), paged: paged}
	if crc32c.Checksum(part) != be.Uint32(b[56:]) || crc32c.Checksum(sums) != be.Uint32(b[60:]) {
		return nil, errStale{"it has a checksum mismatch"}
	}
	for i := range l.sums {
		l.sums[i] = be.Uint32(sums[4*i:])
	}
	return l, nil
}

// justBuilt returns the error of opening a local file that was just built: if it is damaged already, the disk
// is faulty.
func (b *Block) justBuilt(name string, err error) error {
	if stale, ok := errors.AsType[errStale](err); ok {
		return b.corrupt(name, 0, "just built: "+stale.reason)
	}
	return b.failed("open "+name+", just built", err)
}

// shortRead returns the error of a read that did not fill its buffer. A file that was truncated after its
// size was read is as damaged as one that was too short before.
func shortRead(err error) error {
	if err == io.EOF { //nolint:errorlint // as io.ReaderAt says
		return errStale{"it is too short"}
	}
	return err
}

// pages returns the file's pages for reading through the cache. The file is opened for each read: there are
// many blocks, few files should stay open, and pages in use are cached. A file that is missing or too short
// counts as corrupt, like one with wrong bytes: rebuild builds it again.
func (l *localFile) pages(b *Block, path string, kind fileKind, rebuild func(context.Context) error) *pagedFile {
	return &pagedFile{
		name: filepath.Base(path), kind: kind, size: l.paged, sums: l.sums, rebuild: rebuild,
		costs: Costs{Gap: dirGap, Calls: 1},
		read: func(_ context.Context, dst []byte, off int64) error {
			f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if errors.Is(err, fs.ErrNotExist) {
				return b.corrupt(filepath.Base(path), 0, "the file is missing")
			}
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := f.ReadAt(dst, off)
			switch {
			case n == len(dst):
				return nil
			case err == io.EOF: //nolint:errorlint // as io.ReaderAt says
				return b.corrupt(filepath.Base(path), off+int64(n), endsEarly)
			}
			return fmt.Errorf("read %s at %d: %w", path, off, err)
		},
	}
}

// A localWriter writes a local file.
type localWriter struct {
	path string
	f    *os.File
	page []byte // partial page
	sums []byte
	n    int64 // bytes of pages so far
}

// createLocal creates a temporary file for path. It removes unfinished files: their writers were killed, or
// all their waiters have given up.
func createLocal(path string) (*localWriter, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	begun, err := filepath.Glob(path + ".*.tmp")
	if err != nil {
		return nil, err
	}
	for _, name := range begun {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, err
	}
	return &localWriter{path: path, f: f, page: make([]byte, 0, pageSize)}, nil
}

// write appends b to the pages.
func (w *localWriter) write(b []byte) error {
	w.n += int64(len(b))
	for len(b) > 0 {
		k := min(len(b), pageSize-len(w.page))
		w.page = append(w.page, b[:k]...)
		b = b[k:]
		if len(w.page) == pageSize {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pad fills the current page with zeros.
func (w *localWriter) pad() error {
	if len(w.page) == 0 {
		return nil
	}
	return w.write(make([]byte, pageSize-len(w.page)))
}

func (w *localWriter) flush() error {
	if len(w.page) == 0 {
		return nil
	}
	w.sums = binary.BigEndian.AppendUint32(w.sums, crc32c.Checksum(w.page))
	_, err := w.f.Write(w.page)
	w.page = w.page[:0]
	return err
}

// commit appends the memory part and the footer, syncs the file and renames it.
func (w *localWriter) commit(kind fileKind, id identity, memory []byte) error {
	if err := w.flush(); err != nil {
		return err
	}
	be := binary.BigEndian
	b := make([]byte, 0, footerBytes)
	b = append(b, localMagic...)
	b = be.AppendUint32(b, localVersion)
	b = be.AppendUint32(b, uint32(kind))
	b = append(b, id.block[:]...)
	b = be.AppendUint64(b, uint64(id.size))
	b = be.AppendUint64(b, uint64(w.n))
	b = be.AppendUint64(b, uint64(len(memory)))
	b = be.AppendUint32(b, crc32c.Checksum(memory))
	b = be.AppendUint32(b, crc32c.Checksum(w.sums))
	b = be.AppendUint32(b, crc32c.Checksum(b))
	for _, part := range [][]byte{memory, w.sums, b} {
		if _, err := w.f.Write(part); err != nil {
			return err
		}
	}
	f := w.f
	w.f = nil
	return localstate.Replace(f, w.path)
}

// abandon removes the file unless it was committed.
func (w *localWriter) abandon() {
	if w.f != nil {
		_ = w.f.Close() // the file is removed, so no data is lost
		_ = os.Remove(w.f.Name())
	}
}

// removeDamaged removes a local file, so that the next reader rebuilds it.
func removeDamaged(path string) {
	_ = os.Remove(path) // if it stays, its checksums reveal the damage again
}

// removeLocal removes the local files of a block, and its directory if that is empty then.
func removeLocal(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		base := filepath.Base(name)
		ours := base == headerName || base == hashesName
		for _, of := range [...]string{headerName, hashesName} {
			if match, _ := filepath.Match(of+".*.tmp", base); match {
				ours = true
			}
		}
		if ours {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	_ = os.Remove(dir) // fails if the directory has other files
	return nil
}
