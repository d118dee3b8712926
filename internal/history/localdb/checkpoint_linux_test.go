package localdb

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
)

// TestCheckpointUnread has a checkpoint of two segments not be read for lack of descriptors: neither the log nor the head chunks are set aside.
func TestCheckpointUnread(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	l := &Directory{Path: t.TempDir(), Log: log}
	l.State = localstate.Open(l.Path, nil, log)
	for _, name := range []string{"checkpoint.00000002/00000000", "checkpoint.00000002/00000001", "00000003"} {
		path := filepath.Join(l.Path, WALName, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	wal, err := l.part(WALName, walPiece)
	head, err2 := l.part(HeadName, headPiece)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for n, want := range []error{syscall.EMFILE, syscall.EMFILE, nil} {
		var err error
		testdir.WithDescriptors(t, n, func() { err = l.checkCheckpoint() })
		if !errors.Is(err, want) {
			t.Errorf("%d descriptors: %v, want %v", n, err, want)
		}
	}
	testdir.WithDescriptors(t, 1, func() { _, err = l.open(wal, head, nil) })
	if lost := l.State.Losses(); !errors.Is(err, syscall.EMFILE) || len(lost) > 0 || wal.replaced || head.replaced {
		t.Errorf("%v, losses %+v, replaced: log %t, chunks %t", err, lost, wal.replaced, head.replaced)
	}
	if err := errors.Join(head.shadow.Undo(), wal.shadow.Undo()); err != nil {
		t.Error(err)
	}
}
