package alloctest

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// opsPerRun is the number of operations per measured run. testing.AllocsPerRun divides integers, so 999
// allocations in 1,000 runs of one operation would be reported as 0.
const opsPerRun = 1000

// attempts is the maximum number of runs of a case that seems to allocate too much. The counter covers the
// whole process: on a busy machine it includes allocations of the runtime and of other goroutines, at times
// some in each few runs. Allocations of the operation itself occur in each run.
const attempts = 25

// A Case is one row of an allocation table.
type Case struct {
	Name string

	// Op performs the operation once and returns an error if it did not do its work: an operation that fails
	// early allocates nothing and proves nothing.
	Op func() error

	// PerThousand is the maximum number of heap allocations of 1,000 operations; 0 is the rule.
	PerThousand float64
}

// Run measures each case in a subtest and fails those that exceed their allocations.
func Run(t *testing.T, cases []Case) {
	t.Helper()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector allocates by itself: allocation tables are measured without it")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var failed error
			thousand := func() {
				for range opsPerRun {
					if err := c.Op(); err != nil {
						failed = err
					}
				}
			}
			thousand() // warm up: buffers reach their size
			got := allocations(thousand)
			for i := 1; i < attempts && got > c.PerThousand && failed == nil; i++ {
				got = min(got, allocations(thousand))
			}
			if failed != nil {
				t.Fatalf("the operation did not succeed: %v", failed)
			}
			if got > c.PerThousand {
				t.Errorf("%v allocations in %d operations, want at most %v", got, opsPerRun, c.PerThousand)
			}
		})
	}
}

// allocations returns the number of heap allocations of a call of f. Unlike testing.AllocsPerRun it leaves
// GOMAXPROCS unchanged: with a single processor, each wait of an event loop keeps it until the runtime's monitor takes
// it away, which makes an operation through a gateway ten times slower.
func allocations(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}
