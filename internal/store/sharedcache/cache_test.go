package sharedcache

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/testmemcached"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// patient is a time-out that a server of a test keeps on a busy machine.
const patient = 20 * time.Second

func open(t testing.TB, o Options) *Cache {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func objectOf(name string) diskcache.Object { return diskcache.BlockOf(name).Object(1000, "index") }

// pageOf returns the contents of a page in tests; each object ends with a short one.
func pageOf(number uint32, length int) []byte {
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(i*7) ^ byte(number) ^ byte(i>>8)
	}
	return data
}

func (c *Cache) written(t testing.TB) {
	t.Helper()
	testwait.Equal(t, "bytes that wait to be written", 0, func() int64 { return c.Stats().Queued })
}

// get returns the pages found, with copies of their bytes.
func get(t testing.TB, c *Cache, o diskcache.Object, pages ...uint32) map[uint32][]byte {
	t.Helper()
	found := make(map[uint32][]byte)
	c.Get(t.Context(), o, pages, func(page uint32, data []byte) { found[page] = bytes.Clone(data) })
	return found
}

func upTo(n uint32) (pages []uint32) {
	for p := range n {
		pages = append(pages, p)
	}
	return pages
}

// TestShared stores pages by one cache and reads them by others, with the same servers in another order and with
// another bucket.
func TestShared(t *testing.T) {
	var servers []string
	var running []*testmemcached.Server
	for range 3 {
		s := testmemcached.Start(t)
		servers, running = append(servers, s.Addr), append(running, s)
	}
	first := open(t, Options{Servers: servers, Bucket: Bucket{1}})
	want := make(map[uint32][]byte)
	o := objectOf("tenant/01A")
	for p := range uint32(200) {
		length := PageSize
		switch p {
		case 198:
			length = 1234
		case 199:
			length = 0
		}
		want[p] = pageOf(p, length)
		first.Set(o, p, want[p])
	}
	first.written(t)
	slices.Reverse(servers)
	second, foreign := open(t, Options{Servers: servers, Bucket: Bucket{1}}), open(t, Options{Servers: servers, Bucket: Bucket{2}})
	got := get(t, second, o, upTo(210)...)
	if len(got) != len(want) {
		t.Fatalf("%d of %d pages", len(got), len(want))
	}
	for p, data := range want {
		if !bytes.Equal(got[p], data) {
			t.Fatalf("page %d has %d bytes, want %d", p, len(got[p]), len(data))
		}
	}
	bytesStored := uint64(198*PageSize + 1234)
	if s := second.Stats(); s.Hits != 200 || s.Misses != 10 || s.BytesRead != bytesStored || s.Damaged+s.Failed+s.Skipped > 0 {
		t.Errorf("reads: %+v", s)
	}
	if s := first.Stats(); s.Stored != 200 || s.BytesWritten != bytesStored || s.Dropped+s.WritesFailed > 0 {
		t.Errorf("writes: %+v", s)
	}
	if n := len(get(t, foreign, o, upTo(210)...)) + len(get(t, second, objectOf("tenant/01B"), upTo(210)...)); n > 0 {
		t.Errorf("%d pages of another bucket or block", n)
	}
	placed := make(map[string]int)
	for p := range want {
		placed[first.pick(o, p).name]++
	}
	for _, s := range running {
		if n := s.Keys(); n != placed[s.Addr] {
			t.Errorf("%s has %d pages, %d are placed there", s.Addr, n, placed[s.Addr])
		}
	}
}

// TestCalls reads consecutive pages by calls of 16.
func TestCalls(t *testing.T) {
	s := testmemcached.Start(t)
	c := open(t, Options{Servers: []string{s.Addr}})
	get(t, c, objectOf("01A"), upTo(64)...)
	if n := s.Gets(); n != 4 {
		t.Errorf("64 pages take %d calls", n)
	}
}

// TestKey fixes keys and the choice of servers: another version of the program must find the same pages.
func TestKey(t *testing.T) {
	c := open(t, Options{Servers: []string{"a:1", "b:1", "c:1"}, Bucket: Bucket{1, 2, 3}})
	const want = "tare1:AQIDAAAAAAAAAAAAAAAAAJL-z2KDiwAMzYkdZ3rFlAC5bHFhe0EDRjb2HoKADXft:77:16384"
	if got := string(c.appendKey(nil, objectOf("tenant/01A"), 77)); got != want {
		t.Errorf("the key is %s, want %s", got, want)
	}
	var picked strings.Builder
	for p := uint32(0); p < 160; p += 16 {
		picked.WriteString(c.pick(objectOf("tenant/01A"), p).name[:1])
	}
	if got, want := picked.String(), "bacaccbbbc"; got != want {
		t.Errorf("the servers are %s, want %s", got, want)
	}
}

// TestPick compares the servers of pages between lists of servers.
func TestPick(t *testing.T) {
	names := []string{"a:1", "b:1", "c:1", "d:1"}
	all, fewer := open(t, Options{Servers: names}), open(t, Options{Servers: names[:3]})
	counts := make(map[string]int)
	for block := range 50 {
		o := objectOf(fmt.Sprint(block))
		for p := range uint32(320) {
			was, is := all.pick(o, p).name, fewer.pick(o, p).name
			if was != is && was != names[3] {
				t.Fatalf("page %d moves from %s to %s", p, was, is)
			}
			if was != all.pick(o, p&^15).name {
				t.Fatalf("page %d is not with its neighbors", p)
			}
			counts[was]++
		}
	}
	for _, name := range names {
		if n := counts[name]; n < 50*320/4*3/4 || n > 50*320/4*5/4 {
			t.Errorf("%s has %d of %d pages", name, n, 50*320)
		}
	}
}

// TestDamaged changes all values. Each is a miss, and no call fails.
func TestDamaged(t *testing.T) {
	rng := testseed.Rand(t)
	damages := map[string]func([]byte) []byte{
		"a bit":      func(v []byte) []byte { v[rng.IntN(len(v))] ^= 1 << rng.IntN(8); return v },
		"cut":        func(v []byte) []byte { return v[:rng.IntN(len(v))] },
		"empty":      func([]byte) []byte { return nil },
		"longer":     func(v []byte) []byte { return append(v, 0) },
		"long":       func([]byte) []byte { return make([]byte, maxItem) },
		"text":       func([]byte) []byte { return []byte("END\r\nVALUE x 0 5\r\n") },
		"zeros":      func(v []byte) []byte { return make([]byte, len(v)) },
		"other page": nil,
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			s := testmemcached.Start(t)
			c := open(t, Options{Servers: []string{s.Addr}})
			o := objectOf("01A")
			for p := range uint32(3) {
				c.Set(o, p, pageOf(p, PageSize))
			}
			c.written(t)
			var previous []byte
			s.Change(func(key string, v []byte) []byte { previous = bytes.Clone(v); return v })
			left := 0
			s.Change(func(_ string, v []byte) []byte {
				if damage != nil {
					return damage(v)
				}
				if bytes.Equal(v, previous) {
					left++
				}
				return bytes.Clone(previous)
			})
			found := get(t, c, o, 0, 1, 2)
			st := c.Stats()
			if len(found) != left || st.Damaged != uint64(3-left) || st.Misses != st.Damaged || st.Failed+st.Skipped > 0 || st.Paused() > 0 {
				t.Errorf("%d pages found: %+v", len(found), st)
			}
			c.Set(o, 1, pageOf(1, PageSize)) // replaces it
			c.written(t)
			if found := get(t, c, o, 1); !bytes.Equal(found[1], pageOf(1, PageSize)) {
				t.Error("the page was not replaced")
			}
		})
	}
}

// TestQueue drops pages beyond the queue of a server that does not respond, within the bound of memory.
func TestQueue(t *testing.T) {
	s := testmemcached.Start(t)
	s.Stall()
	c := open(t, Options{Servers: []string{s.Addr}})
	for p := range uint32(maxQueued + 100) {
		c.Set(objectOf("01A"), p, pageOf(p, PageSize))
	}
	if st := c.Stats(); st.Dropped != 100 || st.Queued != maxQueued*valueSize || st.Memory > c.MaxMemory() {
		t.Errorf("%+v, at most %d", st, c.MaxMemory())
	}
	s.Resume()
	c.written(t)
	if n := s.Keys(); n != maxQueued {
		t.Errorf("%d pages stored", n)
	}
}

// TestConcurrent reads and writes from many goroutines, some beyond the number of batches.
func TestConcurrent(t *testing.T) {
	s := testmemcached.Start(t)
	c := open(t, Options{Servers: []string{s.Addr}})
	seed := testseed.New(t)
	var all sync.WaitGroup
	for g := range 2 * maxBatches {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 50 {
				p, o := rng.Uint32N(40), objectOf(fmt.Sprint(rng.IntN(3)))
				if rng.IntN(2) == 0 {
					c.Set(o, p, pageOf(p, PageSize))
					continue
				}
				c.Get(t.Context(), o, []uint32{p, p + 1, p + 17}, func(page uint32, data []byte) {
					if !bytes.Equal(data, pageOf(page, PageSize)) {
						t.Errorf("page %d differs", page)
					}
				})
			}
		})
	}
	testwait.Group(t, "reads and writes", &all)
	if st := c.Stats(); st.Damaged+st.Failed+st.WritesFailed > 0 {
		t.Errorf("%+v", st)
	}
}

// TestOpenRefuses lists servers that are refused.
func TestOpenRefuses(t *testing.T) {
	for _, servers := range [][]string{nil, {"a"}, {":1"}, {"a:"}, {"a:b"}, {"a:0"}, {"a:65536"}, {"tcp://a:1"}, {"a:1", "b:1", "a:1"}} {
		if _, err := Open(Options{Servers: servers, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%q is accepted", servers)
		}
	}
}

// TestAllocs lists the allocations of a call that finds 16 pages: those of the client, and none for the pages' bytes.
func TestAllocs(t *testing.T) {
	c := &Cache{options: Options{Timeout: patient, Log: slog.New(slog.DiscardHandler)}}
	c.batches.init(maxBatches)
	o, pages := objectOf("01A"), upTo(batchPages)
	var response []byte
	for _, p := range pages {
		value := c.encode(new([valueSize]byte), o, p, pageOf(p, PageSize))
		response = fmt.Appendf(response, "VALUE %s 0 %d 1\r\n%s\r\n", c.appendKey(nil, o, p), len(value), value)
	}
	response = append(response, "END\r\n"...)
	s := newServer("a:1", &c.options)
	defer s.close()
	s.client.DialTimeout = func(string, string, time.Duration) (net.Conn, error) {
		return &conn{Conn: &scripted{response: response}, server: s, fresh: true}, nil
	}
	c.servers = []*server{s}
	found := 0
	visit := func(uint32, []byte) { found++ }
	read := func() error { c.Get(t.Context(), o, pages, visit); return nil }
	alloctest.Run(t, []alloctest.Case{{Name: "a call that finds 16 pages", PerThousand: 90_000, Op: read}})
	const calls = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found = 0
	for range calls {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / calls; n > PageSize || found != calls*batchPages {
		t.Errorf("%d bytes allocated per call, %d pages found", n, found)
	} else {
		t.Logf("%d bytes allocated per call", n)
	}
}

// FuzzDecode decodes values: an accepted one is that of encode.
func FuzzDecode(f *testing.F) {
	c := &Cache{options: Options{Bucket: Bucket{7}}}
	o := objectOf("01A")
	var value [valueSize]byte
	f.Add(bytes.Clone(c.encode(&value, o, 5, []byte("a page"))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		data, ok := c.decode(b, o, 5)
		if ok && !bytes.Equal(b, c.encode(new([valueSize]byte), o, 5, data)) {
			t.Errorf("%x is accepted", b)
		}
	})
}

// A scripted connection has a fixed response to each request.
type scripted struct {
	net.Conn
	response, rest []byte
}

func (s *scripted) Write(p []byte) (int, error) {
	s.rest = s.response
	return len(p), nil
}

func (s *scripted) Close() error { return nil }

func (s *scripted) SetDeadline(time.Time) error { return nil }

func (s *scripted) Read(p []byte) (n int, _ error) {
	if len(s.rest) == 0 {
		return 0, net.ErrClosed
	}
	n = copy(p[:min(len(p), 1+len(s.rest)/3)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// FuzzResponse gives the client a response. A page that is found is one that was encoded.
func FuzzResponse(f *testing.F) {
	c := &Cache{options: Options{Timeout: patient, Log: slog.New(slog.DiscardHandler)}}
	c.batches.init(maxBatches)
	o := objectOf("01A")
	var value [valueSize]byte
	page := []byte("a page")
	key, good := c.appendKey(nil, o, 3), bytes.Clone(c.encode(&value, o, 3, page))
	f.Add(fmt.Appendf(nil, "VALUE %s 0 %d 1\r\n%s\r\nEND\r\n", key, len(good), good))
	f.Add([]byte("END\r\n"))
	f.Add([]byte("VALUE \r\n"))
	f.Add([]byte("VALUE a 0 -1\r\n"))
	f.Fuzz(func(t *testing.T, response []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		s := newServer("a:1", &c.options)
		defer s.close()
		s.client.DialTimeout = func(string, string, time.Duration) (net.Conn, error) {
			return &conn{Conn: &scripted{response: response}, server: s, fresh: true}, nil
		}
		c.servers = []*server{s}
		c.Get(t.Context(), o, []uint32{3}, func(_ uint32, data []byte) {
			if !bytes.Equal(data, page) && !bytes.Contains(response, c.encode(new([valueSize]byte), o, 3, data)) {
				t.Errorf("%q is found", data)
			}
		})
	})
}
