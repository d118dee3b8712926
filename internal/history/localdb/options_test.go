package localdb_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// TestHeadOptions has the effects of the database's options: a compressed log, blocks of two hours, blocks that overlap left as they are,
// and those deleted that expired returns.
func TestHeadOptions(t *testing.T) {
	const hour = 3_600_000
	dir := t.TempDir()
	first, second, old := writeBlock(t, dir, 0, hour), writeBlock(t, dir, hour/2, hour), writeBlock(t, dir, 0, hour/4)
	db, err := localdb.OpenHead(dir, slog.New(slog.DiscardHandler), nil, func(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
		ids := make(map[ulid.ULID]struct{})
		for _, b := range blocks {
			if b.Meta().ULID.String() == filepath.Base(old) {
				ids[b.Meta().ULID] = struct{}{}
			}
		}
		return ids
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &lostLog{T: t, path: dir, db: db}
	l.append(2*hour, series{"a", 1, false})
	if err := db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, second} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("a block that overlaps another one: %v", err)
		}
	}
	written := 0
	for _, b := range db.Blocks() {
		if m := b.Meta(); m.MinTime >= 2*hour {
			written++
			if m.MaxTime-m.MinTime > 2*hour || m.MinTime/(2*hour) != (m.MaxTime-1)/(2*hour) {
				t.Errorf("a block from %d to %d", m.MinTime, m.MaxTime)
			}
		}
	}
	if written == 0 {
		t.Error("no block was written")
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the expired block is kept")
	}
	closeDB(t, db)
	text, err := os.ReadFile(filepath.Join(dir, localdb.WALName, "00000000"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "__name__") > 1 || len(text) == 0 {
		t.Error("the log is not compressed")
	}
	const snappy = 1 << 3 // in the type of a record
	compressed := false
	for at := 0; at+7 < len(text); {
		compressed = compressed || text[at]&snappy != 0
		at += 7 + int(text[at+1])<<8 + int(text[at+2])
		if at < len(text) && text[at] == 0 {
			break // the rest of a page
		}
	}
	if !compressed {
		t.Error("no record of the log is compressed")
	}
}

// TestDirBytes has the bytes of directories, files and links, and of none.
func TestDirBytes(t *testing.T) {
	dir := t.TempDir()
	for name, bytes := range map[string]int{"a": 3, "b/c": 5, "b/d/e": 7} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int64{".": 15, "a": 3, "b": 12, "b/d": 7, "none": 0, "a/none": 0} {
		if got := localdb.DirBytes(filepath.Join(dir, filepath.FromSlash(name))); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}

// TestNoDirectory has the error of a directory that does not exist, which is not created.
func TestNoDirectory(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := filepath.Join(t.TempDir(), "none")
	l := localdb.Directory{Path: dir, State: localstate.Open(t.TempDir(), nil, log), Log: log}
	if _, err := l.Open(nil); err == nil || !strings.HasPrefix(err.Error(), "list blocks: ") {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was created")
	}
}

// TestRecordKeepsOthers has entries of other files kept, those of blocks and segments replaced, and all that exist recorded again when the database is opened again.
func TestRecordKeepsOthers(t *testing.T) {
	l := &lostLog{T: t, path: t.TempDir()}
	l.open()
	l.append(0, series{"a", 1, false})
	l.close()
	log := slog.New(slog.DiscardHandler)
	state := localstate.Open(l.path, nil, log)
	other := filepath.Join(l.path, "other")
	gone := filepath.Join(l.path, "01H00000000000000000000000")
	state.Created(other, localstate.File{Piece: localstate.Piece{Name: "other"}})
	state.Created(gone, localstate.File{Piece: localstate.Piece{Name: "block"}})
	dir := localdb.Directory{Path: l.path, State: state, Log: log}
	wal := filepath.Join(l.path, localdb.WALName)
	segment := filepath.Join(wal, "00000000")
	state.Forget(segment)
	db, err := dir.Reopen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	files := state.Files(l.path)
	if _, ok := files[other]; !ok {
		t.Errorf("recorded: %v", files)
	}
	if _, ok := files[gone]; ok {
		t.Error("a block that does not exist is recorded")
	}
	info, err := os.Stat(segment)
	if err != nil {
		t.Fatal(err)
	}
	if f := state.Files(wal)[segment]; f.Bytes != info.Size() || !f.Managed {
		t.Errorf("the segment of %d bytes is recorded as %+v", info.Size(), f)
	}
	block := ulid.MustParse(filepath.Base(writeBlock(t, l.path, 0, 1000)))
	dir.Record([]tsdb.BlockMeta{{ULID: block}})
	keep := ulid.MustParse("01H00000000000000000000001")
	state.Created(filepath.Join(l.path, keep.String()), localstate.File{Piece: localstate.Piece{Name: "block"}})
	dir.Forget(map[ulid.ULID]struct{}{block: {}})
	files = state.Files(l.path)
	if _, ok := files[filepath.Join(l.path, block.String())]; ok {
		t.Error("the block is still recorded")
	}
	if _, ok := files[filepath.Join(l.path, keep.String())]; !ok {
		t.Error("another block is not recorded")
	}
}
