package copier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// lookupOptions returns the options of three parts of the tables o and n, whose targets are schemas of one server.
func lookupOptions(t *testing.T, p *pair) []copier.Options {
	t.Helper()
	specs := make([][]tabledef.Spec, 3)
	for i := range specs {
		for _, name := range []string{"o", "n"} {
			specs[i] = append(specs[i], tabledef.Spec{Schema: p.schema, Name: name, ToSchema: fmt.Sprintf("%s_%d", p.schema, i)})
		}
	}
	for _, clause := range []string{"lookup.o: lookup(customer, lookup.shards)", "lookup.n: Lookup(`region`, lookup.regions)"} {
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

// TestSplitLookup divides tables by lookup tables while transactions move rows between the targets and add values to the lookup tables,
// interrupts it at random events, and resumes it. In the end each row is in the target that the lookup table names. Values that are
// missing, removed or assigned to another target stop it.
func TestSplitLookup(t *testing.T) {
	rnd := testseed.Rand(t)
	p := newPair(t, "lookup")
	sqlExec(t, p.source, "CREATE TABLE o (id INT PRIMARY KEY, customer BIGINT, note VARCHAR(20))", "CREATE TABLE n (id INT PRIMARY KEY, region VARCHAR(20) CHARACTER SET utf8mb4)",
		"CREATE TABLE shards (customer INT UNSIGNED UNIQUE, shard TINYINT)", "CREATE TABLE regions (region VARCHAR(10) CHARACTER SET utf8mb4 PRIMARY KEY, shard INT)",
		"INSERT INTO shards SELECT seq, seq % 7 % 3 FROM seq_0_to_49", "INSERT INTO shards VALUES (NULL, 2)", "INSERT INTO regions VALUES ('eu', 0), ('us', 1), ('', 2), ('Ä', 1)",
		"INSERT INTO o SELECT seq, IF(seq % 11, seq % 50, NULL), 'x' FROM seq_1_to_200", "INSERT INTO n SELECT seq, ELT(1 + seq % 4, 'eu', 'us', '', 'Ä') FROM seq_1_to_200")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS lookup_0", "DROP DATABASE IF EXISTS lookup_1", "DROP DATABASE IF EXISTS lookup_2")
	t.Cleanup(func() {
		if err := p.from.Exec("SET GLOBAL read_only = 0"); err != nil {
			t.Error(err)
		}
	})
	next := 50
	txns := func(n int) (all []followTxn) {
		for range n {
			txn := followTxn{
				fmt.Sprintf("UPDATE o SET customer = %d WHERE id = %d", rnd.IntN(next), rnd.IntN(200)),
				fmt.Sprintf("UPDATE o SET customer = NULL WHERE id = %d", rnd.IntN(200)),
				fmt.Sprintf("UPDATE n SET region = ELT(1 + %d, 'eu', 'us', '', 'Ä'), id = id + 1000 WHERE id = %d", rnd.IntN(4), rnd.IntN(200)),
				fmt.Sprintf("DELETE FROM n WHERE id = %d", rnd.IntN(200)),
				fmt.Sprintf("REPLACE INTO n VALUES (%d, 'us')", rnd.IntN(200)),
			}
			if rnd.IntN(20) == 0 { // a new customer
				txn = append(txn, fmt.Sprintf("INSERT INTO shards VALUES (%d, %d)", next, rnd.IntN(3)), fmt.Sprintf("REPLACE INTO o VALUES (%d, %d, 'new')", rnd.IntN(200), next))
				next++
			}
			all = append(all, txn)
		}
		return all
	}
	split := func(ctx context.Context, change func(*copier.Options), observe func(telemetry.Event)) ([]*copier.Report, error) {
		t.Helper()
		parts := lookupOptions(t, p)
		for i := range parts {
			if change != nil {
				change(&parts[i])
			}
		}
		return runSplit(t, func() ([]*copier.Report, error) {
			s, err := copier.NewSplit(parts, "", observe)
			if err != nil {
				t.Fatal(err)
			}
			return s.Run(ctx)
		})
	}
	interrupts := 4
	if testing.Short() {
		interrupts = 2
	}
	for range interrupts {
		ctx, cancel := context.WithCancel(t.Context())
		at, n, begun := 1+rnd.IntN(80), 0, false
		var mu sync.Mutex
		var playing sync.WaitGroup
		var playErr error
		played := txns(40)
		_, err := split(ctx, nil, func(e telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == telemetry.EventSnapshot && !begun {
				begun = true
				playing.Go(func() { playErr = play(t.Context(), root(p.from), "lookup", played) })
			}
			if n++; n == at {
				cancel()
			}
		})
		interrupted := ctx.Err() != nil
		cancel()
		testwait.Group(t, "the writer to finish", &playing)
		if playErr != nil || err != nil && !interrupted {
			t.Fatal(playErr, err)
		}
	}
	equal := func() {
		t.Helper()
		for i := range 3 {
			schema := fmt.Sprintf("lookup_%d", i)
			for want, got := range map[string]string{
				fmt.Sprintf("SELECT o.* FROM o JOIN shards s ON s.customer <=> o.customer WHERE s.shard = %d ORDER BY id", i):   "SELECT * FROM " + schema + ".o ORDER BY id",
				fmt.Sprintf("SELECT n.* FROM n JOIN regions r ON r.region = BINARY n.region WHERE r.shard = %d ORDER BY id", i): "SELECT * FROM " + schema + ".n ORDER BY id",
			} {
				if d := cmp.Diff(read(t, p.source, want), read(t, p.target, got)); d != "" {
					t.Errorf("%s (- source, + target)\n%s", got, d)
				}
			}
		}
	}
	reports, err := split(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if _, _, incomplete := r.Unverified(); incomplete || r.Mismatches() != 0 {
			t.Errorf("verification: %d rows differ, incomplete: %v", r.Mismatches(), incomplete)
		}
	}
	equal()
	t.Logf("%d values were added", next-50)

	stops := func(what, want string, before, after []string) {
		t.Helper()
		sqlExec(t, p.source, before...)
		_, err := split(t.Context(), func(o *copier.Options) { o.Verify = false }, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
		sqlExec(t, p.source, after...)
	}
	stops("another target between runs", `assigns the value "7" to shard 1, and rows were copied when it was shard 0`, []string{"UPDATE shards SET shard = 1 WHERE customer = 7"}, []string{"UPDATE shards SET shard = 0 WHERE customer = 7"})
	stops("a removed value", `no longer has the value "8"`, []string{"DELETE FROM shards WHERE customer = 8"}, []string{"INSERT INTO shards VALUES (8, 1)"})
	stops("a row without a target", `a row has the value "EU", which the lookup table lookup.regions assigns to no shard`, []string{"INSERT INTO n VALUES (7000, 'EU')"}, []string{"INSERT INTO regions VALUES ('x', 0)"})
	stops("a deleted row without a target", `a row has the value "EU"`, []string{"DELETE FROM n WHERE id = 7000"},
		[]string{"ALTER TABLE regions CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "INSERT INTO regions VALUES ('EU', 2)"})
	stops("no such target", "there are the shards 0 to 2", []string{"INSERT INTO shards VALUES (9999, 3)"}, []string{"DELETE FROM shards WHERE customer = 9999"})
	stops("a value twice", `has the value NULL twice`, []string{"INSERT INTO shards VALUES (NULL, 1)"}, []string{"DELETE FROM shards WHERE customer IS NULL AND shard = 1"})
	stops("three columns", "a lookup table has two", []string{"ALTER TABLE shards ADD COLUMN c INT"}, []string{"ALTER TABLE shards DROP COLUMN c"})
	stops("another type", "both are to be integers without ZEROFILL", []string{"ALTER TABLE shards MODIFY customer VARCHAR(10)"}, []string{"ALTER TABLE shards MODIFY customer BIGINT"})
	if _, err := split(t.Context(), nil, nil); err != nil { // with the values that were added
		t.Fatal(err)
	}
	equal()

	// A change during a run is found at its end, and under the locks of a handover. The next run has it undone.
	var once sync.Once
	_, err = split(t.Context(), func(o *copier.Options) { o.Verify = false }, func(e telemetry.Event) {
		if e.Kind == telemetry.EventSnapshot {
			once.Do(func() {
				if err := p.from.Exec("UPDATE lookup.shards SET shard = 1 WHERE customer = 7"); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if !errors.Is(err, tabledef.ErrLookupChanged) {
		t.Errorf("changed during a run: %v", err)
	}
	sqlExec(t, p.source, "UPDATE shards SET shard = 0 WHERE customer = 7")
	for _, change := range []bool{true, false} {
		parts := lookupOptions(t, p)
		for i := range parts {
			parts[i].UntilCaughtUp = false
		}
		var once sync.Once
		s, err := copier.NewSplit(parts, "", func(e telemetry.Event) {
			if change && e.Kind == telemetry.EventSnapshot {
				once.Do(func() {
					if err := p.from.Exec("UPDATE lookup.shards SET shard = 1 WHERE customer = 7"); err != nil {
						t.Error(err)
					}
				})
			}
		})
		if err == nil {
			err = s.HandOver(cutover.HandoverOptions{Source: root(p.from), Lag: testwait.Limit, MaxPause: testwait.Limit / 4, Tries: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Run(t.Context())
		if changed := errors.Is(err, tabledef.ErrLookupChanged); changed != change || err != nil && !changed {
			t.Errorf("a handover, changed: %v: %v", change, err)
		}
		sqlExec(t, p.source, "UPDATE shards SET shard = 0 WHERE customer = 7")
	}
	equal()
}
