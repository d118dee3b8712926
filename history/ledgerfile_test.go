// This test is of the package itself: the lines of a ledger and the bound of its files are visible in no other way.

package history

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testseed"
)

// TestLedgerLines parses written lines, and checks that each changed byte is detected.
func TestLedgerLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 1))
	var text []byte
	var want []ledgerLine
	at := int64(0)
	for range 50 {
		l := ledgerLine{since: at, began: at + 1 + rng.Int64N(1e12), samples: rng.Uint64(), calls: rng.Uint64()}
		l.last = l.began + rng.Int64N(1e6)
		at = l.last
		want, text = append(want, l), l.append(text)
	}
	got, whole, err := parseLedger(text)
	if err != nil || whole != len(text) || !slices.Equal(got, want) {
		t.Fatalf("%v: %d bytes of %d", err, whole, len(text))
	}
	for i := range text {
		changed := slices.Clone(text)
		for changed[i] == text[i] {
			changed[i] = byte(rng.IntN(256))
		}
		got, _, err := parseLedger(changed)
		if last := i >= len(text)-1; err == nil && !(last && len(got) == len(want)-1) {
			t.Fatalf("byte %d changed from %q to %q: no error, %d lines", i, text[i], changed[i], len(got))
		}
	}
}

// TestLedgerBound removes the oldest files, and continues in a file that was set aside while it was open.
func TestLedgerBound(t *testing.T) {
	dir := t.TempDir()
	state := localstate.Open(dir, nil, slog.New(slog.DiscardHandler))
	l, err := openLedger(dir, state, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.limit = 1000
	at := int64(0)
	add := func() {
		t.Helper()
		line := ledgerLine{since: at, began: at + BlockRange.Milliseconds()/10, last: at + BlockRange.Milliseconds()/10}
		at = line.last
		if err := l.add(&line); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		add()
	}
	var bytes int64
	files, err := os.ReadDir(filepath.Join(dir, ledgerName))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if bytes > 1000+500 || len(files) < 2 {
		t.Errorf("%d bytes in %d files, want 1000 besides the newest", bytes, len(files))
	}
	starts := l.list()
	newest := starts[len(starts)-1]
	if err := os.WriteFile(l.path(newest), []byte("x"+strings.Repeat("y", 500)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.read(newest); err == nil {
		t.Error("a damaged file is read")
	}
	add()
	if lines, _, err := l.read(ledgerStart(at)); err != nil || len(lines) != 1 {
		t.Errorf("%d lines after it was set aside (%v), want 1", len(lines), err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// TestLedgerNotRemoved logs a file that cannot be removed, and forgets it.
func TestLedgerNotRemoved(t *testing.T) {
	dir := t.TempDir()
	var logged strings.Builder
	log := slog.New(slog.NewTextHandler(&logged, nil))
	l, err := openLedger(dir, localstate.Open(dir, nil, log), log)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, BlockRange.Milliseconds()} {
		if err := l.add(&ledgerLine{since: at, began: at + 1, last: at + 1}); err != nil {
			t.Fatal(err)
		}
	}
	l.remove(0)
	l.remove(0) // of no effect
	if err := os.Remove(l.path(BlockRange.Milliseconds())); err != nil {
		t.Fatal(err)
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
	l.remove(BlockRange.Milliseconds())
	if got := logged.String(); strings.Count(got, "ledger file not removed") != 1 || !strings.Contains(got, "no such file") {
		t.Errorf("logged: %s", got)
	}
	if n := len(l.list()); n != 0 {
		t.Errorf("%d files are left", n)
	}
}
