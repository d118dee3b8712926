package stmtstats

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/internal/teststmt"
)

// heapTable returns a table in memory that the race detector observes. It must not be closed.
func heapTable(t testing.TB, o Options) *Table {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	g := geometryOf(o.MaxDigests, o.Bytes)
	raw := heapBytes(make([]uint64, g.bytes()/8))
	table := &Table{opts: o, seed: maphash.MakeSeed()}
	table.resume(g.format(raw, o.Redaction))
	table.allowance.start(o.Now(), o.MaxDigests)
	return table
}

// heapBytes returns words as bytes.
func heapBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// TestConcurrentSessions counts statements in digests that are added and evicted, while samples are taken: no
// statement is lost, and each sample is of one point in time.
func TestConcurrentSessions(t *testing.T) {
	for _, c := range []struct{ sessions, digests, places, pages int }{
		{4, 1, 10, 200}, // one digest for all
		{4, 100, 10, 20},
		{4, 60, 50, 30}, // too few pages
		{2, 20, 100, 2000},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.digests, c.places), func(t *testing.T) {
			table := heapTable(t, Options{
				MaxDigests: c.places, Bytes: leastBytes(c.places) + int64(c.pages*pageBytes), Turnover: time.Nanosecond, MinIdle: time.Nanosecond,
			})
			const each = 5000
			var sessions sync.WaitGroup
			done := make(chan struct{})
			for session := range c.sessions {
				sessions.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(session), 5))
					for range each {
						r := teststmt.Record(rng.IntN(c.digests), time.Duration(rng.ExpFloat64()*float64(int(1)<<rng.IntN(36))))
						r.Start = time.Now()
						table.Observe(r)
					}
				})
			}
			go func() {
				sessions.Wait()
				close(done)
			}()
			check := func(s *Sample) error {
				want := effectsOf(teststmt.Record(0, 0))
				for _, c := range Effects() {
					if s.Counts[c] != want[c]*s.Counts[Calls] {
						t.Errorf("%s %d has %d calls, %d %s: half a statement", s.Kind, s.ID, s.Counts[Calls], s.Counts[c], c)
					}
				}
				return nil
			}
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				if err := table.Collect(check); err != nil {
					t.Fatal(err)
				}
			}
			var total uint64
			if err := table.Each(func(s *Sample) error { total += s.Counts[Calls]; return check(s) }); err != nil {
				t.Fatal(err)
			}
			if want := uint64(c.sessions * each); total != want {
				t.Errorf("%d statements counted, want %d", total, want)
			}
			if err := table.check(); err != nil {
				t.Error(err)
			}
			t.Logf("%+v", table.Stats())
		})
	}
}
