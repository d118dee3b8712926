package alloctest

import (
	"math"
	"runtime/debug"
	"slices"
	"testing"
)

// PerThousand fails the test if a thousand operations make more heap allocations than want. It measures up to
// five times: the runtime's allocations are counted occasionally.
func PerThousand(t *testing.T, name string, want float64, op func() error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		info, ok := debug.ReadBuildInfo()
		if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
			t.Skip("the race detector allocates")
		}
		var failed error
		thousand := func() {
			for range 1000 {
				if err := op(); err != nil {
					failed = err
				}
			}
		}
		thousand() // buffers reach their size
		got := math.Inf(1)
		for try := 0; try < 5 && got > want && failed == nil; try++ {
			got = min(got, testing.AllocsPerRun(5, thousand))
		}
		if got > want || failed != nil {
			t.Errorf("%v allocations in 1000 operations, want at most %v; error: %v", got, want, failed)
		}
	})
}
