package verify

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

var allFaults = flag.Bool("all-faults", false, "TestFaults has all faults at each packet, otherwise some at each statement")

// A copied is a copy of two tables, of which the first differs from its target.
type copied struct {
	t               *testing.T
	proxy           *testproxy.Faulty
	direct, through mysqlconn.Config
	holder          *mysqlconn.Client // has the lease
	st              state.State
	tables          []*tabledef.Table
	follower        *follow.Follower

	changed func(*Options) // changes the options of verifications; nil: none
	raw     []*Report      // of the last verification

	mu       sync.Mutex
	events   []string // of verifications
	progress func() *telemetry.VerifyStatus
}

func newCopied(t *testing.T) *copied {
	const rows, perChunk = 60, 12
	c := &copied{t: t, st: state.State{Schema: "_tare"}}
	server := testmysql.Start(t, testmysql.WithBinlog())
	c.proxy = testproxy.StartFaulty(t, server.Addr)
	c.direct = mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	c.through = c.direct
	c.through.Addr = c.proxy.Addr
	c.holder = testrows.Connect(t, c.direct)
	const columns = " (id INT PRIMARY KEY, n INT NOT NULL, g INT AS (n + 1) STORED)"
	c.must(server.Exec("CREATE DATABASE src", "CREATE DATABASE dst", "CREATE TABLE src.a"+columns, "CREATE TABLE src.b"+columns,
		fmt.Sprintf("INSERT INTO src.a (id, n) SELECT seq, seq FROM seq_1_to_%d", rows), "INSERT INTO src.b (id, n) SELECT id, n FROM src.a",
		"CREATE TABLE dst.a"+columns, "CREATE TABLE dst.b"+columns, "INSERT INTO dst.a (id, n) SELECT id, n FROM src.a", "INSERT INTO dst.b (id, n) SELECT id, n FROM src.b"))
	source := testrows.Direct(t, c.direct)
	ctx := t.Context()
	c.must(c.st.Create(ctx, c.holder))
	c.must(c.st.CreateFollow(ctx, c.holder))
	var specs []*tabledef.Spec
	for _, name := range []string{"a", "b"} {
		spec := &tabledef.Spec{Schema: "src", Name: name, ToSchema: "dst", ToName: name}
		table, err := tabledef.Describe(ctx, source, c.holder, tabledef.DescribeOptions{Follow: true, Verify: true}, spec)
		c.must(err)
		c.tables, specs = append(c.tables, table), append(specs, spec)
	}
	var err error
	c.st.Lease, err = state.AcquireLease(ctx, c.holder, c.st, specs, time.Second)
	c.must(err)
	for _, table := range c.tables {
		c.must(c.st.Begin(ctx, c.holder, table.Spec, "all", "source", "", nil, nil))
		var after mysqlwire.TextRow
		for n := range rows / perChunk {
			k := rowstream.Chunk{Number: n, After: after}
			if n < rows/perChunk-1 {
				k.Upto = testrows.Row(fmt.Sprint((n + 1) * perChunk))
			}
			c.must(c.st.Cut(ctx, c.holder, table.Spec, k))
			after = k.Upto
		}
		table.State, err = c.st.Load(ctx, c.holder, table.Spec, 1)
		c.must(err)
	}
	c.must(server.Exec(fmt.Sprintf("UPDATE _tare.copy_chunk SET copied = 1, row_count = %d", perChunk),
		"DELETE FROM dst.a WHERE id = 5", "INSERT INTO dst.a (id, n) VALUES (-1, 0), (100, 0)", "UPDATE dst.a SET n = 0 WHERE id IN (6, 30)"))
	return c
}

func (c *copied) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// follow follows the source until the test ends.
func (c *copied) follow() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	source := testrows.Direct(c.t, c.direct)
	from, err := source.CurrentPosition(ctx)
	c.must(err)
	waits := &telemetry.Waits{Observe: func(telemetry.Event) {}}
	c.follower, err = follow.New(follow.Options{
		Source: source, Tables: c.tables, From: from, State: c.st.Followed("source", []tabledef.Spec{*c.tables[0].Spec, *c.tables[1].Spec}),
		Writer: func() *state.Writer { return c.writer(c.direct) },
		Shared: follow.Shared{Workers: 1, Patience: time.Minute, Waits: waits, Observe: func(telemetry.Event) {}, Count: func(*follow.Counts) {}},
	})
	c.must(err)
	ended := make(chan error, 1)
	go func() { ended <- c.follower.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		_ = testwait.Receive(c.t, "following to end", ended) // it was cancelled
	})
}

func (c *copied) writer(cfg mysqlconn.Config) *state.Writer {
	return &state.Writer{Cfg: cfg, State: c.st, Patience: time.Minute, Observe: func(telemetry.Event) {}}
}

// options are those of a verification whose writers have a configuration.
func (c *copied) options(writers mysqlconn.Config, workers int) Options {
	return Options{
		Tables: c.tables, To: c.holder, State: c.st, Writer: func() *state.Writer { return c.writer(writers) },
		Tuning: throttle.Tuning{Workers: workers, ChunkBytes: 4 << 10, MaxViewAge: time.Minute, Patience: time.Minute}, Pacer: throttle.NewPacer(throttle.PacerOptions{}),
		Observe: c.observe, Started: func(progress func() *telemetry.VerifyStatus) { c.progress = progress },
	}
}

func (c *copied) observe(e telemetry.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%s %d %s", e.Table, e.Chunk, e.Kind))
}

// A verification is a use of the package with faults.
type verification struct {
	name    string
	prepare func() (end func()) // before the faults
	do      func(ctx context.Context) (any, error)

	recovers []testproxy.Fault // after which it has the result that it has without a fault; otherwise it fails
	may      []testproxy.Fault // after which it does either
}

// once is Once with connections of configurations for the view of the source, for the state and for the target.
func (c *copied) once(name string, view, to, writers mysqlconn.Config, workers int, recovers ...testproxy.Fault) verification {
	o := c.options(writers, workers)
	if c.changed != nil {
		c.changed(&o)
	}
	return verification{
		name: fmt.Sprintf("%s, %d workers", name, workers), recovers: recovers,
		prepare: func() func() {
			source, err := binlog.OpenDirect(c.t.Context(), view)
			c.must(err)
			o.View, err = source.Snapshot(c.t.Context(), workers, []*rowstream.Table{c.tables[0].Source, c.tables[1].Source})
			c.must(err)
			if o.To = c.holder; to.Addr != c.direct.Addr {
				o.To, err = session.Connect(c.t.Context(), to)
				c.must(err)
			}
			return func() {
				_, _ = o.View.Close(), source.Close() // a connection may be lost
				if to.Addr != c.direct.Addr {
					_ = o.To.Close()
				}
			}
		},
		do: func(ctx context.Context) (any, error) {
			reports, err := Once(ctx, o)
			c.raw = reports
			return comparable(reports), err
		},
	}
}

// pass is a pass over some chunks while following.
func (c *copied) pass(name string, source, writers mysqlconn.Config) verification {
	o := c.options(writers, 1)
	o.Only = [][]bool{{true, false, true, false, false}, {false, false, false, false, true}}
	if c.changed != nil {
		c.changed(&o)
	}
	return verification{
		name: name, recovers: []testproxy.Fault{testproxy.LostBefore, testproxy.LostAfter, testproxy.LostWithin, testproxy.Deadlock},
		may: []testproxy.Fault{testproxy.Refused}, // comparisons are repeated, which prepare is not
		prepare: func() func() {
			d, err := binlog.OpenDirect(c.t.Context(), source)
			c.must(err)
			o.Source, o.View = d, noView{}
			return func() { _ = d.Close() } // a connection may be lost
		},
		do: func(ctx context.Context) (any, error) {
			v := NewFollowing(o, c.follower)
			v.retry = time.Millisecond
			reports, changing, err := v.Pass(ctx)
			c.raw = reports
			if err == nil && (changing.rows > 0 || changing.lost) {
				err = fmt.Errorf("%d rows changed in every comparison", changing.rows)
			}
			return comparable(reports), err
		},
	}
}

// changing compares two rows while nothing changes, of which the second differs.
func (c *copied) changing() verification {
	var source, target *mysqlconn.Client
	o := c.options(c.direct, 1)
	o.View = noView{}
	v := NewFollowing(o, nil)
	for i, t := range c.tables {
		c.must(v.prepare(c.t.Context(), c.holder, i, t, true))
	}
	compare := func(ctx context.Context, table int, id string) error {
		changing := Changing{v: v, keys: make([]map[string]bool, 2)}
		changing.keys[table] = map[string]bool{string(rowstream.EncodeKey(testrows.Row(id))): true}
		return changing.Compare(ctx, source, target)
	}
	return verification{
		name: "rows that changed in every comparison",
		prepare: func() func() {
			var err error
			source, err = session.Connect(c.t.Context(), c.through)
			c.must(err)
			target, err = session.Connect(c.t.Context(), c.through)
			c.must(err)
			return func() { _, _ = source.Close(), target.Close() } // one may be lost
		},
		do: func(ctx context.Context) (any, error) {
			if err := compare(ctx, 1, "7"); err != nil {
				return nil, err
			}
			err := compare(ctx, 0, "6")
			if !errors.Is(err, ErrDiffer) {
				return nil, err
			}
			return err.Error(), nil
		},
	}
}

// generated compares the generated columns of two chunks, of which the second differs.
func (c *copied) generated(name string, view, to mysqlconn.Config) verification {
	var source rowstream.View
	var target *mysqlconn.Client
	return verification{
		name: name,
		prepare: func() func() {
			d, err := binlog.OpenDirect(c.t.Context(), view)
			c.must(err)
			source, err = d.Snapshot(c.t.Context(), 1, []*rowstream.Table{c.tables[0].Source, c.tables[1].Source})
			c.must(err)
			target, err = session.Connect(c.t.Context(), to)
			c.must(err)
			return func() { _, _, _ = source.Close(), target.Close(), d.Close() } // one may be lost
		},
		do: func(ctx context.Context) (any, error) {
			if err := Generated(ctx, source.Reader(0), target, c.tables[1], c.tables[1].State.Chunks[0].Chunk); err != nil {
				return nil, err
			}
			err := Generated(ctx, source.Reader(0), target, c.tables[0], c.tables[0].State.Chunks[2].Chunk)
			if !errors.Is(err, state.ErrRows) {
				return nil, err
			}
			return err.Error(), nil
		},
	}
}

type noView struct{ rowstream.View }

func (noView) Position() string { return "" }

// comparable returns what the reports of repeated verifications have in common.
func comparable(reports []*Report) (all []Report) {
	for _, r := range reports {
		r := *r
		r.Chunks, r.Before, r.Rows, r.Checksum, r.Position = r.Chunks+r.Before, 0, 0, "", ""
		r.Different = slices.Clone(r.Different)
		for i := range r.Different {
			r.Different[i].Position = ""
		}
		slices.SortFunc(r.Different, func(a, b ChunkMismatch) int { return cmp.Compare(a.Chunk, b.Chunk) })
		all = append(all, r)
	}
	return all
}

var unexported = cmpopts.IgnoreUnexported(RowMismatch{})

// TestFaults has a fault of each kind at each packet that a verification sends to one of the servers, in turn: its result is the one
// without a fault, or it fails with the cause, and is then the same when it is repeated. No chunk that differs is recorded as equal.
func TestFaults(t *testing.T) {
	c := newCopied(t)
	c.follow()
	rnd := testseed.Rand(t)
	unlessRefused := []testproxy.Fault{testproxy.LostBefore, testproxy.LostAfter, testproxy.LostWithin, testproxy.Deadlock}
	some, other := 1, 3 // workers
	if rnd.IntN(2) == 0 {
		some, other = other, some
	}
	verifications := []verification{
		c.once("the target's writers", c.direct, c.direct, c.through, some, unlessRefused...),
		c.once("the source", c.through, c.direct, c.direct, other),
		c.once("the state", c.direct, c.through, c.direct, 1),
		c.pass("following, the target", c.direct, c.through),
		c.pass("following, the source", c.through, c.direct),
		c.changing(),
		c.generated("generated columns of the source", c.through, c.direct),
		c.generated("generated columns of the target", c.direct, c.through),
	}
	verifications[2].may = []testproxy.Fault{testproxy.Deadlock}
	if *allFaults {
		verifications = append(verifications, c.once("the target's writers", c.direct, c.direct, c.through, other, unlessRefused...), c.once("the source", c.through, c.direct, c.direct, some))
	}
	outcomes, statements := make(map[string]int), make(map[string]bool)
	for _, v := range verifications {
		end := v.prepare()
		c.proxy.Set(0, "")
		c.events = nil
		want, err := v.do(t.Context())
		packets := c.proxy.Packets()
		end()
		if err != nil {
			t.Fatalf("%s without a fault: %v", v.name, err)
		}
		if reports, ok := want.([]Report); ok {
			a, b := reports[0], reports[1]
			if got := *c.progress(); got.Chunks == 0 || got.Compared != got.Chunks || got.Waiting != 0 || int64(got.Mismatches) != a.Mismatches()+b.Mismatches() {
				t.Errorf("%s: its progress is %+v at the end", v.name, got)
			}
			c.progress = nil
			events := []string{"src.a 0 differs", "src.a 1 verified", "src.a 2 differs", "src.a 3 verified", "src.a 4 differs", "src.b 0 verified", "src.b 1 verified", "src.b 2 verified", "src.b 3 verified", "src.b 4 verified"}
			if strings.HasPrefix(v.name, "following") {
				events = []string{"src.a 0 differs", "src.a 2 differs", "src.b 4 verified"}
			}
			slices.Sort(c.events)
			if diff := gocmp.Diff(events, c.events); diff != "" {
				t.Errorf("%s without a fault: %s", v.name, diff)
			}
			if a.Missing != 1 || a.Extra < 1 || a.Changed != 2 || len(a.Different) < 2 || a.Chunks < 2 || b.Mismatches() != 0 || b.Chunks < 1 {
				t.Fatalf("%s without a fault: %+v", v.name, want)
			}
		}
		cells := testproxy.AllFaults(packets, 1)
		if !*allFaults {
			cells = testproxy.SomeFaults(rnd, packets, statements)
		}
		if testing.Short() { // TestEachStatementFails refuses each
			cells = slices.DeleteFunc(cells, func(c testproxy.Cell) bool { return c.Fault == testproxy.Refused })
		}
		var got any
		end = func() {}
		c.proxy.Each(cells, func() {
			end()
			end = v.prepare()
		}, func() (err error) {
			got, err = v.do(t.Context())
			return err
		}, func(cell testproxy.Cell, err error) {
			place := v.name + ", " + cell.String()
			recorded := testrows.Column(t, c.holder, "SELECT CONCAT(target_table, chunk) FROM _tare.copy_verified")
			if err == nil {
				outcomes[string(cell.Fault)+": done"]++
				if diff := gocmp.Diff(want, got, unexported); diff != "" {
					t.Errorf("%s: %s", place, diff)
				}
				if len(recorded) > 0 && !strings.HasPrefix(v.name, "following") {
					t.Errorf("%s: it left records of %q", place, recorded)
				}
				tolerated := strings.HasPrefix(cell.Sent, "SELECT VERSION(), ") || strings.Contains(cell.Sent, "max_error_count") // see TestFaults of package state
				if !slices.Contains(slices.Concat(v.recovers, v.may), cell.Fault) && cell.Fault != testproxy.Delayed && !tolerated {
					t.Errorf("%s: it did not fail", place)
				}
				return
			}
			outcomes[string(cell.Fault)+": failed"]++
			switch {
			case cell.Fault == testproxy.Delayed || slices.Contains(v.recovers, cell.Fault):
				t.Errorf("%s: %v", place, err)
			case cell.Fault == testproxy.Refused && !strings.Contains(err.Error(), testproxy.RefusedText),
				cell.Fault == testproxy.Deadlock && !strings.Contains(err.Error(), "the proxy reports a deadlock"),
				cell.Fault != testproxy.Refused && cell.Fault != testproxy.Deadlock && !state.IsUnreachable(err):
				t.Errorf("%s: it failed without the cause: %v", place, err)
			}
			for _, chunk := range []string{"a0", "a2", "a4"} {
				if slices.Contains(recorded, chunk) {
					t.Errorf("%s: %s is recorded as equal", place, chunk)
				}
			}
			end()
			end = v.prepare()
			again, err := v.do(t.Context())
			if diff := gocmp.Diff(want, again, unexported); err != nil || diff != "" {
				t.Errorf("%s, repeated: %v %s", place, err, diff)
			}
		})
		end()
	}
	t.Log(outcomes)
	wanted := []string{"refused: failed"}
	if testing.Short() {
		wanted = nil
	}
	if *allFaults {
		wanted = append(wanted, "a deadlock: done", "a deadlock: failed", "lost after it ran: done", "lost before it ran: failed")
	}
	for _, o := range wanted {
		if outcomes[o] == 0 {
			t.Errorf("no fault was %s", o)
		}
	}
}
