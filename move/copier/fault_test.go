package copier_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

var allFaults = flag.Bool("all-faults", false, "TestBrokenWrites breaks at every packet, and TestDumpDamaged damages every file in every way")

// faultStep returns the distance between the faults of a test and the index of the first one, by a seed. With -all-faults these are
// all faults.
func faultStep(t *testing.T, step int) (distance, first int) {
	t.Helper()
	if *allFaults {
		return 1, 0
	}
	return step, testseed.Rand(t).IntN(step)
}

// TestBrokenWrites breaks the connection to the target at every fifth of its packets in turn, before the server
// has it and after it has responded. The copy recovers or is run again; either way the target is exact.
func TestBrokenWrites(t *testing.T) {
	p := newPair(t, "broken")
	step, first := faultStep(t, 5)
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20), KEY k (c))", "INSERT INTO a SELECT seq, CONCAT('row ', seq) FROM seq_1_to_70", "ANALYZE TABLE a")
	lanes := []int{0, 1, 2, 3, 4, 5} // each with a separate target schema and state: most of the time is spent waiting for servers
	var next [2]atomic.Int64
	next[0].Store(int64(first + 1))
	next[1].Store(int64((first+2)%step + 1)) // other packets than those of the other way
	if err := parallel.ForEach(t.Context(), len(lanes), lanes, func(_ context.Context, lane int) error {
		applied := lane%2 == 1
		t.Run(fmt.Sprintf("applied %v, %d", applied, lane/2), func(t *testing.T) {
			mine := *p
			mine.source, mine.target = connect(t, root(p.from)), connect(t, root(p.to))
			mine.breakWrites(t, fmt.Sprint("broken", lane), applied, &next[lane%2], int64(step))
		})
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// breakWrites copies to a schema, with the connection broken at next, which increases by step, until a copy has fewer packets.
func (p *pair) breakWrites(t *testing.T, schema string, applied bool, next *atomic.Int64, step int64) {
	t.Helper()
	const firstPackets = 20 // a copy creates all of its schemas and tables within these
	state := "_tare_" + schema
	proxy := testproxy.StartFaulty(t, p.to.Addr)
	for {
		at := next.Add(step) - step
		if at <= firstPackets || len(read(t, p.target, "SHOW DATABASES LIKE '"+state+"'")) == 0 {
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS "+schema, "DROP DATABASE IF EXISTS "+state)
		} else { // keep the schemas, which the first packets created: dropping them is slow
			sqlExec(t, p.target, "DROP TABLE IF EXISTS "+schema+".a", "DELETE FROM "+state+".copy_table", "DELETE FROM "+state+".copy_chunk")
		}
		kind := testproxy.LostBefore
		if applied {
			kind = testproxy.LostAfter
		}
		proxy.Set(int(at), kind)
		o := p.into(schema, "a")
		o.StateSchema = state
		o.To.Addr, o.To.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
		o.Workers, o.ChunkBytes, o.Patience = 1, 1<<10, 5*time.Second
		report, err := copier.Run(t.Context(), o)
		n, sent := len(proxy.Packets()), proxy.Sent()
		if err != nil {
			if sent == "" {
				t.Fatalf("packet %d %s: %v", at, kind, err)
			}
			if report, err = runAfter(t, o); err != nil {
				t.Fatalf("packet %d %s, run again: %v", at, kind, err)
			}
		}
		p.sameAs(t, "a", schema)
		if t.Failed() {
			t.Fatalf("packet %d %s: %s", at, kind, sent)
		}
		if sent == "" {
			if n < 30 || report.Tables[0].Chunks != 3 {
				t.Errorf("only %d packets, of %d chunks", n, report.Tables[0].Chunks)
			}
			return
		}
	}
}

// childEnv makes the test binary copy instead of running tests; its value is a childOptions.
const childEnv = "TARE_COPIER_CHILD"

type childOptions struct {
	From, To   string
	Wire       string // address of a wire.Service to read from instead of From
	Table      tabledef.Spec
	Parts      [][]tabledef.Spec // of a split, instead of Table
	Workers    int
	ChunkBytes int64
}

// child runs the copier in a separate process, which prints its events.
func child() int {
	var c childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c); err != nil {
		fmt.Println(err)
		return 1
	}
	config := func(addr string) mysqlconn.Config {
		return mysqlconn.Config{Addr: addr, User: testmysql.RootUser, Password: testmysql.Password}
	}
	o := copier.Options{From: copier.FromServer(config(c.From)), To: config(c.To), Tables: []tabledef.Spec{c.Table}, Tuning: copier.Tuning{Workers: c.Workers, ChunkBytes: c.ChunkBytes}}
	if c.Wire != "" {
		o.From = copier.FromRemote(wire.RemoteOptions{Addr: c.Wire})
	}
	var mu sync.Mutex
	o.Observe = func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(e.Kind, e.Chunk)
	}
	run := func() error {
		_, err := copier.Run(context.Background(), o)
		return err
	}
	if len(c.Parts) > 0 {
		run = func() error { return splitAs(o, c.Parts) }
	}
	if err := run(); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// splitAs splits tables with the options of a copy.
func splitAs(o copier.Options, tables [][]tabledef.Spec) error {
	parts := make([]copier.Options, len(tables))
	for i := range parts {
		parts[i] = o
		parts[i].Tables, parts[i].Follow, parts[i].UntilCaughtUp = tables[i], true, true
	}
	s, err := copier.NewSplit(parts, "", o.Observe)
	if err == nil {
		_, err = s.Run(context.Background())
	}
	return err
}

// TestKilled kills the copier and its connections to the source and the target at random times, and runs it
// again until it completes: the target is exact.
func TestKilled(t *testing.T) {
	p := newPair(t, "killed")
	sqlExec(t, p.source,
		"CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(200), KEY k (c))",
		"INSERT INTO a SELECT seq, REPEAT(CONCAT('row ', seq), 10) FROM seq_1_to_20000", "ANALYZE TABLE a",
	)
	remote, err := overTheWire(t, root(p.from), wire.NoCompression)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remote.Close() }()
	rnd := newRand(7)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS killed", "DROP DATABASE IF EXISTS _tare")
		o := childOptions{
			From: p.from.Addr, To: p.to.Addr, Table: tabledef.Spec{Schema: p.schema, Name: "a"}, Workers: 1 + rnd.IntN(4), ChunkBytes: 100_000,
		}
		if round%2 == 1 {
			o.Wire = strings.TrimPrefix(remote.Addr(), "tare://")
		}
		for attempt := 0; ; attempt++ {
			if attempt > 60 {
				t.Fatalf("round %d: not through after %d runs", round, attempt)
			}
			if p.runChild(t, o, rnd, attempt < 8) {
				break
			}
		}
		p.same(t, "a")
	}
}

// runChild runs a copy in a separate process and disturbs it after some of its events. It
// reports whether the copy completed.
func (p *pair) runChild(t *testing.T, o childOptions, rnd *rand.Rand, disturb bool) bool {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	after := rnd.IntN(25)
	lines := bufio.NewScanner(out)
	var said []string
	for n := 0; lines.Scan(); n++ {
		said = append(said, lines.Text())
		if !disturb || n != after {
			continue
		}
		switch rnd.IntN(3) {
		case 0:
			_ = cmd.Process.Kill()
		case 1:
			killConnections(t, p.source)
		case 2:
			killConnections(t, p.target)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err != nil && !disturb && !strings.Contains(strings.Join(said, "\n"), "another tare copy") {
		t.Fatalf("undisturbed: %v\n%s", err, strings.Join(said, "\n"))
	}
	return err == nil
}

// killConnections kills all connections to a server except that of the test.
func killConnections(t *testing.T, c *mysqlconn.Client) {
	t.Helper()
	for _, id := range read(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND <> 'Daemon' AND USER NOT IN ('system user', 'event_scheduler')") {
		n, err := strconv.Atoi(strings.Trim(id, `["]`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Exec(t.Context(), fmt.Sprintf("KILL %d", n)) // the connection may be closed already
	}
}
