package alloctest

import (
	"runtime/metrics"
	"testing"
)

// Bounded returns a function that fails the test if more bytes than that were allocated since the call of Bounded, by the
// whole process. It is deferred by fuzz targets, whose inputs claim lengths: memory must follow the bytes that are there.
func Bounded(t testing.TB, most uint64) func() {
	before := allocated()
	return func() {
		t.Helper()
		if n := allocated() - before; n > most {
			t.Errorf("%d bytes allocated, want at most %d", n, most)
		}
	}
}

// allocated returns the bytes that were allocated since the start of the process. Unlike runtime.ReadMemStats it stops
// nothing; small objects are counted a little later.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
