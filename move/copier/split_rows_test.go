package copier_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A readCounter counts how often each chunk, and the log, is read from the sources that it wraps.
type readCounter struct {
	mu    sync.Mutex
	reads map[string]int
	logs  int
}

func (n *readCounter) from(open func(context.Context) (binlog.Follower, error)) func(context.Context) (binlog.Follower, error) {
	return func(ctx context.Context) (binlog.Follower, error) {
		f, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return readSource{f, n}, nil
	}
}

// take returns the counts, by table and start of the chunk, and starts again.
func (n *readCounter) take() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	reads := n.reads
	n.reads, n.logs = nil, 0
	return reads
}

type readSource struct {
	binlog.Follower
	n *readCounter
}

func (s readSource) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	s.n.mu.Lock()
	s.n.logs++
	s.n.mu.Unlock()
	return s.Follower.Follow(ctx, o)
}

func (s readSource) ShortView(ctx context.Context, identity string, t *rowstream.Table, limit time.Duration) (rowstream.View, error) {
	v, err := s.Follower.ShortView(ctx, identity, t, limit)
	if err != nil {
		return nil, err
	}
	return readView{v, s.n}, nil
}

type readView struct {
	rowstream.View
	n *readCounter
}

func (v readView) Reader(worker int) rowstream.ViewReader {
	return chunkReads{v.View.Reader(worker), v.n}
}

type chunkReads struct {
	rowstream.ViewReader
	n *readCounter
}

func (r chunkReads) Read(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	r.n.mu.Lock()
	if r.n.reads == nil {
		r.n.reads = make(map[string]int)
	}
	r.n.reads[fmt.Sprintf("%s after %q", t.Name, c.After)]++
	r.n.mu.Unlock()
	return r.ViewReader.Read(ctx, t, c, o)
}

// splitPair creates the tables of splitOptions in the source, without rows of a split in the target.
func splitPair(t *testing.T, rows int) *pair {
	t.Helper()
	p := newPair(t, "split")
	sqlExec(t, p.source, "CREATE TABLE o (id INT PRIMARY KEY, customer BIGINT NOT NULL, note VARCHAR(20), KEY customer (customer))",
		"CREATE TABLE r (id INT PRIMARY KEY, at DATETIME)", "CREATE TABLE all_rows (id INT PRIMARY KEY, v INT)",
		fmt.Sprintf("INSERT INTO o SELECT seq, seq %% 50, CONCAT('row ', seq) FROM seq_1_to_%d", rows),
		fmt.Sprintf("INSERT INTO r SELECT seq, IF(seq %% 9, '2026-01-01' + INTERVAL seq %% 120 DAY, NULL) FROM seq_1_to_%d", rows), "INSERT INTO all_rows SELECT seq, seq FROM seq_1_to_20")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS split_0", "DROP DATABASE IF EXISTS split_1", "DROP DATABASE IF EXISTS split_2")
	return p
}

// splitClauses divide the tables of splitPair.
func splitClauses() []string {
	return []string{"split.o: hash(customer)", "split.r: range(at, '2026-02-01', '2026-03-01')", "split.all_rows: all"}
}

// TestSplitReadsOnce counts the chunks that a split reads: each once for three targets, as their changes. Then targets lose what they had, as after a failure: chunks
// are read for those that lack them, and each part reads independently if their chunks do not match.
func TestSplitReadsOnce(t *testing.T) {
	p := splitPair(t, 1000)
	var n readCounter
	const common, separate = 3 + 1, 3 + 3 // readers of the log: each part has one until it finds its first heartbeat
	split := func(logs int) map[string]int {
		t.Helper()
		parts := splitOptions(t, p, splitClauses()...)
		for i := range parts {
			parts[i].Verify, parts[i].From = false, n.from(parts[i].From)
		}
		if _, err := runSplit(t, func() ([]*copier.Report, error) {
			n.take()
			s, err := copier.NewSplit(parts, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			return s.Run(t.Context())
		}); err != nil {
			t.Fatal(err)
		}
		compareSplit(t, p)
		if n.logs != logs {
			t.Errorf("the log was requested %d times, want %d", n.logs, logs)
		}
		return n.take()
	}
	empty := func(i int) {
		t.Helper()
		at := fmt.Sprintf(" WHERE target_schema = 'split_%d' AND target_table = 'o'", i)
		sqlExec(t, p.target, fmt.Sprintf("DELETE FROM split_%d.o", i), "UPDATE _tare.copy_chunk SET copied = 0"+at, "UPDATE _tare.copy_table SET phase = 'copying'"+at)
	}
	chunks := func(i int) int {
		return len(read(t, p.target, fmt.Sprintf("SELECT chunk FROM _tare.copy_chunk WHERE target_schema = 'split_%d' AND target_table = 'o'", i)))
	}
	const few = 4
	counts := split(common)
	if len(counts) < few || chunks(0) < few || chunks(0) != chunks(1) || chunks(1) != chunks(2) {
		t.Fatalf("chunks of the targets: %d, %d, %d; reads %v", chunks(0), chunks(1), chunks(2), counts)
	}
	for chunk, n := range counts {
		if n != 1 {
			t.Errorf("%s was read %d times", chunk, n)
		}
	}
	if counts = split(common); len(counts) != 0 {
		t.Errorf("a finished split reads %v", counts)
	}

	empty(1)
	empty(2)
	sqlExec(t, p.target, "DELETE FROM _tare.copy_chunk WHERE target_schema = 'split_2' AND target_table = 'o' AND chunk >= 2")
	counts = split(common)
	if len(counts) != chunks(0) || chunks(2) != chunks(0) {
		t.Errorf("after two targets were emptied: %d of %d chunks, reads %v", chunks(2), chunks(0), counts)
	}
	for chunk, n := range counts {
		if n != 1 {
			t.Errorf("%s was read %d times for two targets", chunk, n)
		}
	}

	empty(0)
	empty(1)
	const at = " WHERE target_schema = 'split_1' AND target_table = 'o' AND chunk "
	upto := read(t, p.target, "SELECT HEX(upto_key) FROM _tare.copy_chunk"+at+"= 1")[0]
	sqlExec(t, p.target, "DELETE FROM _tare.copy_chunk"+at+">= 1", "UPDATE _tare.copy_chunk SET upto_key = X'"+upto[2:len(upto)-2]+"'"+at+"= 0")
	first := fmt.Sprintf("o after %q", []string(nil))
	if counts = split(separate); counts[first] != 2 || chunks(1) == 0 {
		t.Errorf("targets of other chunks: reads %v", counts)
	}
}

// TestSplitBrokenWrites breaks the connections to one of the targets at packets of a split, before the server has them or after. The split recovers or is
// run again; each row is in its target.
func TestSplitBrokenWrites(t *testing.T) {
	p := splitPair(t, 300)
	rnd := testseed.Rand(t)
	proxy := testproxy.StartFaulty(t, p.to.Addr)
	run := func() ([]*copier.Report, error) {
		parts := splitOptions(t, p, splitClauses()...)
		for i := range parts {
			parts[i].Verify = false
		}
		parts[1].To.Addr, parts[1].To.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
		s, err := copier.NewSplit(parts, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.Run(t.Context())
	}
	if _, err := run(); err != nil {
		t.Fatal(err)
	}
	packets, faults := len(proxy.Packets()), 4
	if *allFaults {
		faults = packets
	}
	for i := range faults {
		sqlExec(t, p.target, "DROP DATABASE split_0", "DROP DATABASE split_1", "DROP DATABASE split_2", "DROP DATABASE _tare")
		at, kind := 1+rnd.IntN(packets), testproxy.LostBefore
		if *allFaults {
			at = 1 + i
		}
		if rnd.IntN(2) == 0 {
			kind = testproxy.LostAfter
		}
		proxy.Set(at, kind)
		_, err := run()
		sent := proxy.Sent()
		proxy.Set(0, kind)
		if err != nil {
			t.Logf("packet %d %s: %v", at, kind, err)
			if _, err = runSplit(t, run); err != nil {
				t.Fatalf("packet %d %s (%.100q), run again: %v", at, kind, sent, err)
			}
		}
		compareSplit(t, p)
		if t.Failed() {
			t.Fatalf("packet %d %s: %.100q", at, kind, sent)
		}
	}
}

// TestSplitKilled kills the process of a split, and its connections, at random events while transactions move rows between the targets, and runs it again
// until it completes.
func TestSplitKilled(t *testing.T) {
	p := splitPair(t, 3000)
	rnd := testseed.Rand(t)
	o := childOptions{From: p.from.Addr, To: p.to.Addr, Workers: 2, ChunkBytes: 4 << 10}
	for _, part := range splitOptions(t, p, splitClauses()...) {
		o.Parts = append(o.Parts, part.Tables)
	}
	disturbed := 8
	if testing.Short() {
		disturbed = 3
	}
	for attempt := 0; ; attempt++ {
		if attempt > disturbed+20 {
			t.Fatalf("not through after %d runs", attempt)
		}
		var playing sync.WaitGroup
		var failed error
		if attempt < disturbed {
			seed := rnd.Uint64()
			playing.Go(func() { failed = play(t.Context(), root(p.from), "split", splitTxns(seed, 40)) })
		}
		done := p.runChild(t, o, rnd, attempt < disturbed)
		testwait.Group(t, "the writer to finish", &playing)
		if failed != nil && attempt >= disturbed { // its connection may have been killed
			t.Fatal(failed)
		}
		if done && attempt >= disturbed {
			break
		}
	}
	compareSplit(t, p)
}

// rowOf returns the row with an id.
func rowOf(id int) mysqlwire.TextRow { return testrows.Row(fmt.Sprint(id), fmt.Sprint("row ", id)) }

// batchOf returns the rows from one id to another.
func batchOf(from, to int) *rowstream.Batch {
	var rows []mysqlwire.TextRow
	for id := from; id <= to; id++ {
		rows = append(rows, rowOf(id))
	}
	return testrows.BatchOf(rows...)
}

var errTestSource = errors.New("the source is gone")

// TestRowTargets checks the contract of rowTarget for servers: cut records, copy is all or nothing and is repeated after a lost connection,
// finish ends a table.
func TestRowTargets(t *testing.T) {
	p := newPair(t, "seam")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20), KEY k (c))", "INSERT INTO a SELECT seq, CONCAT('row ', seq) FROM seq_1_to_40", "ANALYZE TABLE a")
	for _, tt := range []struct {
		name    string
		clauses []string // one or two targets
		schemas []string
	}{
		{"one", nil, []string{"seam_one"}},
		{"split", []string{"seam.a: hash(id)"}, []string{"seam_0", "seam_1"}},
		{"two of all rows", []string{"seam.a: all"}, []string{"seam_2", "seam_3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			specs := make([][]tabledef.Spec, len(tt.schemas))
			for i, schema := range tt.schemas {
				sqlExec(t, p.target, "DROP DATABASE IF EXISTS "+schema)
				specs[i] = []tabledef.Spec{{Schema: "seam", Name: "a", ToSchema: schema}}
			}
			copies := 1 // of a row
			for _, clause := range tt.clauses {
				if err := tabledef.AddSplit(specs, clause); err != nil {
					t.Fatal(err)
				}
				if clause == "seam.a: all" {
					copies = len(specs)
				}
			}
			parts := make([]copier.Options, len(specs))
			for i := range parts {
				o := p.options("a")
				o.Tables, o.Workers, o.Follow, o.Patience = specs[i], 1, true, testwait.Limit
				parts[i] = o
			}
			target, end, err := copier.PrepareTarget(t.Context(), parts)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			checkRowTarget(t, p, target, tt.schemas, copies)
		})
	}
}

// checkRowTarget checks a target whose tables are in schemas, and in which each row is to be in a number of tables.
func checkRowTarget(t *testing.T, p *pair, target copier.RowTarget, schemas []string, copies int) {
	t.Helper()
	rows := func() (n, distinct int) {
		t.Helper()
		have := make(map[string]bool)
		for _, schema := range schemas {
			for _, row := range read(t, p.target, "SELECT id, c FROM "+schema+".a") {
				n++
				have[row] = true
			}
		}
		return n, len(have)
	}
	states := func(want string) {
		t.Helper()
		for _, schema := range schemas {
			got := read(t, p.target, "SELECT GROUP_CONCAT(CONCAT(chunk, ':', copied) ORDER BY chunk), (SELECT phase FROM _tare.copy_table WHERE target_schema = '"+schema+
				"') FROM _tare.copy_chunk WHERE target_schema = '"+schema+"'")
			if len(got) != 1 || got[0] != want {
				t.Fatalf("state of %s: %s, want %s", schema, got, want)
			}
		}
	}
	has := func(want int) {
		t.Helper()
		if n, distinct := rows(); n != copies*want || distinct != want {
			t.Fatalf("%d rows, %d of them distinct; want %d in %d copies", n, distinct, want, copies)
		}
	}
	chunk := func(number, after, upto int) (c rowstream.Chunk) {
		c.Number = number
		if after > 0 {
			c.After = rowOf(after)[:1]
		}
		if upto < 40 {
			c.Upto = rowOf(upto)[:1]
		}
		return c
	}
	chunks := []rowstream.Chunk{chunk(0, 0, 10), chunk(1, 10, 30), chunk(2, 30, 40)}
	for _, c := range chunks {
		if err := target.Cut(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := target.Cut(t.Context(), chunks[1]); err != nil {
		t.Errorf("cut again: %v", err)
	}
	states(`["0:0,1:0,2:0" "copying"]`)

	err := target.Copy(t.Context(), chunks[0], func(write func(*rowstream.Batch) error, settle func() error) error {
		if err := errors.Join(write(batchOf(1, 5)), settle()); err != nil {
			return err
		}
		return copier.SourceError(errTestSource)
	})
	if !errors.Is(err, errTestSource) {
		t.Fatalf("a source that fails: %v", err)
	}
	testwait.Until(t, "the transactions to be rolled back", func() bool { n, _ := rows(); return n == 0 })
	states(`["0:0,1:0,2:0" "copying"]`)

	if err := target.Copy(t.Context(), chunks[0], func(write func(*rowstream.Batch) error, settle func() error) error {
		return errors.Join(write(batchOf(1, 4)), settle(), write(batchOf(5, 10)))
	}); err != nil {
		t.Fatal(err)
	}
	has(10)
	states(`["0:1,1:0,2:0" "copying"]`)

	var reads atomic.Int64
	if err := target.Copy(t.Context(), chunks[1], func(write func(*rowstream.Batch) error, settle func() error) error {
		if err := write(batchOf(11, 20)); err != nil {
			return err
		}
		if reads.Add(1) == 1 { // one of the targets loses its connection
			const loading = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'LOAD DATA%' ORDER BY ID LIMIT 1"
			var ids []string
			testwait.Until(t, "a target to load rows", func() bool { ids = read(t, p.target, loading); return len(ids) > 0 })
			sqlExec(t, p.target, "KILL "+ids[0][2:len(ids[0])-2])
		}
		if err := settle(); err != nil {
			return err
		}
		return write(batchOf(21, 30))
	}); err != nil {
		t.Fatal(err)
	}
	if reads.Load() != 2 {
		t.Errorf("the rows were read %d times, not again after a lost connection", reads.Load())
	}
	has(30)
	states(`["0:1,1:1,2:0" "copying"]`)

	if err := target.Finish(t.Context()); err == nil {
		t.Error("a table is finished whose last chunk is not copied")
	}
	if err := target.Copy(t.Context(), chunks[2], func(write func(*rowstream.Batch) error, _ func() error) error { return write(batchOf(31, 40)) }); err != nil {
		t.Fatal(err)
	}
	if err := target.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	has(40)
	states(`["0:1,1:1,2:1" "finished"]`)
	for _, schema := range schemas {
		if got := read(t, p.target, "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = '"+schema+"' ORDER BY 1"); len(got) != 2 {
			t.Errorf("indexes of %s: %s", schema, got)
		}
	}
}
