package main

import (
	"runtime"
	"strings"
)

// An objectProfile has the allocations of a process: pprof's alloc_objects.
type objectProfile struct {
	Objects int64            `json:"objects"`
	Loading int64            `json:"loading"` // by functions that load chunks, and their callees
	By      map[string]int64 `json:"by"`      // by function
}

// countAllObjects makes the runtime record each object from now on, instead of one per 512 KiB.
func countAllObjects() { runtime.MemProfileRate = 1 }

// loaders returns the functions that load chunks, of the baseline and of the product.
func loaders() []string {
	return []string{
		"github.com/taredb/tare/bench/baseline/chunks.(*Reader).",
		"github.com/taredb/tare/store/tsblock.(*chunkLoad).",
		"github.com/taredb/tare/store/tsblock.(*Reader).LoadChunks",
		"github.com/taredb/tare/store/tsblock.(*Block).readChunks",
	}
}

// readObjectProfile reads this process' profile.
func readObjectProfile() objectProfile {
	runtime.GC() // the profile is that of the previous collection
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	var records []runtime.MemProfileRecord
	for ok := false; !ok; {
		records = make([]runtime.MemProfileRecord, n+50)
		n, ok = runtime.MemProfile(records, true)
	}
	p := objectProfile{By: make(map[string]int64)}
	for i := range records[:n] {
		r := &records[i]
		p.Objects += r.AllocObjects
		loading, by := false, ""
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if by == "" && !strings.HasPrefix(f.Function, "runtime.") {
				by = f.Function
			}
			for _, l := range loaders() {
				loading = loading || strings.HasPrefix(f.Function, l)
			}
			if !more {
				break
			}
		}
		p.By[by] += r.AllocObjects
		if loading {
			p.Loading += r.AllocObjects
		}
	}
	return p
}

// subtract subtracts the earlier allocations.
func (p *objectProfile) subtract(before objectProfile) {
	p.Objects -= before.Objects
	p.Loading -= before.Loading
	for name, n := range before.By {
		p.By[name] -= n
	}
}
