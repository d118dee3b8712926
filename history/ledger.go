package history

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/localstate"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The ledger is a directory with one file per range of BlockRange, named after the start of the range in
// milliseconds. A file has one line per round: the numbers of a ledgerLine and a CRC-32C, in text.
const (
	ledgerName   = "ledger"
	ledgerSuffix = ".txt"

	// ledgerBytes bounds all files; the oldest are removed first. A line has at most 80 bytes in practice: a
	// day of rounds that are one second apart needs 6 MiB.
	ledgerBytes = 8 << 20
)

var ledgerPiece = localstate.Piece{Name: "ledger", Lost: "the self-check of the rounds in this file; samples are not affected"}

// A ledgerLine records the samples that one round has written, excluding zero samples and staleness markers.
// Their times are the round's; zero samples before a series' first one have other times.
type ledgerLine struct {
	since   int64 // milliseconds: time of the newest samples before the round
	began   int64 // milliseconds: time of the first samples of the round
	last    int64 // milliseconds: time of the last samples of the round
	samples uint64
	calls   uint64 // increase of tare_queries_total, over all series
}

// ledgerStart returns the start of the range of the file that contains a line.
func ledgerStart(began int64) int64 { return began - began%BlockRange.Milliseconds() }

func (l *ledgerLine) append(to []byte) []byte {
	start := len(to)
	for _, n := range [...]int64{l.since, l.began, l.last} {
		to = append(strconv.AppendInt(to, n, 10), ' ')
	}
	for _, n := range [...]uint64{l.samples, l.calls} {
		to = append(strconv.AppendUint(to, n, 10), ' ')
	}
	return fmt.Appendf(to, "%08x\n", crc32.Checksum(to[start:], castagnoli))
}

// parseLedger returns the lines of a file. An incomplete last line was partly written and is ignored.
func parseLedger(text []byte) (lines []ledgerLine, whole int, err error) {
	for whole < len(text) {
		n := bytes.IndexByte(text[whole:], '\n')
		if n < 0 {
			break
		}
		l, err := parseLedgerLine(text[whole : whole+n])
		if err == nil && len(lines) > 0 && l.began <= lines[len(lines)-1].last {
			err = errors.New("the times are not in order")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
		whole += n + 1
	}
	return lines, whole, nil
}

func parseLedgerLine(text []byte) (l ledgerLine, err error) {
	cut := bytes.LastIndexByte(text, ' ') + 1
	fields := strings.Fields(string(text[:cut]))
	if sum := fmt.Sprintf("%08x", crc32.Checksum(text[:cut], castagnoli)); len(fields) != 5 || sum != string(text[cut:]) {
		return l, errors.New("the checksum does not match")
	}
	var errs [5]error
	l.since, errs[0] = strconv.ParseInt(fields[0], 10, 64)
	l.began, errs[1] = strconv.ParseInt(fields[1], 10, 64)
	l.last, errs[2] = strconv.ParseInt(fields[2], 10, 64)
	l.samples, errs[3] = strconv.ParseUint(fields[3], 10, 64)
	l.calls, errs[4] = strconv.ParseUint(fields[4], 10, 64)
	if err = errors.Join(errs[:]...); err == nil && (l.began > l.last || l.since >= l.began) {
		err = errors.New("the times are not in order")
	}
	return l, err
}

// A ledger records the samples of each round. Like the write-ahead log, it is synced when a file is finished
// and when it is closed: it survives a kill, and a power loss may lose the last lines of both.
type ledger struct {
	dir   string
	state *localstate.Store
	log   *slog.Logger

	mu    sync.Mutex
	file  *os.File // of the newest range; nil before the first line of this process
	start int64    // of its range
	bytes int64    // of its complete lines
	limit int64    // of the bytes of all files
	line  []byte   // scratch
	files map[int64]*ledgerFile

	compared atomic.Uint64 // lines, each once per stage
}

// A ledgerFile is the state of a file.
type ledgerFile struct {
	bytes   int64
	checked int         // lines compared at the stage of the last check
	from    ledgerStage // stage of the last check
	found   Difference  // in these lines
}

// openLedger opens the ledger in a directory. Files that cannot be parsed are set aside.
func openLedger(dir string, state *localstate.Store, log *slog.Logger) (*ledger, error) {
	l := &ledger{dir: filepath.Join(dir, ledgerName), state: state, log: log, limit: ledgerBytes, files: make(map[int64]*ledgerFile)}
	if err := state.Dir(l.dir, localstate.File{Piece: ledgerPiece}); err != nil {
		return nil, fmt.Errorf("create ledger: %w", err)
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list ledger: %w", err)
	}
	recorded := state.Files(l.dir)
	for _, e := range entries {
		start, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ledgerSuffix), 10, 64)
		if err != nil || !strings.HasSuffix(e.Name(), ledgerSuffix) {
			continue
		}
		text, err := localstate.ReadFile(l.path(start))
		whole := 0
		if err == nil {
			_, whole, err = parseLedger(text)
		}
		if least := recorded[l.path(start)].Bytes; err == nil && int64(whole) < least {
			err = fmt.Errorf("%d bytes of whole lines, an earlier process wrote %d", whole, least)
		}
		if err != nil {
			if _, ok := state.SetAside(l.path(start), ledgerPiece, err); !ok {
				return nil, fmt.Errorf("set aside %s: %w", l.path(start), err)
			}
			continue
		}
		l.files[start] = &ledgerFile{bytes: int64(whole)}
	}
	l.record()
	return l, nil
}

// record updates the record of files. The caller holds mu, or has the only reference.
func (l *ledger) record() {
	files := make(map[string]localstate.File, len(l.files))
	for start, f := range l.files {
		files[l.path(start)] = localstate.File{Piece: ledgerPiece, Bytes: f.bytes}
	}
	l.state.Replace(l.dir, files)
}

func (l *ledger) path(start int64) string {
	return filepath.Join(l.dir, strconv.FormatInt(start, 10)+ledgerSuffix)
}

// add appends a line.
func (l *ledger) add(line *ledgerLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if start := ledgerStart(line.began); l.file == nil || start != l.start {
		if err := l.open(start); err != nil {
			return fmt.Errorf("open ledger: %w", err)
		}
	}
	l.line = line.append(l.line[:0])
	n, err := l.file.WriteAt(l.line, l.bytes)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, l.file.Truncate(l.bytes)) // the next line overwrites it in any case
		}
		return fmt.Errorf("append to ledger: %w", err)
	}
	l.bytes += int64(n)
	l.files[l.start].bytes = l.bytes
	return nil
}

// open finishes the current file and opens that of a range. The caller holds mu.
func (l *ledger) open(start int64) error {
	if err := l.finish(); err != nil {
		l.log.Warn("ledger not synced", "err", err)
	}
	f, err := os.OpenFile(l.path(start), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	known := l.files[start]
	if known == nil {
		known = &ledgerFile{}
	}
	if err := f.Truncate(known.bytes); err != nil { // a partly written line
		return errors.Join(err, f.Close())
	}
	l.file, l.start, l.bytes, l.files[start] = f, start, known.bytes, known
	l.bound()
	l.record()
	return nil
}

// bound removes the oldest files until the total size is within the limit.
func (l *ledger) bound() {
	var total int64
	for _, f := range l.files {
		total += f.bytes
	}
	for _, start := range l.starts() {
		if total <= l.limit || start == l.start {
			return
		}
		total -= l.files[start].bytes
		l.log.Warn("ledger file removed unchecked: the ledger has reached its limit", "path", l.path(start), "limit", l.limit)
		l.removeLocked(start)
	}
}

func (l *ledger) finish() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}

// starts returns the starts of all files, in order. The caller holds mu.
func (l *ledger) starts() []int64 {
	starts := make([]int64, 0, len(l.files))
	for start := range l.files {
		starts = append(starts, start)
	}
	slices.Sort(starts)
	return starts
}

// list returns the starts of all files, in order.
func (l *ledger) list() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts()
}

// read returns the lines of a file and a copy of its state; no lines if it was removed.
func (l *ledger) read(start int64) ([]ledgerLine, ledgerFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[start]
	if f == nil {
		return nil, ledgerFile{}, nil
	}
	text, err := localstate.ReadFile(l.path(start))
	if err == nil && int64(len(text)) < f.bytes {
		err = fmt.Errorf("%d bytes, want %d", len(text), f.bytes)
	}
	var lines []ledgerLine
	whole := 0
	if err == nil {
		lines, whole, err = parseLedger(text[:f.bytes])
	}
	if err == nil && int64(whole) != f.bytes {
		err = fmt.Errorf("the last line ends after %d bytes, want %d", whole, f.bytes)
	}
	if err == nil {
		return lines, *f, nil
	}
	if start == l.start && l.file != nil {
		_ = l.file.Close() // the next line starts another file
		l.file = nil
	}
	l.state.SetAside(l.path(start), ledgerPiece, err)
	delete(l.files, start)
	return nil, ledgerFile{}, fmt.Errorf("read ledger: %w", err)
}

// update stores the result of a check.
func (l *ledger) update(start int64, to ledgerFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[start]; f != nil {
		to.bytes = f.bytes
		*f = to
	}
}

// recheck makes the next check compare all lines again.
func (l *ledger) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		f.checked = 0
	}
}

// remove deletes a file.
func (l *ledger) remove(start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(start)
}

func (l *ledger) removeLocked(start int64) {
	if l.files[start] == nil {
		return
	}
	if start == l.start && l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	delete(l.files, start)
	l.state.Forget(l.path(start))
	if err := os.Remove(l.path(start)); err != nil {
		l.log.Warn("ledger file not removed", "path", l.path(start), "err", err)
	}
}

// differences returns the differences found by checks, the oldest first.
func (l *ledger) differences() (all []Difference) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, start := range l.starts() {
		if d := l.files[start].found; !d.From.IsZero() {
			all = append(all, d)
		}
	}
	return all
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record()
	return l.finish()
}
