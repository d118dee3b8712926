package stmtstats

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// killedEnv makes the test binary the process that TestKill kills; its value is the directory of the table.
const killedEnv = "HISTORY_TEST_KILLED"

const killedSessions = 4

// A progress has the progress of a session's statements, in a separate file.
type progress struct{ begun, done atomic.Uint64 }

// mapProgress maps the progress of all sessions.
func mapProgress(path string) (*[killedSessions]progress, error) {
	size := int(unsafe.Sizeof([killedSessions]progress{}))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	raw, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*[killedSessions]progress)(unsafe.Pointer(unsafe.SliceData(raw))), nil
}

// killedOptions returns the options of a table that evicts continuously.
func killedOptions(dir string) Options {
	return Options{
		Dir: dir, MaxDigests: 50, Bytes: leastBytes(50) + 100*pageBytes, Turnover: time.Microsecond, MinIdle: time.Nanosecond,
		Redaction: querylog.RedactLiterals,
	}
}

// observeUntilKilled counts statements in several sessions, and collects.
func observeUntilKilled(dir string) {
	said, err := mapProgress(filepath.Join(dir, "progress"))
	seed, seedErr := strconv.ParseUint(os.Getenv(testseed.Env), 10, 64)
	if err = errors.Join(err, seedErr); err == nil {
		var table *Table
		if table, err = OpenTable(killedOptions(dir)); err == nil {
			for i := range said {
				go killedSession(table, &said[i], seed, uint64(i))
			}
			for err == nil {
				err = table.Collect(func(*Sample) error { return nil })
			}
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func killedSession(table *Table, said *progress, seed, session uint64) {
	rng := rand.New(rand.NewPCG(seed, session))
	for {
		r := teststmt.Record(rng.IntN(200), time.Duration(rng.ExpFloat64()*float64(int(1)<<rng.IntN(36))))
		r.Start = time.Now()
		said.begun.Add(1)
		table.Observe(r)
		said.done.Add(1)
	}
}

// TestKill kills a process with SIGKILL while its sessions count statements, and digests are added and
// evicted: each time the table continues with the counts of the sessions, except for at most one statement
// per session.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	said, err := mapProgress(filepath.Join(dir, "progress"))
	if err != nil {
		t.Fatal(err)
	}
	seed := testseed.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	var total uint64
	sum := func() (begun, done uint64) {
		for i := range said {
			done += said[i].done.Load()
			begun += said[i].begun.Load()
		}
		return begun, done
	}
	for round := range uint64(6) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedEnv+"="+dir, fmt.Sprintf("%s=%d", testseed.Env, seed+round))
		cmd.Stdout = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		_, start := sum()
		target := start + 1000 + rng.Uint64N(50_000)
		testwait.Until(t, "the process to record its statements", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("the process exited: %v", err)
			default:
			}
			_, done := sum()
			return done >= target
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = testwait.Receive(t, "the killed process to exit", ended) // it was killed
		table := mustOpen(t, killedOptions(dir))
		var calls, rows uint64
		if err := table.Each(func(s *Sample) error {
			calls += s.Counts[Calls]
			rows += s.Counts[RowsSent]
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stats := table.Stats()
		if err := table.check(); err != nil {
			t.Error(err)
		}
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
		begun, done := sum()
		t.Logf("round %d: %d done, %d counted, %d begun; %d digests", round, done, calls, begun, stats.Digests)
		if stats.SetAside != "" {
			t.Fatal("the table was set aside")
		}
		doubt := (round + 1) * killedSessions
		if calls+doubt < begun || calls > begun || rows > 3*begun || rows+3*doubt < 3*begun || calls <= total {
			t.Errorf("%d statements were begun, %d done; the table has %d with %d rows", begun, done, calls, rows)
		}
		total = calls
	}
}

// TestKillWithinEviction stops an eviction after each of its steps.
func TestKillWithinEviction(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxDigests: 4, Bytes: leastBytes(4)}
	table := mustOpen(t, o)
	for n := range 3 {
		for range n + 1 {
			table.Observe(teststmt.Record(n, time.Millisecond))
		}
	}
	path := filepath.Join(o.Dir, tableName)
	read := func() []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	before := read()
	victim := &table.mem.entries[2]
	id, calls := victim.id, uint64(2)
	table.mu.Lock()
	table.evict(victim)
	table.mu.Unlock()
	after := read()
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	g, _, err := readHeader(before)
	if err != nil {
		t.Fatal(err)
	}
	sets := headerBytes + 2*totalsBytes
	for _, step := range []struct {
		name    string
		at      func(m, done *memory)
		evicted uint64
	}{
		{"before", func(m, done *memory) {}, 0},
		{"sealed", func(m, done *memory) { m.entries[2].transition(gateLive, gateSealed) }, 0},
		{"half added", func(m, done *memory) {
			m.entries[2].transition(gateLive, gateSealed)
			copy(m.raw[headerBytes:sets-totalsBytes/2], done.raw[headerBytes:])
		}, 0},
		{"added", func(m, done *memory) {
			m.entries[2].transition(gateLive, gateSealed)
			copy(m.raw[headerBytes:sets], done.raw[headerBytes:])
		}, 0},
		{"switched", func(m, done *memory) {
			m.entries[2].transition(gateLive, gateSealed)
			copy(m.raw[:sets], done.raw[:sets])
		}, calls},
		{"gone", func(m, done *memory) {
			copy(m.raw[:sets], done.raw[:sets])
			m.entries[2].transition(gateLive, gateGone)
		}, calls},
		{"after", func(m, done *memory) { copy(m.raw, done.raw) }, calls},
	} {
		t.Run(step.name, func(t *testing.T) {
			o := o
			o.Dir = t.TempDir()
			content := append([]byte(nil), before...)
			step.at(g.place(content), g.place(append([]byte(nil), after...)))
			if err := os.WriteFile(filepath.Join(o.Dir, tableName), content, 0o600); err != nil {
				t.Fatal(err)
			}
			table := mustOpen(t, o)
			defer func() { _ = table.Close() }()
			var all, evicted, gone uint64
			if err := table.Collect(func(s *Sample) error {
				switch all += s.Counts[Calls]; s.Kind {
				case Evicted:
					evicted = s.Counts[Calls]
				case Removed:
					gone = s.ID
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if all != 1+2+3 || evicted != step.evicted || (gone == id) != (evicted > 0) {
				t.Errorf("%d calls, %d of them evicted, ID %d gone; want 6, %d", all, evicted, gone, step.evicted)
			}
		})
	}
}
