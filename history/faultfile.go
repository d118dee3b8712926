package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// faultsName is the file of ranges without samples. It is allocated when it is created, and overwritten in
// place, so that ranges can be recorded on a full disk.
const (
	faultsName    = "faults.json"
	faultsBytes   = 16 << 10
	faultsVersion = 1
	maxFaults     = 50 // ranges in the file; it has room for some 60
)

// A FaultRange is a range in which samples are missing because they could not be written. Counters are
// cumulative: the first sample after it includes the calls within it.
type FaultRange struct {
	From  time.Time `json:"from"`        // time of the last samples before the fault
	To    time.Time `json:"to,omitzero"` // time of the first samples after it; zero while it lasts
	Cause string    `json:"cause"`       // at most maxCause bytes
}

// maxCause bounds FaultRange.Cause.
const maxCause = 200

// A faultFile stores the ranges across restarts.
type faultFile struct {
	mu   sync.Mutex
	file *os.File
	list struct {
		Version int          `json:"version"`     // faultsVersion
		Seconds float64      `json:"lostSeconds"` // of all ranges that ended, including removed ones
		Ranges  []FaultRange `json:"ranges"`
	}
}

var faultsPiece = localstate.Piece{Name: "fault ranges", Lost: "which earlier ranges have no samples because of failed writes"}

// openFaults opens the file in dir, or creates it.
func openFaults(dir string, state *localstate.Store) (*faultFile, error) {
	name := filepath.Join(dir, faultsName)
	f := &faultFile{}
	text, err := localstate.ReadFile(name)
	if err == nil && len(text) != faultsBytes {
		err = fmt.Errorf("%d bytes, want %d", len(text), faultsBytes)
	}
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(text), &f.list)
	}
	if err == nil && f.list.Version > faultsVersion {
		err = fmt.Errorf("of version %d, want at most %d", f.list.Version, faultsVersion)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.list.Seconds, f.list.Ranges = 0, nil
		if _, ok := state.SetAside(name, faultsPiece, err); !ok {
			return nil, fmt.Errorf("set aside %s: %w", name, err)
		}
	}
	f.list.Version = faultsVersion
	if f.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if err = localstate.Allocate(f.file, faultsBytes); err == nil || errors.Is(err, errors.ErrUnsupported) {
		err = f.save()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("allocate %s: %w", name, err), f.file.Close())
	}
	state.Created(name, localstate.File{Piece: faultsPiece})
	return f, nil
}

func (f *faultFile) save() error {
	text, err := json.MarshalIndent(&f.list, "", " ")
	if err != nil {
		return err
	}
	padded := bytes.Repeat([]byte{' '}, faultsBytes)
	if copy(padded, text) < len(text) {
		return fmt.Errorf("%d bytes of ranges: want at most %d", len(text), faultsBytes)
	}
	padded[faultsBytes-1] = '\n'
	if _, err := f.file.WriteAt(padded, 0); err != nil {
		return err
	}
	return f.file.Sync()
}

// start records a range without an end. An open range of an earlier process continues.
func (f *faultFile) start(from time.Time, cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openLocked() != nil {
		return nil
	}
	text := cause.Error()
	f.list.Ranges = append(f.list.Ranges, FaultRange{From: from.UTC(), Cause: text[:min(len(text), maxCause)]})
	if n := len(f.list.Ranges) - maxFaults; n > 0 {
		f.list.Ranges = append(f.list.Ranges[:0], f.list.Ranges[n:]...)
	}
	return f.save()
}

// finish records the end of the open range and returns it; false if there is none.
func (f *faultFile) finish(to time.Time) (FaultRange, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := f.openLocked()
	if open == nil {
		return FaultRange{}, false, nil
	}
	open.To = to.UTC()
	f.list.Seconds += max(0, open.To.Sub(open.From).Seconds())
	return *open, true, f.save()
}

func (f *faultFile) openLocked() *FaultRange {
	if n := len(f.list.Ranges); n > 0 && f.list.Ranges[n-1].To.IsZero() {
		return &f.list.Ranges[n-1]
	}
	return nil
}

// lostSeconds returns the length of all ranges; the open one ends now.
func (f *faultFile) lostSeconds(now time.Time) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	seconds := f.list.Seconds
	if open := f.openLocked(); open != nil {
		seconds += max(0, now.Sub(open.From).Seconds())
	}
	return seconds
}

func (f *faultFile) close() error { return f.file.Close() }
