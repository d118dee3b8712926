package tsblock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// A slowSource takes a second per call, and counts concurrent calls.
type slowSource struct {
	Source
	costs      Costs
	now, peak  atomic.Int32
	failAt     int64 // the call for the bytes at this offset fails; 0: none
	cancelled  atomic.Int32
	failedOnce atomic.Bool
}

func (s *slowSource) Costs() Costs { return s.costs }

func (s *slowSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for peak := s.peak.Load(); n > peak && !s.peak.CompareAndSwap(peak, n); {
		peak = s.peak.Load()
	}
	if s.failAt > 0 && off <= s.failAt && s.failAt < off+int64(len(dst)) {
		s.failedOnce.Store(true)
		return 0, errInjected
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		s.cancelled.Add(1)
		return 0, context.Cause(ctx)
	}
	return s.Source.ReadRange(ctx, name, off, dst)
}

// longSeries returns series with six megabytes of symbols, and as much of values in the postings offset
// table.
func longSeries() []testSeries {
	var all []testSeries
	for i := range 100 {
		value := fmt.Sprintf("%03d", i) + strings.Repeat("x", 60_000)
		all = append(all, testSeries{labels: labels.FromStrings("a", value)})
	}
	return all
}

// TestSectionReadsAhead builds the header of a block with long sections from a source that allows concurrent
// calls: it makes as many as allowed, and the header equals the one built piece by piece.
func TestSectionReadsAhead(t *testing.T) {
	dir, name := writeIndex(t, longSeries())
	var headers [][]byte
	for _, c := range []struct{ calls, peak int }{{1, 1}, {2, 2}, {16, maxAhead}} {
		e := newEnv(t)
		synctest.Test(t, func(t *testing.T) {
			s := &slowSource{Source: Dir(dir), costs: Costs{Calls: c.calls}}
			b, err := openBlock(t.Context(), s, name, e.options)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := b.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := int(s.peak.Load()); got != c.peak {
				t.Errorf("%d calls allowed: %d at once, want %d", c.calls, got, c.peak)
			}
		})
		file, err := os.ReadFile(filepath.Join(e.options.LocalDir, name, headerName))
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, file)
	}
	for _, h := range headers[1:] {
		if !bytes.Equal(h, headers[0]) {
			t.Error("reading ahead makes another header")
		}
	}
}

// TestSectionAheadFails fails one of several concurrent calls: its error is returned, the others are
// cancelled, and no header is left.
func TestSectionAheadFails(t *testing.T) {
	dir, name := writeIndex(t, longSeries())
	for _, at := range []int64{1 << 20, 3 << 20, 5<<20 + 500_000} {
		e := newEnv(t)
		synctest.Test(t, func(t *testing.T) {
			s := &slowSource{Source: Dir(dir), costs: Costs{Calls: 16}, failAt: at}
			b, err := openBlock(t.Context(), s, name, e.options)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := b.Load(t.Context()); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), name) {
				t.Errorf("at %d: %v", at, err)
			}
			if !s.failedOnce.Load() || s.cancelled.Load() == 0 || s.now.Load() != 0 {
				t.Errorf("at %d: %d calls ended early, %d go on", at, s.cancelled.Load(), s.now.Load())
			}
		})
		if _, err := os.Stat(filepath.Join(e.options.LocalDir, name, headerName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("at %d: there is a header: %v", at, err)
		}
	}
}
