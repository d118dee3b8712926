package querylog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/localstate"
)

// The layout of a sequence file: magic, the last number (8 bytes in native order), the length of the boot's
// name and the name.
const (
	seqMagic    = "tareseq1"
	seqAt       = 8
	seqBootAt   = 16
	seqFileSize = 4096
	maxSeqBoot  = 255
)

// A seqFile has the number of the last line in a file-backed page that survives when the process is killed,
// so that the next run can report the number of lines.
type seqFile struct {
	f    *os.File // locked against other processes while it is open
	page []byte

	previousBoot string // of the previous run; empty: there was none
	previousSeq  uint64
}

// openSeqFile opens or creates the file at path, reads the previous run's state, and starts a new count for
// boot.
func openSeqFile(path, boot string) (*seqFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, defaultFileMode)
	if err != nil {
		return nil, fmt.Errorf("open sequence file: %w", err)
	}
	s := &seqFile{f: f}
	if err := s.startBoot(boot); err != nil {
		return nil, errors.Join(fmt.Errorf("sequence file %s: %w", path, err), f.Close())
	}
	return s, nil
}

// CheckSeqFile returns an error if the file at path cannot be a Logger's SeqFile. It returns nil if there is
// no file.
func CheckSeqFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read sequence file: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("read sequence file: not a regular file")
	case info.Size() != seqFileSize:
		return fmt.Errorf("read sequence file: %d bytes, want %d", info.Size(), seqFileSize)
	}
	text, err := localstate.ReadFile(path)
	if err == nil && !bytes.HasPrefix(text, []byte(seqMagic)) {
		err = errors.New("not a sequence file")
	}
	if err != nil {
		return fmt.Errorf("read sequence file: %w", err)
	}
	return nil
}

func (s *seqFile) startBoot(boot string) error {
	if err := syscall.Flock(int(s.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("in use by another process: %w", err)
	}
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != seqFileSize {
		if info.Size() != 0 {
			return fmt.Errorf("%d bytes long, want %d: not a sequence file", info.Size(), seqFileSize)
		}
		// Written, not just extended: a page without a block on a full disk would crash the process at its
		// first use.
		if _, err := s.f.WriteAt(make([]byte, seqFileSize), 0); err != nil {
			return err
		}
	}
	s.page, err = syscall.Mmap(int(s.f.Fd()), 0, seqFileSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	if bytes.HasPrefix(s.page, []byte(seqMagic)) {
		s.previousSeq = s.seq().Load()
		n := int(s.page[seqBootAt])
		s.previousBoot = string(s.page[seqBootAt+1 : seqBootAt+1+n])
	} else if len(bytes.Trim(s.page, "\x00")) > 0 {
		return errors.Join(errors.New("not a sequence file"), syscall.Munmap(s.page))
	}
	s.seq().Store(0)
	s.page[seqBootAt] = byte(copy(s.page[seqBootAt+1:seqBootAt+1+maxSeqBoot], boot))
	copy(s.page, seqMagic)
	return nil
}

// seq returns the number in the page: an addition to it is in the file without a system call.
func (s *seqFile) seq() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&s.page[seqAt])) }

func (s *seqFile) close() error { return errors.Join(syscall.Munmap(s.page), s.f.Close()) }

// A startEntry is the first line of a boot with a sequence file of a previous boot.
type startEntry struct {
	at   time.Time
	file *seqFile
}

func (e *startEntry) Kind() string { return "start" }

func (e *startEntry) Facts() Facts { return Facts{End: e.at} }

func (e *startEntry) AppendFields(l *Line) {
	l.Time("start", e.at)
	if e.file.previousBoot != "" {
		l.String("previous_boot", e.file.previousBoot)
		l.Uint("previous_seq", e.file.previousSeq)
	}
}
