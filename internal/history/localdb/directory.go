package localdb

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"
	walrecord "github.com/prometheus/prometheus/tsdb/record"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"github.com/prometheus/prometheus/tsdb/wlog"

	"github.com/taredb/tare/internal/localstate"
)

// Names of the database's parts.
const (
	WALName   = "wal"
	HeadName  = "chunks_head"
	walDamage = "prometheus_tsdb_wal_corruptions_total"
	memDamage = "prometheus_tsdb_mmap_chunk_corruptions_total"
)

// The pieces of the database in the data directory, with the effect of their loss.
var (
	walPiece   = localstate.Piece{Name: "write-ahead log", Lost: "samples since the newest block, 3 h at most; counters continue"}
	headPiece  = localstate.Piece{Name: "head chunks", Lost: "nothing that the write-ahead log has"}
	blockPiece = localstate.Piece{Name: "block", Lost: "the samples of this block, unless the bucket has it"}
)

// errUndefined is the cause for which head chunks are set aside after the log has lost records. A chunk refers to its
// series by number. The database reuses the numbers of lost records, and at its next start would add the chunks to
// the new series.
var errUndefined = errors.New("the write-ahead log has lost records, which may define the series of these chunks")

// A Directory has the files of the database. Open opens the database in whatever state they are.
type Directory struct {
	Path  string
	State *localstate.Store
	Log   *slog.Logger

	// Others are files in the directory that do not belong to the database, by name.
	Others map[string]localstate.Piece
}

// Open opens the database. It sets aside blocks, head chunks and a write-ahead log that cannot be read, and
// keeps copies of records that the database removes in its repair. If the database does not open without head chunks and
// log either, it puts them back and returns the error. It returns errors of the machine, such as a full disk, without
// setting anything aside.
func (l *Directory) Open(expired tsdb.BlocksToDeleteFunc) (*tsdb.DB, error) {
	if err := l.checkBlocks(); err != nil {
		return nil, err
	}
	wal, err := l.part(WALName, walPiece)
	if err != nil {
		return nil, err
	}
	head, err := l.part(HeadName, headPiece)
	if err != nil {
		return nil, errors.Join(err, wal.shadow.Undo())
	}
	db, err := l.open(wal, head, expired)
	if err != nil {
		return nil, errors.Join(err, head.shadow.Undo(), wal.shadow.Undo())
	}
	l.Record(db.BlockMetas())
	return db, nil
}

func (l *Directory) open(wal, head *part, expired tsdb.BlocksToDeleteFunc) (*tsdb.DB, error) {
	short := l.shortened()
	if err := l.checkCheckpoint(); localstate.OfMachine(err) {
		return nil, err
	} else if err != nil {
		// The database repairs only segments.
		if err := errors.Join(head.replace(err), wal.replace(err)); err != nil {
			return nil, err
		}
	}
	chunks := DirBytes(head.dir) > 0
	if len(short) > 0 && chunks && !head.reported {
		if err := head.replace(errUndefined); err != nil {
			return nil, err
		}
	}
	// Head chunks first: they can be rebuilt from the log, and are useless without it.
	repairs := []*part{head, wal}
	for {
		metrics := prometheus.NewRegistry()
		db, err := OpenHead(l.Path, l.Log, metrics, expired)
		if err == nil && corruptions(metrics, walDamage) > 0 && chunks && !head.reported {
			wal.keepRemoved(true)
			if err := errors.Join(db.Close(), head.replace(errUndefined)); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			wal.keepRemoved(corruptions(metrics, walDamage) > 0)
			head.keepRemoved(corruptions(metrics, memDamage) > 0)
			if len(short) > 0 && !wal.reported {
				l.State.Report(localstate.Loss{Piece: walPiece, Path: wal.dir, Cause: strings.Join(short, ", ")})
			}
			return db, nil
		}
		repairs = slices.DeleteFunc(repairs, func(p *part) bool { return p.replaced })
		if localstate.OfMachine(err) || len(repairs) == 0 {
			return nil, err
		}
		if moveErr := repairs[0].replace(err); moveErr != nil {
			return nil, errors.Join(err, moveErr)
		}
	}
}

// Reopen opens the database again after a failed write of this process. Its repair of a partly written record
// is not reported as damage.
func (l *Directory) Reopen(expired tsdb.BlocksToDeleteFunc) (*tsdb.DB, error) {
	db, err := OpenHead(l.Path, l.Log, prometheus.NewRegistry(), expired)
	switch {
	case err == nil:
		l.Record(db.BlockMetas()) // the repair has shortened the log
		return db, nil
	case localstate.OfMachine(err):
		return nil, err
	}
	return l.Open(expired)
}

// corruptions returns the value of a counter of the database.
func corruptions(metrics prometheus.Gatherer, name string) (n float64) {
	families, err := metrics.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name {
			n += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return n
}

// checkBlocks sets aside blocks that cannot be opened.
func (l *Directory) checkBlocks() error {
	entries, err := os.ReadDir(l.Path)
	if err != nil {
		return fmt.Errorf("list blocks: %w", err)
	}
	recorded := l.State.Files(l.Path)
	for _, e := range entries {
		id, err := ulid.ParseStrict(e.Name())
		if err != nil {
			continue
		}
		if err := l.checkBlock(id, recorded[filepath.Join(l.Path, e.Name())].Bytes); err != nil {
			if localstate.OfMachine(err) {
				return fmt.Errorf("open block %s: %w", id, err)
			}
			l.State.SetAside(filepath.Join(l.Path, e.Name()), blockPiece, err)
		}
	}
	return nil
}

// checkBlock opens a block and compares its size with the recorded one, unless that is 0. Chunks are checked
// when they are read.
func (l *Directory) checkBlock(id ulid.ULID, bytes int64) error {
	if now := DirBytes(filepath.Join(l.Path, id.String())); bytes != 0 && now != bytes {
		return fmt.Errorf("%d bytes, an earlier process wrote %d", now, bytes)
	}
	b, err := tsdb.OpenBlock(slog.New(slog.DiscardHandler), filepath.Join(l.Path, id.String()), nil, nil)
	if err != nil {
		return err
	}
	m := b.Meta()
	err = b.Close()
	if m.ULID != id {
		err = errors.Join(err, fmt.Errorf("meta.json is of block %s", m.ULID))
	}
	if m.MinTime >= m.MaxTime {
		err = errors.Join(err, fmt.Errorf("meta.json has the time range %d to %d", m.MinTime, m.MaxTime))
	}
	return err
}

// checkCheckpoint reads the newest checkpoint of the log.
func (l *Directory) checkCheckpoint() error {
	dir, _, err := wlog.LastCheckpoint(filepath.Join(l.Path, WALName))
	if errors.Is(err, walrecord.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	segments, err := wlog.NewSegmentsReader(dir)
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	r := wlog.NewReader(segments)
	for r.Next() {
	}
	if err := errors.Join(r.Err(), segments.Close()); err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	return nil
}

// A part is a directory that the database repairs itself.
type part struct {
	*Directory
	dir      string
	piece    localstate.Piece
	shadow   *localstate.Shadow
	reported bool
	replaced bool
}

func (l *Directory) part(name string, piece localstate.Piece) (*part, error) {
	p := &part{Directory: l, dir: filepath.Join(l.Path, name), piece: piece}
	if err := l.State.Dir(p.dir, p.record()); err != nil {
		return nil, fmt.Errorf("create %s: %w", p.dir, err)
	}
	var err error
	if p.shadow, err = l.State.Shadow(p.dir); err != nil {
		l.Log.Warn("no links to the database's files: a repair keeps no copy", "path", p.dir, "err", err)
	}
	return p, nil
}

// record returns the directory's entry in the record. For the log, the segments are checked separately.
func (p *part) record() localstate.File {
	return localstate.File{Piece: p.piece, Managed: p.piece == walPiece}
}

// keepRemoved keeps the files that the database has removed as corrupt, or drops the links.
func (p *part) keepRemoved(damaged bool) {
	if damaged {
		p.shadow.Keep(p.piece, "corrupt records; the database has removed them and what follows")
		p.reported = true
	}
	p.shadow.Discard()
}

// replace replaces a directory with which the database does not open by an empty one.
func (p *part) replace(cause error) error {
	p.reported, p.replaced = true, true
	if err := p.shadow.Replace(p.piece, cause); err != nil {
		return err
	}
	return p.State.Dir(p.dir, p.record())
}

// shortened describes segments of the log written by an earlier process that are missing or shorter now.
// Segments up to a checkpoint's were removed by the database.
func (l *Directory) shortened() (short []string) {
	dir := filepath.Join(l.Path, WALName)
	_, checkpoint, err := wlog.LastCheckpoint(dir)
	if err != nil {
		checkpoint = -1
	}
	files := l.State.Files(dir)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		name := filepath.Base(path)
		n, ok := walNumber(name)
		if isCheckpoint := strings.HasPrefix(name, checkpointPrefix); !ok || n < checkpoint || n == checkpoint && !isCheckpoint {
			continue
		}
		if bytes := DirBytes(path); bytes < files[path].Bytes {
			short = append(short, fmt.Sprintf("%s has %d bytes of %d", name, bytes, files[path].Bytes))
		}
	}
	return short
}

// Record updates the record of blocks and of the log's segments.
func (l *Directory) Record(blocks []tsdb.BlockMeta) {
	files := make(map[string]localstate.File)
	for path, f := range l.State.Files(l.Path) {
		if _, err := ulid.ParseStrict(filepath.Base(path)); err != nil {
			files[path] = f
		}
	}
	for _, m := range blocks {
		dir := filepath.Join(l.Path, m.ULID.String())
		files[dir] = localstate.File{Piece: blockPiece, Bytes: DirBytes(dir)}
	}
	for name, piece := range l.Others {
		if _, err := os.Stat(filepath.Join(l.Path, name)); err == nil {
			files[filepath.Join(l.Path, name)] = localstate.File{Piece: piece}
		}
	}
	l.State.Replace(l.Path, files)

	dir := filepath.Join(l.Path, WALName)
	segments := make(map[string]localstate.File)
	entries, _ := os.ReadDir(dir) // if it is unreadable, nothing is recorded
	for _, e := range entries {
		if _, ok := walNumber(e.Name()); ok {
			path := filepath.Join(dir, e.Name())
			segments[path] = localstate.File{Piece: walPiece, Bytes: DirBytes(path), Managed: true}
		}
	}
	l.State.Replace(dir, segments)
}

// checkpointPrefix precedes the number in the name of a checkpoint.
const checkpointPrefix = "checkpoint."

// walNumber returns the number of a segment or checkpoint.
func walNumber(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, checkpointPrefix))
	return n, err == nil
}

// DirBytes returns the bytes of the files in a directory, or of a file; unreadable ones count as 0.
func DirBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n
}

// Forget removes blocks from the record that the database is about to delete.
func (l *Directory) Forget(blocks map[ulid.ULID]struct{}) {
	paths := make([]string, 0, len(blocks))
	for id := range blocks {
		paths = append(paths, filepath.Join(l.Path, id.String()))
	}
	l.State.Forget(paths...)
}

// maxSegment is the size of the largest file of the write-ahead log, of any version: twice Prometheus' default.
const maxSegment = 2 * wlog.DefaultSegmentSize

// MostBytes returns the size of the largest file of its name that the database would read as a whole; 0: any, since it maps the
// others into memory.
func MostBytes(path string) int64 {
	dir := filepath.Dir(path)
	if strings.HasPrefix(filepath.Base(dir), checkpointPrefix) {
		dir = filepath.Dir(dir)
	}
	switch {
	case filepath.Ext(path) == ".json", filepath.Base(path) == tombstones.TombstonesFilename:
		return localstate.MaxFile
	case filepath.Base(dir) == WALName:
		return maxSegment
	}
	return 0
}
