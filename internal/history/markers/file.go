package markers

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/taredb/tare/internal/localstate"
)

// FilePiece is the Store's file as local state.
var FilePiece = localstate.Piece{Name: "events", Lost: "events before the start are no longer drawn on charts"}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A file is the Store's file.
type file struct {
	mu    sync.Mutex
	f     *os.File // guarded by mu, as all below; nil: markers are only in memory
	bytes int64
}

// open opens the file and returns its markers, the newest state of each, by ID.
func (s *Store) open() []Marker {
	if s.opts.Path == "" {
		return nil
	}
	all, err := s.read()
	if err != nil {
		s.opts.State.SetAside(s.opts.Path, FilePiece, err)
		all = nil
	}
	if err := s.rewrite(all); err != nil {
		s.opts.State.Report(localstate.Loss{Piece: FilePiece, Path: s.opts.Path, Cause: err.Error()})
	}
	return all
}

// maxFile is the size of the largest file that is read, whatever the bound: one that was written with MaxBytes has less.
const maxFile = 3 * MaxBytes

// read parses the file.
func (s *Store) read() ([]Marker, error) {
	if !localstate.IsFile(s.opts.Path) {
		return nil, localstate.ErrNotFile
	}
	f, err := os.Open(s.opts.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	return parse(text)
}

// A header is the first line of a file: the minimum number of markers that follow.
type header struct {
	Version int `json:"version"` // 1
	Markers int `json:"markers"`
}

// parse parses a file. It ignores bytes after the last line break, which are from a write that a kill
// interrupted, but fails if the file has fewer markers than its header says.
func parse(text []byte) ([]Marker, error) {
	line, text, whole := bytes.Cut(text, []byte("\n"))
	var h header
	if err := parseLine(line, &h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if !whole || h.Version != 1 {
		return nil, fmt.Errorf("header: version %d, want a whole line of version 1", h.Version)
	}
	var all []Marker
	at := make(map[uint64]int)
	for n := 0; ; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole && n < h.Markers {
			return nil, fmt.Errorf("%d markers, want at least %d", n, h.Markers)
		}
		if !whole {
			return all, nil
		}
		var m Marker
		if err := parseLine(line, &m); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+2, err)
		}
		if i, known := at[m.ID]; known {
			all[i] = m
		} else {
			at[m.ID] = len(all)
			all = append(all, m)
		}
		text = rest
	}
}

func parseLine(line []byte, v any) error {
	sum, body, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return errors.New("no checksum")
	}
	want := sumOf(body)
	if hex.EncodeToString(want[:]) != string(sum) {
		return errors.New("checksum differs")
	}
	return json.Unmarshal(body, v)
}

func sumOf(body []byte) [4]byte {
	sum := crc32.Checksum(body, castagnoli)
	return [4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

func appendLine(dst []byte, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	sum := sumOf(body)
	dst = hex.AppendEncode(dst, sum[:])
	dst = append(dst, ' ')
	dst = append(dst, body...)
	return append(dst, '\n'), nil
}

// write appends a marker, and rewrites the file when it has grown to twice the bound. A failure is reported
// once: the markers stay in memory.
func (s *Store) write(m *Marker) {
	f := &s.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return
	}
	line, err := appendLine(nil, m)
	if err == nil {
		_, err = f.f.Write(line)
	}
	if err == nil {
		err = f.f.Sync()
	}
	if f.bytes += int64(len(line)); err == nil && f.bytes > 2*s.opts.Bytes {
		s.mu.Lock()
		all := append([]Marker(nil), s.all...)
		s.mu.Unlock()
		err = s.rewriteLocked(all)
	}
	if err != nil {
		_ = f.f.Close() // a write to it has failed
		f.f = nil
		s.opts.State.Report(localstate.Loss{Piece: FilePiece, Path: s.opts.Path, Cause: err.Error()})
	}
}

func (s *Store) rewrite(all []Marker) error {
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	return s.rewriteLocked(all)
}

// rewriteLocked replaces the file by one with these markers.
func (s *Store) rewriteLocked(all []Marker) error {
	text, err := appendLine(nil, header{Version: 1, Markers: len(all)})
	for i := range all {
		if err == nil {
			text, err = appendLine(text, &all[i])
		}
	}
	if err != nil {
		return err
	}
	if err := localstate.WriteFile(s.opts.Path, text); err != nil {
		return err
	}
	f, err := os.OpenFile(s.opts.Path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if s.file.f != nil {
		_ = s.file.f.Close() // the previous file is replaced
	}
	s.file.f, s.file.bytes = f, int64(len(text))
	s.opts.State.Created(s.opts.Path, localstate.File{Piece: FilePiece})
	return nil
}

// Close closes the file. Markers added later stay in memory.
func (s *Store) Close() error {
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	if s.file.f == nil {
		return nil
	}
	err := s.file.f.Close()
	s.file.f = nil
	return err
}
