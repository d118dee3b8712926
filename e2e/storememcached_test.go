//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testpromql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// A memcached is a server of Debian's package.
type memcached struct {
	addr string
	*child
}

// startMemcached runs memcached at an address, or at a free one.
func startMemcached(t *testing.T, addr string) *memcached {
	t.Helper()
	if addr == "" {
		addr = freeAddr(t)
	}
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	m := &memcached{addr: addr, child: startChild(t, exec.Command("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-m", "64"), func([]byte) {})}
	eventually(t, "memcached listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	return m
}

// do sends lines to the server and returns its lines up to one of the given ends.
func (m *memcached) do(t *testing.T, request string, ends ...string) (lines []string) {
	t.Helper()
	c, err := net.Dial("tcp", m.addr)
	must(t, err)
	defer c.Close()
	_, err = io.WriteString(c, request)
	must(t, err)
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		must(t, err)
		line = strings.TrimRight(line, "\r\n")
		for _, end := range ends {
			if line == end {
				return lines
			}
		}
		lines = append(lines, line)
	}
}

// keys returns the keys of all values.
func (m *memcached) keys(t *testing.T) (keys []string) {
	t.Helper()
	for _, line := range m.do(t, "lru_crawler metadump all\r\n", "END") {
		key, _, _ := strings.Cut(strings.TrimPrefix(line, "key="), " ")
		key = strings.NewReplacer("%3A", ":").Replace(key)
		keys = append(keys, key)
	}
	return keys
}

// gets returns the number of values that were requested.
func (m *memcached) gets(t *testing.T) int {
	t.Helper()
	for _, line := range m.do(t, "stats\r\n", "END") {
		if text, ok := strings.CutPrefix(line, "STAT cmd_get "); ok {
			n, err := strconv.Atoi(text)
			must(t, err)
			return n
		}
	}
	t.Fatal("no cmd_get in the statistics")
	return 0
}

// damage overwrites half of the values: with other bytes, another value's, a shorter or a longer one.
func (m *memcached) damage(t *testing.T, r *rand.Rand) (damaged int) {
	t.Helper()
	for i, key := range m.keys(t) {
		if i%2 == 0 {
			continue
		}
		value := make([]byte, []int{0, 10, 64, 16448, 16449, 500_000}[r.IntN(6)])
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		m.do(t, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value), "STORED")
		damaged++
	}
	return damaged
}

// readBytes returns the bytes of index pages and chunks that a store has read from an origin. Its index headers do not
// count.
func (s *store) readBytes(t *testing.T, origin string) (n int) {
	t.Helper()
	for _, kind := range []string{"postings", "series", "chunks"} {
		n += s.value(t, fmt.Sprintf("tare_store_read_bytes_total{kind=%q,origin=%q}", kind, origin))
	}
	return n
}

// settled waits until a store has written its pages to memcached.
func (s *store) settled(t *testing.T) {
	t.Helper()
	testwait.Equal(t, "bytes that wait to be written to memcached", 0, func() int { return s.value(t, "tare_store_memcached_queued_bytes") })
}

// TestStoreMemcached runs stores that share two memcached servers. What one has read, another does not fetch from the
// bucket; a store of another bucket finds nothing. Then values are damaged; a server is stopped, killed, and
// replaced by one of another protocol, and works again after each: every response equals that of a store without caches.
func TestStoreMemcached(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	blocks := newRandomBlocks(t, r)
	dir := blocks.dir
	run := func(dir string, args ...string) *store {
		t.Helper()
		s := launchStore(t, nil, append([]string{"--bucket", "file://" + dir, "--layout", "thanos"}, args...)...)
		eventually(t, "a ready store", func() bool { return s.ready(t) })
		return s
	}
	one, two := startMemcached(t, ""), startMemcached(t, "")
	servers := one.addr + "," + two.addr
	shared := []string{"--cache-memcached", servers, "--cache-memcached-timeout", "2s", "--index-cache-bytes", "1MiB"}
	healthy := run(dir)
	round := uint64(0)
	check := func(s *store) {
		t.Helper()
		blocks.probe(t, seed+round, 60, healthy, s, testpromql.Faulty{Bucket: dir, Over: true}, nil)
		s.settled(t)
		s.checkLog(t)
		if t.Failed() {
			t.Fatalf("the log:\n%s", s.text())
		}
	}
	first := run(dir, shared...)
	check(first)
	if n := first.value(t, `tare_store_memcached_insertions_total{result="stored"}`); n == 0 || first.readBytes(t, "fetched") == 0 {
		t.Fatalf("%d pages stored", n)
	}
	second := run(dir, append(shared, "--cache-dir", filepath.Join(t.TempDir(), "cache"), "--cache-size", "8MiB")...)
	check(second)
	if n, hits := second.readBytes(t, "fetched"), second.readBytes(t, "memcached"); n > 0 || hits == 0 {
		t.Errorf("the second store fetches %d bytes from the bucket and %d from memcached", n, hits)
	}
	t.Logf("first: %d bytes from the bucket; second: %d from memcached, %d from disk", first.readBytes(t, "fetched"), second.readBytes(t, "memcached"), second.readBytes(t, "disk"))

	other := t.TempDir() // another bucket with the same blocks
	must(t, exec.Command("cp", "-a", dir+"/.", other).Run())
	foreign := run(other, shared...)
	check(foreign)
	if n := foreign.readBytes(t, "fetched"); n == 0 {
		t.Error("the store of another bucket fetches nothing")
	}
	keys := make(map[string]bool) // identities of buckets
	for _, key := range append(one.keys(t), two.keys(t)...) {
		keys[key[:27]] = true
	}
	if len(keys) != 2 {
		t.Errorf("the keys of two buckets start with %v", keys)
	}

	round++ // other expressions, whose pages are partly known
	n := one.damage(t, r) + two.damage(t, r)
	third := run(dir, shared...)
	check(third)
	if got := third.value(t, "tare_store_memcached_damaged_pages_total"); n == 0 || got == 0 {
		t.Errorf("%d values damaged, %d found", n, got)
	}

	up := func(s *store, m *memcached) int {
		return s.value(t, fmt.Sprintf("tare_store_memcached_server_up{server=%q}", m.addr))
	}
	quick := run(dir, "--cache-memcached", servers, "--cache-memcached-timeout", "300ms", "--index-cache-bytes", "1MiB")
	check(quick)
	// From now on its requests are the same: those for pages that it does not keep in its own cache. Few objects have
	// them, and all of an object can be at one server.
	a, b := one.gets(t), two.gets(t)
	check(quick)
	if two.gets(t)-b > one.gets(t)-a {
		one, two = two, one
	}
	var web *http.Server
	replace := func() {
		web = &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
		l, err := net.Listen("tcp", one.addr)
		must(t, err)
		go web.Serve(l)
	}
	for _, failure := range []struct {
		name      string
		fail, fix func()
	}{
		{"stopped", func() { must(t, one.cmd.Process.Signal(syscall.SIGSTOP)) }, func() { must(t, one.cmd.Process.Signal(syscall.SIGCONT)) }},
		{"killed", func() { one.end(syscall.SIGKILL) }, func() { one = startMemcached(t, one.addr) }},
		{"replaced by a web server", func() { one.end(syscall.SIGKILL); replace() }, func() { must(t, web.Close()); one = startMemcached(t, one.addr) }},
	} {
		failure.fail()
		testwait.Until(t, "memcached "+failure.name+" is not called", func() bool { check(quick); return up(quick, one) == 0 })
		if up(quick, two) != 1 {
			t.Errorf("%s: the other server is not called either", failure.name)
		}
		check(quick)
		failure.fix()
		testwait.Until(t, "memcached "+failure.name+" is called again", func() bool { check(quick); return up(quick, one) == 1 })
	}
	if pauses, ends := strings.Count(quick.text(), "memcached server is not called"), strings.Count(quick.text(), "memcached server is called again"); pauses != ends || pauses < 3 {
		t.Errorf("logged %d pauses and %d ends", pauses, ends)
	}
}
