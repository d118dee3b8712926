package bytecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/sizegen/internal/alloctest"
)

func TestNewRefuses(t *testing.T) {
	var least int64
	_, err := New(Options[int, int]{Capacity: 100})
	if !errors.Is(err, ErrCapacity) {
		t.Fatalf("New with 100 bytes: %v", err)
	}
	if _, err := fmt.Sscanf(err.Error(), "bytecache: capacity is too small: 100 bytes, and the least is %d", &least); err != nil {
		t.Fatalf("the error does not say the least: %v", err)
	}
	if _, err := New(Options[int, int]{Capacity: least - 1}); !errors.Is(err, ErrCapacity) {
		t.Errorf("New with one byte less than the least: %v", err)
	}
	c, err := New(Options[int, int]{Capacity: least})
	if err != nil {
		t.Fatalf("New with the least: %v", err)
	}
	if !c.Set(1, 1) || c.Bytes() != least {
		t.Errorf("the least cache does not hold one entry: %d bytes of %d", c.Bytes(), least)
	}
	if err := c.Resize(least - 1); !errors.Is(err, ErrCapacity) || c.Capacity() != least {
		t.Errorf("Resize below the least: %v, capacity %d", err, c.Capacity())
	}
	for _, none := range []int64{-1, 1, c.nodeBytes - 1} {
		if _, err := New(Options[int, int]{Capacity: 1 << 20, MaxEntry: none}); err == nil {
			t.Errorf("a largest entry of %d bytes, which admits none, is accepted", none)
		}
	}
}

func TestRefusals(t *testing.T) {
	c := newTestCache(t, 1<<20)
	c.Set(1, "small")
	if c.Set(1, strings.Repeat("x", 1<<17)) {
		t.Error("an entry of more than an eighth is accepted")
	}
	if v, ok := c.Get(1); ok {
		t.Errorf("after a refused Set the old value %q is still there", v)
	}
	if s := c.Stats(); s.RefusedLarge != 1 || s.Evicted[Replaced] != 1 || s.Entries != 0 {
		t.Errorf("counted %+v", s)
	}
	// Large new entries do not displace small ones that are used.
	for i := range 8000 {
		c.Set(i, strings.Repeat("s", 100))
		if _, err := c.Load(i, func() (string, bool, error) { return strings.Repeat("s", 100), true, nil }); err != nil {
			t.Fatal(err)
		}
	}
	before := c.Stats()
	for i := range 100 {
		if c.Set(1_000_000+i, strings.Repeat("L", 1<<16)) {
			t.Fatalf("large entry %d displaced small ones in use", i)
		}
	}
	if s := c.Stats(); s.RefusedPolicy != before.RefusedPolicy+100 || s.Entries != before.Entries {
		t.Errorf("from %+v\nto %+v", before, s)
	}
	// A repeatedly requested one is accepted, by its frequency alone.
	for i := 0; !c.Set(2_000_000, strings.Repeat("L", 1<<16)); i++ {
		if i == 100 {
			t.Fatal("a large entry set a hundred times is still refused")
		}
	}
	c.check(t)
}

func TestNegativeSize(t *testing.T) {
	c, err := New(Options[int, int]{Capacity: 1 << 20, Size: func(int, int) int64 { return -1 }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := fmt.Sprint(recover()); !strings.HasPrefix(r, "BUG: ") {
			t.Errorf("a negative size made: %s", r)
		}
		c.check(t) // nothing is locked or half done
	}()
	c.Set(1, 1)
}

// lru is the plain cache to compare with: it evicts the least recently used entry.
type lru struct {
	capacity, bytes int64
	order           []int // newest last
	size            map[int]int64
}

func (l *lru) access(k int, size int64) bool {
	_, hit := l.size[k]
	if hit {
		l.order = slices.Delete(l.order, slices.Index(l.order, k), slices.Index(l.order, k)+1)
	} else {
		l.size[k] = size
		l.bytes += size
	}
	l.order = append(l.order, k)
	for l.bytes > l.capacity {
		l.bytes -= l.size[l.order[0]]
		delete(l.size, l.order[0])
		l.order = l.order[1:]
	}
	return hit
}

// TestScan uses a hot set among keys that occur once, like statements of an import. A scan five times the
// cache's size must not evict the hot set.
func TestScan(t *testing.T) {
	const hot, owned = 400, 1000
	c := newTestCache(t, 1<<20)
	value := strings.Repeat("v", owned)
	plain := &lru{capacity: 1 << 20, size: map[int]int64{}}
	rng := rand.New(rand.NewPCG(9, 9))
	load := func(k int) bool {
		hit := true
		if _, err := c.Load(k, func() (string, bool, error) { hit = false; return value, true, nil }); err != nil {
			t.Fatal(err)
		}
		return hit
	}
	for range 20 * hot {
		k := rng.IntN(hot)
		load(k)
		plain.access(k, owned)
	}
	var hits, plainHits, asked int
	for scan := range 5000 {
		load(1_000_000 + scan)
		plain.access(1_000_000+scan, owned)
		if scan%20 == 0 { // the hot set is still used occasionally
			asked++
			k := rng.IntN(hot)
			if load(k) {
				hits++
			}
			if plain.access(k, owned) {
				plainHits++
			}
		}
	}
	kept := 0
	for k := range hot {
		if _, ok := c.Get(k); ok {
			kept++
		}
	}
	t.Logf("during the scan %d of %d hits, plain LRU %d; %d of %d hot keys kept", hits, asked, plainHits, kept, hot)
	if kept < hot*98/100 || hits < asked*98/100 {
		t.Errorf("the scan displaced the hot set: %d of %d kept, %d hits of %d", kept, hot, hits, asked)
	}
	if plainHits > asked*9/10 {
		t.Errorf("the scan is too weak to show anything: plain LRU has %d hits of %d", plainHits, asked)
	}
	// Keys that become popular later replace those of the scan, long before the sketch is halved: a single entry
	// with a high estimate does not protect the others.
	for range 20 * hot {
		load(5000 + rng.IntN(hot))
	}
	kept = 0
	for k := range hot {
		if _, ok := c.Get(5000 + k); ok {
			kept++
		}
	}
	if kept < hot*95/100 {
		t.Errorf("%d of %d newly popular keys are held", kept, hot)
	}
	c.check(t)
}

func TestZipfAgainstLRU(t *testing.T) {
	c := newTestCache(t, 256<<10)
	plain := &lru{capacity: 256 << 10, size: map[int]int64{}}
	rng := rand.New(rand.NewPCG(10, 10))
	zipf := rand.NewZipf(rng, 1.05, 10, 20_000)
	var hits, plainHits int
	const n = 60_000
	for i := range n {
		k := int(zipf.Uint64())
		if i%10 == 0 {
			k = 1_000_000 + i // occurs once
		}
		owned := 200 + k%7*100
		hit := true
		if _, err := c.Load(k, func() (string, bool, error) { hit = false; return strings.Repeat("z", owned), true, nil }); err != nil {
			t.Fatal(err)
		}
		if hit {
			hits++
		}
		if plain.access(k, int64(owned)) { // not charged for its own structures
			plainHits++
		}
	}
	t.Logf("hit ratio %.1f %%, plain LRU %.1f %%", 100*float64(hits)/n, 100*float64(plainHits)/n)
	if hits < plainHits+n*4/100 {
		t.Errorf("%d hits in %d, plain LRU has %d", hits, n, plainHits)
	}
}

func TestLargest(t *testing.T) {
	c := newTestCache(t, 1<<20)
	for i := range 100 {
		c.Set(i, strings.Repeat("x", i*37%100*10))
	}
	var all []Entry[int, string]
	for k, v := range c.All() {
		all = append(all, Entry[int, string]{k, v, c.nodeBytes + int64(len(v))})
	}
	slices.SortFunc(all, func(a, b Entry[int, string]) int { return int(b.Bytes - a.Bytes) })
	if got := c.Largest(7); !slices.Equal(got, all[:7]) {
		t.Errorf("Largest(7) = %v, want %v", got, all[:7])
	}
	if got := c.Largest(1000); !slices.Equal(got, all) {
		t.Errorf("Largest(1000) has %d entries, want %d in order", len(got), len(all))
	}
	if got := c.Largest(0); got != nil {
		t.Errorf("Largest(0) = %v", got)
	}
	for range c.All() {
		break // an iteration may end early
	}
}

func TestAllocs(t *testing.T) {
	c := newTestCache(t, 1<<20)
	for i := range 1000 {
		c.Set(i, "value")
	}
	i := 0
	alloctest.PerThousand(t, "Get hit", 0, func() error {
		i++
		if _, ok := c.Get(i % 1000); !ok {
			return errors.New("missed")
		}
		return nil
	})
	alloctest.PerThousand(t, "Get miss", 0, func() error {
		if _, ok := c.Get(-1); ok {
			return errors.New("hit")
		}
		return nil
	})
	alloctest.PerThousand(t, "Load hit", 0, func() error {
		i++
		_, err := c.Load(i%1000, func() (string, bool, error) { return "", false, errors.New("missed") })
		return err
	})
	alloctest.PerThousand(t, "Set of a key that is there: its node", 1000, func() error {
		i++
		if !c.Set(i%1000, "other") {
			return errors.New("refused")
		}
		return nil
	})
	alloctest.PerThousand(t, "Delete of a key that is not there", 0, func() error {
		if c.Delete(-1) {
			return errors.New("deleted")
		}
		return nil
	})
	alloctest.PerThousand(t, "Bytes and Stats", 0, func() error {
		if s := c.Stats(); s.Bytes != c.Bytes() {
			return fmt.Errorf("%d bytes and %d", s.Bytes, c.Bytes())
		}
		return nil
	})
}

func ExampleCache() {
	c, err := New(Options[string, string]{
		Capacity: 1 << 20,
		Size:     func(k, v string) int64 { return int64(len(k) + len(v)) },
		OnEvict:  func(k, _ string, why Reason) { fmt.Println(k, "left:", why) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Set("a", "1")
	fmt.Println(c.Get("a"))
	c.Delete("a")
	fmt.Println(c.Bytes() <= c.Capacity())
	// Output:
	// 1 true
	// a left: deleted
	// true
}
