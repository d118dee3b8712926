package diskcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Names in the cache's directory.
const (
	pagesName = "pages"
	lockName  = "cache.lock"
)

// The layout of the file of pages.
const (
	ways       = 16 // slots of a set
	blockSize  = 4 << 10
	headerSize = 64

	overheadPart = 256 // a 256th of the bound is left for the file system's records

	// MinBytes is the least bound of a cache: dozens of pages.
	MinBytes = 1 << 20
)

// A storage is the file of pages; *os.File implements it.
type storage interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

// slotsFor returns the number of slots of a file within a bound.
func slotsFor(bound int64) (uint64, error) {
	if bound < MinBytes {
		return 0, fmt.Errorf("a disk cache of %d bytes: want at least %d", bound, MinBytes)
	}
	n := (bound - bound/overheadPart - 2*blockSize) / (PageSize + headerSize)
	return uint64(n - n%ways), nil
}

func headerAt(slot uint64) int64 { return blockSize + int64(slot)*headerSize }

// pageAt returns the offset of a slot's page in a file with the given number of slots.
func pageAt(slot, slots uint64) int64 {
	table := (headerAt(slots) + blockSize - 1) / blockSize * blockSize
	return table + int64(slot)*PageSize
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identification is the start of a file: a magic number with the version of the layout, the number of slots,
// and the CRC32C of both.
func identification(slots uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte("tarepgs\x01"), slots)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// A header describes the page of a slot.
type header struct {
	sum    uint32 // CRC32C of the rest of the header and of the page
	length uint32
	page   uint32
	object Object
}

const headerMark = 0x61670001

// encode writes the header to b, without the checksum.
func (h *header) encode(b *[headerSize]byte) {
	*b = [headerSize]byte{}
	binary.LittleEndian.PutUint32(b[4:], headerMark)
	binary.LittleEndian.PutUint32(b[8:], h.length)
	binary.LittleEndian.PutUint32(b[12:], h.page)
	copy(b[16:], h.object.block[:])
	copy(b[32:], h.object.file[:])
}

// decode reads the header from b. It returns false if b has no header, or an impossible one.
func (h *header) decode(b []byte) bool {
	if binary.LittleEndian.Uint32(b[4:]) != headerMark {
		return false
	}
	h.sum = binary.LittleEndian.Uint32(b)
	h.length = binary.LittleEndian.Uint32(b[8:])
	h.page = binary.LittleEndian.Uint32(b[12:])
	h.object = Object{Block(b[16:32]), [16]byte(b[32:48])}
	return h.length <= PageSize
}

// checksum returns the CRC32C of an encoded header and its page.
func checksum(encoded *[headerSize]byte, page []byte) uint32 {
	return crc32.Update(crc32.Checksum(encoded[4:], castagnoli), castagnoli, page)
}

// lockDir creates the directory and locks it against other processes.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create cache directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock cache directory: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process uses it: give each process a directory of its own")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock cache directory %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}

// openPages opens the file of pages. A file that does not have the number of slots is emptied.
func openPages(dir string, slots uint64) (f *os.File, emptied bool, err error) {
	f, err = os.OpenFile(filepath.Join(dir, pagesName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open disk cache: %w", err)
	}
	emptied, err = prepare(f, slots)
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("prepare disk cache in %s: %w", dir, err), f.Close())
	}
	return f, emptied, nil
}

// prepare makes f a file of slots.
func prepare(f *os.File, slots uint64) (emptied bool, err error) {
	want := identification(slots)
	got := make([]byte, len(want))
	n, err := f.ReadAt(got, 0)
	if err != nil && err != io.EOF { // wrapped, it is an error of reading and no end
		return false, err
	}
	if !bytes.Equal(got[:n], want) {
		emptied = n > 0
		if err := f.Truncate(0); err != nil {
			return false, err
		}
		if _, err := f.WriteAt(want, 0); err != nil {
			return false, err
		}
	}
	return emptied, f.Truncate(pageAt(slots, slots))
}

// diskFailed reports whether err is a failure of the disk, rather than of the options: it is full, read-only or
// broken.
func diskFailed(err error) bool {
	for _, e := range [...]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
