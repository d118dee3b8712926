package sqlast

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/sizegen/heapsize"
)

var allStatements = flag.Bool("all", false, "TestWalkAgainstHeap measures every statement, not each fourth")

// statements reads testdata/statements.sql: one statement per paragraph, # begins a comment.
func statements(tb testing.TB) []string {
	tb.Helper()
	text, err := os.ReadFile("testdata/statements.sql")
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for part := range strings.SplitSeq(string(text), ";\n") {
		var lines []string
		for line := range strings.Lines(part) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if s := strings.TrimSpace(strings.Join(lines, "")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func parse(tb testing.TB, p *sqlparser.Parser, text string) sqlparser.Statement {
	tb.Helper()
	s, err := p.Parse(text)
	if err != nil {
		tb.Fatalf("parse %s: %v", text, err)
	}
	return s
}

func live() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestWalkAgainstHeap parses statements, with -all every one, many times, detaches the trees from the texts, and compares the
// walks' sum with the growth of the heap.
func TestWalkAgainstHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	all := statements(t)
	if len(all) < 200 {
		t.Fatalf("%d statements, want 200", len(all))
	}
	p := sqlparser.NewTestParser()
	w := &heapsize.Walk{Detach: true}
	for _, s := range all { // creates lazy tables and the walk's buffers
		if _, err := (&Entry{parse(t, p, s)}).CachedSize(w); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	const copies = 100
	entries := make([]*Entry, 0, copies)
	w.Reset()
	live()
	var sums, heaps int64
	for i, s := range all {
		if i%4 != 0 && !*allStatements {
			continue
		}
		var sum, grown, off int64
		// An object of the parser's pool, or of the runtime, may be allocated or freed between two readings:
		// deviations of that kind are measured again.
		for range 20 {
			entries = entries[:0]
			clear(entries[:copies])
			w.Reset()
			before := live()
			sum = 0
			for range copies {
				// A separate text each time, as from a connection.
				e := &Entry{parse(t, p, strings.Clone(s))}
				n, err := e.CachedSize(w)
				if err != nil {
					t.Fatalf("%s: %v", s, err)
				}
				sum += n
				entries = append(entries, e)
			}
			w.Reset()
			grown = live() - before
			if off = sum - grown; -grown/200 <= off && off <= grown/200 {
				break
			}
		}
		sums, heaps = sums+sum, heaps+grown
		// The tiny allocator packs pointer-free objects below 16 bytes; each is charged with the block that
		// it keeps alive, and here several trees share one.
		const tinyBlock = 16
		if off < -grown/100 || off > max(grown/100, copies*tinyBlock) {
			t.Errorf("walked %d bytes, the heap grew by %d (%+.2f %%):\n%s", sum, grown, 100*float64(off)/float64(grown), s)
		}
	}
	off := 100 * float64(sums-heaps) / float64(heaps)
	t.Logf("of %d statements, %d trees each: walked %d bytes, heap %d, %+.4f %%", len(all), copies, sums, heaps, off)
	if off < -0.1 || off > 0.1 {
		t.Errorf("all in all the walks are off by %.4f %%", off)
	}
	runtime.KeepAlive(entries)
}

// TestDetachLetsTheTextGo retains the tree of a statement with 2 MB of comment.
func TestDetachLetsTheTextGo(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := sqlparser.NewTestParser()
	parse(t, p, "select 1")
	want := sqlparser.String(parse(t, p, "select a.b, c from a where c = 'text' and d in (1, 2)"))
	var off int64
	for range 20 { // an object of the parser's pool may be allocated or freed
		before := live()
		text := "select a.b, c from a where c = 'text' and d in (1, 2) /*" + strings.Repeat("x", 2<<20) + "*/"
		e := &Entry{parse(t, p, text)}
		text = ""
		if held := live() - before; held < 2<<20 {
			t.Fatalf("%d bytes held before detaching: the tree does not pin its text", held)
		}
		bytes, err := e.CachedSize(&heapsize.Walk{Detach: true})
		if err != nil {
			t.Fatal(err)
		}
		off = live() - before - bytes
		if got := sqlparser.String(e.Statement); got != want {
			t.Errorf("the tree reads %s, was %s", got, want)
		}
		if -512 <= off && off <= 512 {
			break
		}
	}
	if off < -512 || off > 512 {
		t.Errorf("with the text dropped, the heap is %d bytes off what was walked", off)
	}
}

// TestAgainstVitess compares the parser's generated sizes with these: they measure the same trees, and miss
// the text of which strings are substrings.
func TestAgainstVitess(t *testing.T) {
	p := sqlparser.NewTestParser()
	w := &heapsize.Walk{Detach: true}
	var ours, theirs int64
	for _, s := range statements(t) {
		e := &Entry{parse(t, p, s)}
		their, ok := e.Statement.(interface{ CachedSize(alloc bool) int64 })
		n, err := e.CachedSize(w)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			ours += n
			theirs += their.CachedSize(true)
		}
	}
	t.Logf("ours %d bytes, theirs %d: %+.1f %%", ours, theirs, 100*float64(theirs-ours)/float64(ours))
	if theirs == 0 {
		t.Error("nothing compared")
	}
}

func BenchmarkCachedSize(b *testing.B) {
	p := sqlparser.NewTestParser()
	var entries []*Entry
	for _, s := range statements(b) {
		entries = append(entries, &Entry{parse(b, p, s)})
	}
	for _, detach := range []bool{false, true} {
		b.Run(map[bool]string{false: "count", true: "detach"}[detach], func(b *testing.B) {
			w := &heapsize.Walk{Detach: detach}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := entries[i%len(entries)].CachedSize(w); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
	b.Run("vitess", func(b *testing.B) {
		b.ReportAllocs()
		i, sum := 0, int64(0)
		for b.Loop() {
			if s, ok := entries[i%len(entries)].Statement.(interface{ CachedSize(alloc bool) int64 }); ok {
				sum += s.CachedSize(true)
			}
			i++
		}
		if sum == 0 {
			b.Fatal("nothing sized")
		}
	})
}
