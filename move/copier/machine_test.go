package copier

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestMachine runs testdata/machine: the results that workers report, and the steps they get.
func TestMachine(t *testing.T) {
	var m *machine
	datadriven.RunTest(t, "testdata/machine", func(t *testing.T, d *datadriven.TestData) string {
		var number, chunk, workers int
		switch d.Cmd {
		case "tables":
			d.ScanArgs(t, "workers", &workers)
			var tables []tableProgress
			for line := range strings.Lines(d.Input) {
				var p tableProgress
				var uncopied int
				if _, err := fmt.Sscanf(line, "%s %s chunks=%d uncopied=%d cut=%t", &p.name, &p.phase, &p.chunks, &uncopied, &p.cut); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				p.done = p.chunks - uncopied
				for i := range uncopied {
					p.waiting = append(p.waiting, rowstream.Chunk{Number: p.done + i})
				}
				tables = append(tables, p)
			}
			m = newMachine(tables, workers)
			return ""
		case "next":
			s := m.next()
			switch s.do {
			case wait, stop:
				return s.do.String()
			case copyChunk:
				return fmt.Sprintf("%v %s chunk %d", s.do, m.tables[s.table].name, s.chunk.Number)
			}
			return fmt.Sprintf("%v %s", s.do, m.tables[s.table].name)
		}
		d.ScanArgs(t, "table", &number)
		switch d.Cmd {
		case "cut":
			d.ScanArgs(t, "chunk", &chunk)
			m.wasCut(number, rowstream.Chunk{Number: chunk}, d.HasArg("last"))
		case "copied":
			m.wasCopied(number)
		case "indexed":
			m.wasIndexed(number)
		case "failed":
			m.fail()
		default:
			t.Fatalf("unknown event %s", d.Cmd)
		}
		return ""
	})
}

// TestMachineRandom lets workers finish in any order: each chunk is copied once, indexes are built after a
// table's last chunk, and no worker waits forever.
func TestMachineRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := make([]int, 1+rnd.IntN(4))
		progress := make([]tableProgress, len(sizes))
		for i := range sizes {
			sizes[i] = 1 + rnd.IntN(12)
			progress[i] = tableProgress{name: fmt.Sprint("t", i), phase: tabledef.Copying}
		}
		m := newMachine(progress, 1+rnd.IntN(5))
		workers := m.ahead / 2
		var running []step
		copied := make([]map[int]bool, len(sizes))
		for i := range copied {
			copied[i] = make(map[int]bool)
		}
		for {
			s := step{do: wait}
			if len(running) < workers && (len(running) == 0 || rnd.IntN(2) == 0) {
				s = m.next()
			}
			switch {
			case s.do == stop && len(running) == 0:
			case s.do == wait && len(running) == 0:
				t.Fatalf("seed %d: everybody waits", seed)
			case s.do != wait && s.do != stop:
				running = append(running, s)
				continue
			default: // a random step finishes
				i := rnd.IntN(len(running))
				done := running[i]
				running = append(running[:i], running[i+1:]...)
				switch done.do {
				case cutChunk:
					n := m.tables[done.table].chunks
					m.wasCut(done.table, rowstream.Chunk{Number: n}, n == sizes[done.table]-1)
				case copyChunk:
					if copied[done.table][done.chunk.Number] {
						t.Fatalf("seed %d: chunk %d of table %d is copied twice", seed, done.chunk.Number, done.table)
					}
					copied[done.table][done.chunk.Number] = true
					m.wasCopied(done.table)
				case buildIndexes:
					if len(copied[done.table]) != sizes[done.table] {
						t.Fatalf("seed %d: indexes before the last chunk", seed)
					}
					m.wasIndexed(done.table)
				}
				continue
			}
			break
		}
		for i := range sizes {
			if len(copied[i]) != sizes[i] || m.tables[i].phase != tabledef.Finished {
				t.Fatalf("seed %d: table %d has %d of %d chunks and is %s", seed, i, len(copied[i]), sizes[i], m.tables[i].phase)
			}
		}
	}
}
