package diskcache

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// TestRandomOperations compares a cache with a map: a page is missing, or has the content that was stored last.
func TestRandomOperations(t *testing.T) {
	rng := testseed.Rand(t)
	c := open(t, Options{Dir: t.TempDir()})
	all := somePages(3, 2, 20) // twice the slots of the cache
	stored := make(map[testPage]int)
	found := 0
	for range 3000 {
		p := all[rng.IntN(len(all))]
		switch rng.IntN(40) {
		case 0:
			c = reopen(t, c)
		case 1:
			c.Delete(p.object(), p.page)
			delete(stored, p)
		case 2:
			c.Forget(testBlock(p.block))
			c.Retain([]Block{testBlock((p.block + 1) % 3), testBlock((p.block + 2) % 3)})
			for q := range stored {
				if q.block == p.block {
					delete(stored, q)
				}
			}
		case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
			stored[p] = rng.IntN(3)
			p.set(c, stored[p])
			written(t, c)
		default:
			dst := make([]byte, PageSize)
			n, ok := c.Get(p.object(), p.page, dst)
			if !ok {
				continue
			}
			version, is := stored[p]
			if !is || !bytes.Equal(dst[:n], p.content(version)) {
				t.Fatalf("%+v: not the content stored last (stored: %v)", p, is)
			}
			found++
		}
	}
	s := c.Stats()
	t.Logf("%d hits; at the end %+v", found, s)
	if found < 100 || s.Damaged+s.Errors+s.Dropped > 0 || s.Entries > int64(c.slots) {
		t.Errorf("%d hits, %+v", found, s)
	}
}

// TestPartOfAPage reads starts of pages, and pages whose object ends within.
func TestPartOfAPage(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir()})
	o := testBlock(1).Object(7, "index")
	whole := bytes.Repeat([]byte{1, 2, 3, 4}, PageSize/4)
	for page, length := range []int{PageSize, 100, 0} {
		c.Set(o, uint32(page), whole[:length])
	}
	written(t, c)
	for page, length := range []int{PageSize, 100, 0} {
		for _, wanted := range []int{0, 1, 99, 100, 101, PageSize - 1, PageSize} {
			dst := make([]byte, wanted)
			n, ok := c.Get(o, uint32(page), dst)
			if want := min(length, wanted); !ok || n != want || !bytes.Equal(dst[:n], whole[:n]) {
				t.Errorf("%d bytes of page %d: %d, %v, want %d", wanted, page, n, ok, want)
			}
		}
	}
	for _, other := range []Object{testBlock(2).Object(7, "index"), testBlock(1).Object(8, "index"), testBlock(1).Object(7, "chunks/000001")} {
		if _, ok := c.Get(other, 0, make([]byte, 1)); ok {
			t.Errorf("%x is %x", other, o)
		}
	}
}

// TestBound stores many times the pages that fit. The file stays within the bound, with the blocks that the file
// system records for it, and pages that are read stay longer than others.
func TestBound(t *testing.T) {
	const bound = 8 << 20
	dir := t.TempDir()
	c := open(t, Options{Dir: dir, Bytes: bound})
	read := somePages(1, 1, int(c.slots)/4)
	fill(t, c, read)
	rng := testseed.Rand(t)
	for round := range 20 {
		hits(t, c, read)
		var pages []testPage
		for range c.slots / 2 {
			pages = append(pages, testPage{2 + round, rng.IntN(3), rng.Uint32()})
		}
		fill(t, c, pages)
		var st unix.Stat_t
		if err := unix.Stat(pagesFile(c), &st); err != nil {
			t.Fatal(err)
		}
		if s := c.Stats(); max(st.Size, st.Blocks*512, s.Bytes, s.Capacity) > bound {
			t.Fatalf("round %d: length %d, on disk %d, bound %d, %+v", round, st.Size, st.Blocks*512, bound, s)
		}
	}
	s := c.Stats()
	if n := hits(t, c, read); n < len(read)*9/10 || s.Evictions < 8*c.slots || s.Entries < int64(c.slots)*9/10 {
		t.Errorf("%d of %d pages that are read stayed: %+v", n, len(read), s)
	}
}

// TestRestart opens the directory again: all pages are there. With another size the cache starts empty.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Options{Dir: dir})
	fill(t, c, somePages(2, 2, 9))
	want := hits(t, c, somePages(2, 2, 9))
	if want < 20 {
		t.Fatalf("%d pages", want)
	}
	c = reopen(t, c)
	if got := hits(t, c, somePages(2, 2, 9)); got != want || c.Stats().Entries != int64(want) {
		t.Errorf("%d pages after a restart, want %d: %+v", got, want, c.Stats())
	}
	if info, err := os.Stat(pagesFile(c)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	closeOnce(t, c)
	var log logBuffer
	c = open(t, Options{Dir: dir, Bytes: 2 * MinBytes, Log: log.logger()})
	if got := hits(t, c, somePages(2, 2, 9)); got != 0 || !strings.Contains(log.String(), "disk cache emptied") {
		t.Errorf("%d pages in a file of another size; log:\n%s", got, &log)
	}
	fill(t, c, somePages(1, 1, 9))
	if got := hits(t, c, somePages(1, 1, 9)); got != 9 {
		t.Errorf("%d of 9 pages", got)
	}
}

// TestKilled loses all writes after the n-th, whole or in its middle, as a process killed then: no page is wrong
// after the restart, and pages stored before are there. Without a torn write none is damaged.
func TestKilled(t *testing.T) {
	rng := testseed.Rand(t)
	all := somePages(2, 1, 40) // more than there are slots
	for n := range 60 {
		torn := n%2 == 1
		d := &fakeDisk{left: -1}
		c := open(t, Options{Dir: t.TempDir(), storage: d.on})
		fill(t, c, all[:30])
		before := make(map[testPage]bool)
		for _, p := range all {
			before[p] = p.get(t, c, 1)
		}
		d.mu.Lock()
		d.left, d.torn = n/2, torn
		d.mu.Unlock()
		for range 30 {
			all[rng.IntN(len(all))].set(c, rng.IntN(2))
		}
		written(t, c)
		evicted := c.Stats().Evictions
		c.options.storage = nil
		c = reopen(t, c)
		lost := 0
		for _, p := range all {
			if !p.get(t, c, 2) && before[p] {
				lost++
			}
		}
		if s := c.Stats(); lost > int(evicted)+n+1 || s.Damaged > 1 || s.Damaged > 0 && !torn || s.Errors > 0 {
			t.Fatalf("killed after %d writes, torn: %v: %d pages lost, %d evicted, %+v", n/2, torn, lost, evicted, s)
		}
	}
}

// TestDamage changes the directory at random, while the cache is open or not: no page is wrong, and pages
// stored afterwards are found.
func TestDamage(t *testing.T) {
	rng := testseed.Rand(t)
	all := somePages(2, 2, 8)
	damages := map[string]func(t *testing.T, path string, size int64){
		"bits": func(t *testing.T, path string, size int64) {
			for range 1 + rng.IntN(200) {
				flip(t, path, rng.Int64N(size), byte(1+rng.IntN(255)))
			}
		},
		"headers": func(t *testing.T, path string, _ int64) {
			for range 1 + rng.IntN(20) {
				flip(t, path, headerAt(rng.Uint64N(48))+rng.Int64N(headerSize), byte(1+rng.IntN(255)))
			}
		},
		"identification": func(t *testing.T, path string, _ int64) { flip(t, path, rng.Int64N(20), 1) },
		"truncated":      func(t *testing.T, path string, size int64) { must(t, os.Truncate(path, rng.Int64N(size))) },
		"longer":         func(t *testing.T, path string, size int64) { must(t, os.Truncate(path, 2*size)) },
		"empty":          func(t *testing.T, path string, _ int64) { must(t, os.Truncate(path, 0)) },
		"removed":        func(t *testing.T, path string, _ int64) { must(t, os.Remove(path)) },
		"random": func(t *testing.T, path string, size int64) {
			text := make([]byte, rng.Int64N(size))
			for i := range text {
				text[i] = byte(rng.Uint32())
			}
			must(t, os.WriteFile(path, text, 0o600))
		},
		"exchanged": func(t *testing.T, path string, _ int64) { exchange(t, path, rng) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			for round := range 12 {
				c := open(t, Options{Dir: t.TempDir()})
				fill(t, c, all)
				if round%2 == 0 {
					closeOnce(t, c)
				}
				info, err := os.Stat(pagesFile(c))
				must(t, err)
				damage(t, pagesFile(c), info.Size())
				if round%2 == 0 {
					c = open(t, c.options)
				}
				hits(t, c, all)
				fill(t, c, all)
				if n := hits(t, c, all); n < len(all)*8/10 {
					t.Fatalf("round %d: %d of %d pages stored after the damage: %+v", round, n, len(all), c.Stats())
				}
				closeOnce(t, c)
			}
		})
	}
}

// TestDamagedOnce finds each damaged page once: it is counted, and gone.
func TestDamagedOnce(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir()})
	all := somePages(1, 1, 8)
	fill(t, c, all)
	for slot := range c.slots {
		flip(t, pagesFile(c), pageAt(slot, c.slots), 1)
	}
	for range 3 {
		hits(t, c, all)
	}
	damaged := c.Stats().Damaged
	if s := c.Stats(); damaged == 0 || damaged > 8 || s.Entries != 8-int64(damaged) || s.Errors > 0 {
		t.Errorf("%+v", s)
	}
	c = reopen(t, c)
	hits(t, c, all)
	if s := c.Stats(); s.Damaged != 0 {
		t.Errorf("after a restart %+v", s)
	}
}

func flip(t *testing.T, path string, at int64, mask byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer func() { must(t, f.Close()) }()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= mask
	_, err = f.WriteAt(b[:], at)
	must(t, err)
}

// exchange exchanges headers, pages or both of random slots of a file with 48 slots.
func exchange(t *testing.T, path string, rng *rand.Rand) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	swap := func(a, b int64, n int) {
		for i := range int64(n) {
			text[a+i], text[b+i] = text[b+i], text[a+i]
		}
	}
	const slots = 48
	for range 30 {
		a, b := rng.Uint64N(slots), rng.Uint64N(slots)
		if rng.IntN(2) == 0 {
			swap(headerAt(a), headerAt(b), headerSize)
		}
		if rng.IntN(2) == 0 {
			swap(pageAt(a, slots), pageAt(b, slots), PageSize)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(text, 0)
	must(t, err)
	must(t, f.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTwoProcesses refuses a directory that is in use, and accepts it afterwards.
func TestTwoProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	c := open(t, Options{Dir: dir})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	_, err := Open(c.options)
	if err == nil || !strings.Contains(err.Error(), "another process uses it: give each process a directory of its own") {
		t.Errorf("opened twice: %v", err)
	}
	reopen(t, c)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(Options{Dir: file, Bytes: MinBytes, Log: c.options.Log}); err == nil {
		t.Error("a file is no directory")
	}
	if _, err := Open(Options{Dir: dir, Bytes: MinBytes - 1, Log: c.options.Log}); err == nil {
		t.Error("a cache without room")
	}
}

// TestForget removes the pages of blocks, also for the next process.
func TestForget(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir(), Bytes: 4 << 20})
	all := somePages(3, 2, 10)
	fill(t, c, all)
	before := hits(t, c, all)
	c.Forget(testBlock(0))
	testwait.Equal(t, "pages of the forgotten block", 0, func() int { return hits(t, c, all[:20]) })
	c.Retain([]Block{testBlock(1), testBlock(7)})
	for range 2 {
		if a, b, d := hits(t, c, all[:20]), hits(t, c, all[20:40]), hits(t, c, all[40:]); a != 0 || b < 15 || d != 0 {
			t.Errorf("pages of blocks: %d, %d, %d of %d", a, b, d, before)
		}
		c = reopen(t, c)
	}
}

// TestConcurrent has readers, writers and removals on few slots.
func TestConcurrent(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir()})
	all := somePages(2, 2, 30)
	var group sync.WaitGroup
	for g := range 4 {
		seed := testseed.New(t) + uint64(g)
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 1500 {
				p := all[rng.IntN(len(all))]
				switch rng.IntN(30) {
				case 0:
					c.Delete(p.object(), p.page)
				case 1:
					c.Forget(testBlock(p.block))
				case 2, 3, 4, 5, 6, 7, 8, 9:
					p.set(c, rng.IntN(2))
				default:
					dst := make([]byte, PageSize)
					n, ok := c.Get(p.object(), p.page, dst)
					if ok && !bytes.Equal(dst[:n], p.content(0)) && !bytes.Equal(dst[:n], p.content(1)) {
						t.Errorf("%+v: %d bytes of another page", p, n)
					}
				}
			}
		})
	}
	testwait.Group(t, "readers and writers", &group)
	written(t, c)
	if s := c.Stats(); s.Damaged+s.Errors > 0 || s.Hits == 0 || s.Entries < 0 {
		t.Errorf("%+v", s)
	}
}
