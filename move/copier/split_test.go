package copier_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// splitOptions returns the options of the parts: schemas of one target server stand for servers.
func splitOptions(t *testing.T, p *pair, clauses ...string) []copier.Options {
	t.Helper()
	specs := make([][]tabledef.Spec, 3)
	for i := range specs {
		for _, name := range []string{"o", "r", "all_rows"} {
			specs[i] = append(specs[i], tabledef.Spec{Schema: p.schema, Name: name, ToSchema: fmt.Sprintf("%s_%d", p.schema, i)})
		}
	}
	for _, clause := range clauses {
		if err := tabledef.AddSplit(specs, clause); err != nil {
			t.Fatal(err)
		}
	}
	parts := make([]copier.Options, len(specs))
	for i := range parts {
		o := p.options()
		o.Tables, o.Workers, o.ChunkBytes = specs[i], 2, 1<<10
		o.Follow, o.UntilCaughtUp, o.Verify, o.Patience = true, true, true, testwait.Limit
		parts[i] = o
	}
	return parts
}

// runSplit is runAfter for splits and merges.
func runSplit(t *testing.T, run func() ([]*copier.Report, error)) (reports []*copier.Report, err error) {
	t.Helper()
	testwait.Until(t, "the locks of the run before to be released", func() bool {
		reports, err = run()
		return !errors.Is(err, state.ErrLocked)
	})
	return reports, err
}

// splitTxns returns transactions that move rows between the parts, into and out of NULL, and change their keys.
func splitTxns(seed uint64, n int) (all []followTxn) {
	rnd := newRand(seed)
	for range n {
		id := rnd.IntN(200)
		all = append(all, followTxn{
			fmt.Sprintf("UPDATE o SET customer = %d WHERE id = %d", rnd.IntN(50), id),
			fmt.Sprintf("UPDATE o SET id = id + 1000, customer = customer + 7 WHERE id = %d", rnd.IntN(200)),
			fmt.Sprintf("REPLACE INTO o VALUES (%d, %d, 'again')", rnd.IntN(200), rnd.IntN(50)),
			fmt.Sprintf("UPDATE r SET at = %s WHERE id = %d", []string{"NULL", "'2026-01-01'", "'2026-01-31 23:59:59'", "'2026-02-01'", "'2026-03-01'"}[rnd.IntN(5)], id),
			fmt.Sprintf("DELETE FROM r WHERE id = %d", rnd.IntN(200)),
			fmt.Sprintf("REPLACE INTO r VALUES (%d, '2026-02-%02d')", rnd.IntN(200), 1+rnd.IntN(28)),
			fmt.Sprintf("REPLACE INTO all_rows VALUES (%d, %d)", rnd.IntN(20), rnd.IntN(50)),
		})
	}
	return all
}

// TestSplit divides tables over three targets while transactions move rows between them, interrupts the split at
// events of one of its parts, and resumes it. In the end each target has the rows of its condition, evaluated by the
// source, and each row is in exactly one target.
func TestSplit(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rnd := newRand(seed)
	p := newPair(t, "split")
	sqlExec(t, p.source, "CREATE TABLE o (id INT PRIMARY KEY, customer BIGINT NOT NULL, note VARCHAR(20), KEY customer (customer))",
		"CREATE TABLE r (id INT PRIMARY KEY, at DATETIME)", "CREATE TABLE all_rows (id INT PRIMARY KEY, v INT)",
		"INSERT INTO o SELECT seq, seq % 50, CONCAT('row ', seq) FROM seq_1_to_200",
		"INSERT INTO r SELECT seq, IF(seq % 9, '2026-01-01' + INTERVAL seq DAY, NULL) FROM seq_1_to_200", "INSERT INTO all_rows SELECT seq, seq FROM seq_1_to_20")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS split_0", "DROP DATABASE IF EXISTS split_1", "DROP DATABASE IF EXISTS split_2")
	clauses := []string{"split.o: hash(customer)", "split.r: range(at, '2026-02-01', '2026-03-01')", "split.all_rows: all"}
	runs := 5
	if testing.Short() {
		runs = 3
	}
	for i := range runs {
		ctx, cancel := context.WithCancel(t.Context())
		last := i == runs-1
		var mu sync.Mutex
		var playing sync.WaitGroup
		var playErr error
		begun, caughtUp, n, at := false, 0, 0, 1+rnd.IntN(60)
		observe := func(e telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == telemetry.EventSnapshot && !begun {
				begun = true
				playing.Go(func() { playErr = play(t.Context(), root(p.from), "split", splitTxns(uint64(i), 60)) })
			}
			if e.Kind == telemetry.EventCaughtUp && e.To == "" {
				caughtUp++
			}
			if n++; n == at && !last {
				cancel()
			}
		}
		reports, err := runSplit(t, func() ([]*copier.Report, error) {
			s, err := copier.NewSplit(splitOptions(t, p, clauses...), "", observe)
			if err != nil {
				t.Fatal(err)
			}
			return s.Run(ctx)
		})
		cancel()
		testwait.Group(t, "the writer to finish", &playing)
		if playErr != nil {
			t.Fatal(playErr)
		}
		if !last {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if caughtUp != 1 || len(reports) != 3 {
			t.Errorf("all targets have caught up %d times; %d reports", caughtUp, len(reports))
		}
	}
	// The writer has ended: each part catches up with the same changes.
	s, err := copier.NewSplit(splitOptions(t, p, clauses...), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	reports, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if _, _, incomplete := r.Unverified(); incomplete || r.Mismatches() != 0 {
			t.Errorf("verification: %d rows differ, incomplete: %v", r.Mismatches(), incomplete)
		}
	}
	compareSplit(t, p)
	var o, r []string
	for i := range 3 {
		schema := fmt.Sprintf("split_%d", i)
		o, r = append(o, "SELECT id, customer FROM "+schema+".o"), append(r, "SELECT id FROM "+schema+".r")
	}
	for table, union := range map[string]string{"o": strings.Join(o, " UNION ALL "), "r": strings.Join(r, " UNION ALL ")} {
		want := read(t, p.source, "SELECT COUNT(*), COUNT(DISTINCT id) FROM "+table)
		if d := cmp.Diff(want, read(t, p.target, "SELECT COUNT(*), COUNT(DISTINCT id) FROM ("+union+") x")); d != "" {
			t.Errorf("rows of %s in all targets (- source, + targets)\n%s", table, d)
		}
	}
}

// compareSplit compares the source's tables o, r and all_rows with those of the three targets, and expects the rows with
// the ids in acked in one of the targets' tables o.
func compareSplit(t *testing.T, p *pair, acked ...string) {
	t.Helper()
	ranges := []string{"at IS NULL OR at < '2026-02-01'", "at >= '2026-02-01' AND at < '2026-03-01'", "at >= '2026-03-01'"}
	have := make(map[string]bool)
	for i := range 3 {
		to := fmt.Sprintf("split_%d", i)
		for _, q := range []struct{ want, got string }{
			{fmt.Sprintf("SELECT * FROM split.o WHERE CRC32(customer) %% 3 = %d ORDER BY id", i), "SELECT * FROM " + to + ".o ORDER BY id"},
			{"SELECT * FROM split.r WHERE " + ranges[i] + " ORDER BY id", "SELECT * FROM " + to + ".r ORDER BY id"},
			{"SELECT * FROM split.all_rows ORDER BY id", "SELECT * FROM " + to + ".all_rows ORDER BY id"},
		} {
			if d := cmp.Diff(read(t, p.source, q.want), read(t, p.target, q.got)); d != "" {
				t.Errorf("%s (- source, + target)\n%s", q.got, d)
			}
		}
		for _, id := range read(t, p.target, "SELECT id FROM "+to+".o") {
			have[id] = true
		}
	}
	for _, id := range acked {
		if !have[id] {
			t.Errorf("row %s was acknowledged and is in no target", id)
		}
	}
}

// TestSplitControl polls, finishes and aborts a split over its control socket, and has one part fail.
func TestSplitControl(t *testing.T) {
	p := newPair(t, "split")
	sqlExec(t, p.source, "CREATE TABLE o (id INT PRIMARY KEY, customer INT)", "CREATE TABLE r (id INT PRIMARY KEY)", "CREATE TABLE all_rows (id INT PRIMARY KEY)",
		"INSERT INTO o SELECT seq, seq FROM seq_1_to_90")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS split_0", "DROP DATABASE IF EXISTS split_1", "DROP DATABASE IF EXISTS split_2")
	path := filepath.Join(t.TempDir(), "s")
	run := func(parts []copier.Options, when func(*control.Client)) ([]*copier.Report, error) {
		t.Helper()
		all := make(chan struct{})
		var once sync.Once
		s, err := copier.NewSplit(parts, path, func(e telemetry.Event) {
			if e.Kind == telemetry.EventCaughtUp && e.To == "" {
				once.Do(func() { close(all) })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var reports []*copier.Report
		ended := make(chan error, 1)
		go func() {
			var err error
			reports, err = s.Run(t.Context())
			ended <- err
		}()
		if when != nil {
			testwait.Receive(t, "all targets to catch up", all)
			c := control.NewClient(path)
			defer c.Close()
			when(c)
		}
		err = testwait.Receive(t, "the split to end", ended)
		return reports, err
	}
	options := func() []copier.Options {
		parts := splitOptions(t, p, "split.o: range(customer, 30, 60)", "split.r: hash(id)", "split.all_rows: all")
		for i := range parts {
			parts[i].UntilCaughtUp, parts[i].Verify = false, false
		}
		return parts
	}
	_, err := run(options(), func(c *control.Client) {
		s, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var rows int64
		for _, table := range s.Tables {
			if table.Source == "split.o" {
				rows += table.Rows
			}
		}
		if len(s.Parts) != 3 || len(s.Tables) != 9 || rows != 90 || s.Phase != telemetry.RunFollowing || s.Follow == nil || !s.Follow.CaughtUp || s.Progress == nil || s.Progress.Percent != 100 {
			t.Errorf("status: %d parts, %d tables, %d rows, phase %s, follow %+v, progress %+v", len(s.Parts), len(s.Tables), rows, s.Phase, s.Follow, s.Progress)
		}
		if _, err := c.Abort(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, control.ErrAborted) {
		t.Fatalf("after abort: %v", err)
	}

	parts := options()
	parts[1], parts[2] = parts[2], parts[1] // the state of each target records its part
	for _, i := range []int{1, 2} {
		for j := range parts[i].Tables {
			parts[i].Tables[j].ToSchema = fmt.Sprintf("split_%d", i)
		}
	}
	if _, err := run(parts, nil); err == nil || !strings.Contains(err.Error(), "it was of other rows") {
		t.Fatalf("targets in another order: %v", err)
	}

	sqlExec(t, p.source, "UPDATE o SET customer = customer + 30 WHERE id <= 40")
	reports, err := run(options(), func(c *control.Client) {
		if _, err := c.Finish(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var deletes, inserts int64
	for _, r := range reports {
		deletes, inserts = deletes+r.Follow.Deletes, inserts+r.Follow.Inserts
	}
	if deletes != inserts || inserts < 40 { // 29 rows from below 30, and 11 from below 60
		t.Errorf("%d rows were inserted and %d deleted by changes of the column", inserts, deletes)
	}
	for i, want := range []string{`["0"]`, `["48"]`, `["42"]`} {
		if got := read(t, p.target, fmt.Sprintf("SELECT COUNT(*) FROM split_%d.o", i)); len(got) != 1 || got[0] != want {
			t.Errorf("rows in target %d: %v, not %s", i, got, want)
		}
	}
}
