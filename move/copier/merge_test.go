package copier_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// mergeServers are two sources and a target.
type mergeServers struct {
	*pair
	second *testmysql.Server
	other  *mysqlconn.Client // to second
}

func newMergeServers(t *testing.T) *mergeServers {
	t.Helper()
	m := &mergeServers{pair: newPair(t, "merge"), second: testmysql.Start(t, testmysql.WithBinlog())}
	m.other = connect(t, root(m.second))
	sqlExec(t, m.other, "DROP DATABASE IF EXISTS merge", "CREATE DATABASE merge", "USE merge")
	return m
}

// both executes statements on both sources.
func (m *mergeServers) both(t *testing.T, statements ...string) {
	t.Helper()
	sqlExec(t, m.source, statements...)
	sqlExec(t, m.other, statements...)
}

// names returns the addresses of the sources.
func (m *mergeServers) names() []string { return []string{m.from.Addr, m.second.Addr} }

// parts returns the options of the parts for tables with clauses such as "h: hash(tenant)".
func (m *mergeServers) parts(t *testing.T, clauses ...string) []copier.Options {
	t.Helper()
	specs := make([][]tabledef.Spec, 2)
	for i := range specs {
		for _, clause := range clauses {
			name, _, _ := strings.Cut(clause, ":")
			specs[i] = append(specs[i], tabledef.Spec{Schema: "merge", Name: name})
		}
	}
	for _, clause := range clauses {
		if err := tabledef.AddMerge(specs, m.names(), "merge."+clause); err != nil {
			t.Fatal(err)
		}
	}
	parts := make([]copier.Options, 2)
	for i := range parts {
		parts[i] = m.options()
		parts[i].From = copier.FromServer(root([]*testmysql.Server{m.from, m.second}[i]))
		o := &parts[i]
		o.Tables, o.Workers, o.ChunkBytes = specs[i], 2, 1<<10
		o.Follow, o.UntilCaughtUp, o.Verify, o.Patience = true, true, true, testwait.Limit
	}
	return parts
}

// run merges.
func (m *mergeServers) run(ctx context.Context, parts []copier.Options, observe func(telemetry.Event)) ([]*copier.Report, error) {
	s, err := copier.NewMerge(parts, m.names(), "", observe)
	if err != nil {
		return nil, err
	}
	return s.Run(ctx)
}

// refused fails the test unless both the plan of a merge and its run fail with an error that contains all texts.
func (m *mergeServers) refused(t *testing.T, parts []copier.Options, texts ...string) {
	t.Helper()
	_, planned := copier.PlanMerge(t.Context(), parts, m.names())
	_, ran := m.run(t.Context(), parts, nil)
	for _, err := range []error{planned, ran} {
		for _, want := range texts {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in the error %v", want, err)
			}
		}
	}
}

// union fails the test unless a table in the target has the rows of both sources.
func (m *mergeServers) union(t *testing.T, table string) {
	t.Helper()
	rows := append(read(t, m.source, "SELECT * FROM "+table), read(t, m.other, "SELECT * FROM "+table)...)
	got := read(t, m.target, "SELECT * FROM merge."+table)
	slices.Sort(rows)
	slices.Sort(got)
	if d := cmp.Diff(rows, got); d != "" {
		t.Errorf("%s (- sources, + target)\n%s", table, d)
	}
}

// ownedBy returns numbers whose hash gives them to a source of two.
func ownedBy(source int) (all []int) {
	for n := 1; len(all) < 20; n++ {
		if int(crc32.ChecksumIEEE([]byte(strconv.Itoa(n)))%2) == source {
			all = append(all, n)
		}
	}
	return all
}

// mergeTxns returns transactions on one of the sources. Ids and emails have the parity of the source. They change keys, exchange unique values
// and give those of deleted rows to others.
func mergeTxns(seed uint64, source, n int) (all []followTxn) {
	rnd := newRand(seed)
	owned := ownedBy(source)
	id := func() int { return 2*rnd.IntN(100) + source }
	customer := func() int { return owned[rnd.IntN(len(owned))] }
	day := func() string { return fmt.Sprintf("2026-0%d-%02d", 1+source, 1+rnd.IntN(28)) }
	for range n {
		a, b := id(), id()
		all = append(all, followTxn{
			fmt.Sprintf("REPLACE INTO h VALUES (%d, %d, 'again')", customer(), rnd.IntN(20)),
			fmt.Sprintf("UPDATE h SET tenant = %d WHERE tenant = %d LIMIT 1", customer(), customer()),
			fmt.Sprintf("UPDATE u SET email = 'moving %d' WHERE id = %d", source, a),
			fmt.Sprintf("UPDATE u SET email = '%d', customer = %d WHERE id = %d", a, customer(), b),
			fmt.Sprintf("UPDATE u SET email = '%d' WHERE id = %d", b, a),
			fmt.Sprintf("UPDATE u SET id = id + 1000 WHERE id = %d", id()),
			fmt.Sprintf("DELETE FROM u WHERE id = %d", id()),
			fmt.Sprintf("REPLACE INTO u VALUES (%d, %d, NULLIF('%d', '%d'))", id(), customer(), id(), source),
			fmt.Sprintf("REPLACE INTO l VALUES (%d, %d, %d)", id(), customer(), rnd.IntN(100)),
			fmt.Sprintf("UPDATE l SET id = %d WHERE id = %d", id(), id()),
			fmt.Sprintf("DELETE FROM l WHERE id = %d", id()),
			fmt.Sprintf("REPLACE INTO r VALUES ('%s', %d)", day(), rnd.IntN(10)),
			fmt.Sprintf("UPDATE r SET at = '%s' WHERE at = '%s' LIMIT 1", day(), day()),
		})
	}
	return all
}

// TestMerge merges tables of two sources while transactions change them, interrupts the merge at events of one of its parts, and resumes
// it. In the end the target has the rows of both. Of the tables h and r each unique key has the clause's column; of l and u none has.
func TestMerge(t *testing.T) {
	seed := testseed.New(t)
	rnd := newRand(seed)
	m := newMergeServers(t)
	m.both(t, "CREATE TABLE h (tenant BIGINT NOT NULL, id INT NOT NULL, note VARCHAR(20), PRIMARY KEY (tenant, id))",
		"CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, customer BIGINT NOT NULL, email VARCHAR(20), UNIQUE KEY email (email), KEY customer (customer))",
		"CREATE TABLE l (id INT PRIMARY KEY, customer BIGINT NOT NULL, v INT)", "CREATE TABLE r (at DATE NOT NULL, id INT NOT NULL, PRIMARY KEY (at, id))")
	for i := range 2 {
		if err := play(t.Context(), root([]*testmysql.Server{m.from, m.second}[i]), "merge", mergeTxns(seed+uint64(i), i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	sqlExec(t, m.other, "ALTER TABLE u AUTO_INCREMENT = 5000")
	clauses := []string{"h: hash(tenant)", "u: hash(customer)", "l: hash(customer)", "r: range(at, '2026-02-01')"}
	runs := 6
	if testing.Short() {
		runs = 3
	}
	for i := range runs {
		ctx, cancel := context.WithCancel(t.Context())
		last := i == runs-1
		var mu sync.Mutex
		var playing sync.WaitGroup
		var playErr [2]error
		begun, caughtUp, n, at := false, 0, 0, 1+rnd.IntN(80)
		observe := func(e telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == telemetry.EventSnapshot && !begun {
				begun = true
				for j, server := range []*testmysql.Server{m.from, m.second} {
					playing.Go(func() {
						playErr[j] = play(t.Context(), root(server), "merge", mergeTxns(seed+uint64(100+2*i+j), j, 40))
					})
				}
			}
			if e.Kind == telemetry.EventCaughtUp && e.From == "" {
				caughtUp++
			}
			if n++; n == at && !last {
				cancel()
			}
		}
		reports, err := runSplit(t, func() ([]*copier.Report, error) { return m.run(ctx, m.parts(t, clauses...), observe) })
		cancel()
		testwait.Group(t, "the writers to finish", &playing)
		if err := errors.Join(playErr[:]...); err != nil {
			t.Fatal(err)
		}
		if err != nil && (last || !errors.Is(err, context.Canceled)) {
			t.Fatal(err)
		}
		if last && (caughtUp != 1 || len(reports) != 2) {
			t.Errorf("the target has caught up with all sources %d times; %d reports", caughtUp, len(reports))
		}
	}
	// The writers have ended: each part catches up with its source.
	reports, err := m.run(t.Context(), m.parts(t, clauses...), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if _, _, incomplete := r.Unverified(); incomplete || r.Mismatches() != 0 {
			t.Errorf("verification: %d rows differ, incomplete: %v", r.Mismatches(), incomplete)
		}
	}
	for _, table := range []string{"h", "u", "l", "r"} {
		m.union(t, table)
	}
	if got := read(t, m.target, "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'merge' AND TABLE_NAME = 'u'"); len(got) != 1 || got[0] != `["5000"]` {
		t.Errorf("AUTO_INCREMENT is %v", got)
	}
	// Rows of the target that no source has, and rows that differ, are found.
	sqlExec(t, m.target, "INSERT INTO merge.h VALUES (1, 777, 'extra'), (2, 777, 'extra')", "DELETE FROM merge.l ORDER BY id LIMIT 1")
	if reports, err = m.run(t.Context(), m.parts(t, clauses...), nil); err != nil {
		t.Fatal(err)
	}
	var extra, missing int64
	for _, r := range reports {
		for i := range r.Tables {
			extra, missing = extra+r.Tables[i].Verify.Extra, missing+r.Tables[i].Verify.Missing
		}
	}
	if extra != 2 || missing != 1 {
		t.Errorf("%d rows are only in the target and %d only in a source", extra, missing)
	}
}

// TestMergeConflict merges rows that have the same key on both sources.
func TestMergeConflict(t *testing.T) {
	m := newMergeServers(t)
	a, b := ownedBy(0), ownedBy(1)
	m.both(t, "CREATE TABLE l (id INT PRIMARY KEY, customer BIGINT NOT NULL)", "CREATE TABLE u (id INT PRIMARY KEY, customer BIGINT NOT NULL, email VARCHAR(20) COLLATE utf8mb4_general_ci UNIQUE)")
	sqlExec(t, m.source, fmt.Sprintf("INSERT INTO l VALUES (1, %d), (2, %d)", a[0], a[1]), fmt.Sprintf("INSERT INTO u VALUES (1, %d, 'ann'), (3, %d, NULL)", a[0], a[1]))
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO l VALUES (2, %d), (3, %d)", b[0], b[1]), fmt.Sprintf("INSERT INTO u VALUES (2, %d, 'ANN'), (4, %d, NULL)", b[0], b[1]))
	// impatient runs the merge until it has met a conflict. The patience, for which a conflict is awaited, is also that for the servers: on a busy
	// machine a short one may end the merge first.
	impatient := func(parts []copier.Options) error {
		for patience := time.Second; ; patience *= 2 {
			for i := range parts {
				parts[i].Patience = patience
			}
			_, err := m.run(t.Context(), parts, nil)
			var e *tabledef.ConflictError
			if err == nil || errors.As(err, &e) || patience > testwait.Limit/8 {
				return err
			}
			t.Logf("with a patience of %v: %v", patience, err)
		}
	}
	conflict := func(parts []copier.Options, table, key string) {
		t.Helper()
		err := impatient(parts)
		var e *tabledef.ConflictError
		if !errors.As(err, &e) || e.Table != table || !strings.Contains(e.Error(), "'"+key+"' for key") {
			t.Fatalf("no conflict of %s by %s: %v", table, key, err)
		}
		names := []string{e.Source, e.Other}
		slices.Sort(names)
		if want := []string{"source 1 (" + m.from.Addr + ")", "source 2 (" + m.second.Addr + ")"}; !slices.Equal(names, want) {
			t.Errorf("conflict of %v", names)
		}
	}
	conflict(m.parts(t, "l: hash(customer)"), "merge.l", "2")
	sqlExec(t, m.other, "UPDATE l SET id = 4 WHERE id = 2")
	both := m.parts(t, "l: hash(customer)", "u: hash(customer)")
	for i := range both {
		both[i].Restart = true
	}
	err := impatient(both)
	if err == nil || !strings.Contains(err.Error(), "for key 'email'") || !strings.Contains(err.Error(), "source 1 (") {
		t.Fatalf("no conflict of emails: %v", err)
	}
	sqlExec(t, m.other, "UPDATE u SET email = 'bob' WHERE id = 2")
	for i := range both {
		both[i].Restart, both[i].Patience = false, testwait.Limit
	}
	if _, err := m.run(t.Context(), both, nil); err != nil {
		t.Fatal(err)
	}
	m.union(t, "l")
	m.union(t, "u")

	// While changes are followed, a row that was moved is awaited.
	for i := range both {
		both[i].UntilCaughtUp, both[i].Verify = false, false
	}
	all := make(chan struct{})
	var once sync.Once
	s, err := copier.NewMerge(both, m.names(), "", func(e telemetry.Event) {
		if e.Kind == telemetry.EventCaughtUp && e.From == "" {
			once.Do(func() { close(all) })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context())
		ended <- err
	}()
	testwait.Receive(t, "the target to catch up with all sources", all)
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO l VALUES (1, %d)", b[2]), fmt.Sprintf("INSERT INTO u VALUES (9, %d, 'Ann')", b[2]))
	testwait.Until(t, "the conflict to be awaited", func() bool {
		return slices.ContainsFunc(s.Status().Waits, func(w telemetry.WaitStatus) bool { return strings.Contains(w.For, "the same unique key") })
	})
	sqlExec(t, m.source, "DELETE FROM l WHERE id = 1", "UPDATE u SET email = 'other' WHERE id = 1")
	testwait.Until(t, "the moved rows to arrive", func() bool {
		return len(read(t, m.target, fmt.Sprintf("SELECT 1 FROM merge.l JOIN merge.u WHERE l.id = 1 AND l.customer = %d AND u.id = 9", b[2]))) == 1
	})
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := testwait.Receive(t, "the merge to end", ended); err != nil {
		t.Fatal(err)
	}
	m.union(t, "l")
	m.union(t, "u")

	// A row that stays ends the merge, and nothing of the other source is lost.
	both = m.parts(t, "l: hash(customer)", "u: hash(customer)")
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO u VALUES (10, %d, 'OTHER')", b[3]))
	conflict(both, "merge.u", "OTHER")
	if got := read(t, m.target, "SELECT COUNT(*) FROM merge.u WHERE email = 'other' AND id = 1"); got[0] != `["1"]` {
		t.Errorf("rows of the first source: %v", got)
	}
}

// TestMergeRefused checks what a merge and its dry run refuse, and that no other copy takes the merged target for its own.
func TestMergeRefused(t *testing.T) {
	m := newMergeServers(t)
	a, b := ownedBy(0), ownedBy(1)
	m.both(t, "CREATE TABLE l (id INT PRIMARY KEY, customer BIGINT NOT NULL)", "CREATE TABLE f (id FLOAT PRIMARY KEY, v INT)",
		"CREATE TABLE pre (id INT, customer INT, name VARCHAR(20), PRIMARY KEY (id), UNIQUE KEY name (name(3)))",
		"CREATE TABLE fk (id INT PRIMARY KEY, l INT, FOREIGN KEY (l) REFERENCES l (id))", "CREATE TABLE d (id INT PRIMARY KEY, v INT)")
	sqlExec(t, m.other, "ALTER TABLE d ADD INDEX v (v)")
	sqlExec(t, m.source, fmt.Sprintf("INSERT INTO l VALUES (1, %d)", a[0]))
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO l VALUES (2, %d), (3, %d)", b[0], a[1]))
	m.refused(t, m.parts(t, "l: hash(customer)"), "source 2 ("+m.second.Addr+") has a row with id = \"3\"", "belongs to source 1 ("+m.from.Addr+")", "merge into merge.l")
	sqlExec(t, m.other, "DELETE FROM l WHERE id = 3")
	m.refused(t, m.parts(t, "f: hash(id)"), "equal values may differ in their bytes")
	m.refused(t, m.parts(t, "pre: hash(customer)"), "unique key (id) does not have the column", "(name(3)) is not", "whole stored columns")
	m.refused(t, m.parts(t, "pre: hash(missing)"), "no stored column missing")
	m.refused(t, m.parts(t, "fk: hash(id)"), "foreign keys")
	m.refused(t, m.parts(t, "d: hash(id)"), "defined differently", "KEY `v` (`v`)")

	parts := m.parts(t, "l: hash(customer)")
	for want, change := range map[string]func(*copier.Options){
		"no cutover": func(o *copier.Options) { o.Cutover = &cutover.Options{} },
		"no lookup tables": func(o *copier.Options) {
			o.Tables[0].Lookup = &tabledef.Lookup{Column: "customer", Schema: "merge", Table: "d", Count: 2}
		},
		"has owners": func(o *copier.Options) { o.Tables[0].Owner = nil },
		"follows":    func(o *copier.Options) { o.Follow = false },
	} {
		unfit := m.parts(t, "l: hash(customer)")
		change(&unfit[1])
		m.refused(t, unfit, want)
	}
	s, err := copier.NewMerge(parts, m.names(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.HandOver(cutover.HandoverOptions{Source: root(m.from)}); err == nil || !strings.Contains(err.Error(), "a merge has no handover") {
		t.Errorf("a handover: %v", err)
	}
	if _, err := m.run(t.Context(), parts, nil); err != nil {
		t.Fatal(err)
	}
	m.union(t, "l")
	jobs, err := state.Jobs(t.Context(), connect(t, root(m.to)), "")
	var targets []string
	for _, j := range jobs {
		targets = append(targets, j.Target)
	}
	if slices.Sort(targets); err != nil || !slices.Contains(targets, "merge.l from source 1") || !slices.Contains(targets, "merge.l from source 2") {
		t.Errorf("jobs: %v, %v", targets, err)
	}
	swapped := []copier.Options{parts[0], parts[1]}
	swapped[0].From, swapped[1].From = swapped[1].From, swapped[0].From
	m.refused(t, swapped, "copy from ") // by its log, or by the rows
	single := m.options("l")
	if _, err := copier.Run(t.Context(), single); err == nil || !strings.Contains(err.Error(), "it has rows already") {
		t.Errorf("a copy of one source to the merged table: %v", err)
	}
	single.Restart = true // the rows are those of copies
	if _, err := copier.Run(t.Context(), single); err != nil {
		t.Fatal(err)
	}
	m.refused(t, m.parts(t, "l: hash(customer)"), "it has rows already")
	parts = m.parts(t, "l: hash(customer)")
	for i := range parts {
		parts[i].Restart = true
	}
	if _, err := m.run(t.Context(), parts, nil); err != nil {
		t.Fatal(err)
	}
	m.union(t, "l")

	// A change that gives a row to another source ends following, and so does another definition.
	parts = m.parts(t, "l: hash(customer)")
	sqlExec(t, m.other, fmt.Sprintf("UPDATE l SET customer = %d WHERE id = 2", a[3]))
	if _, err := m.run(t.Context(), parts, nil); err == nil || !strings.Contains(err.Error(), "belongs to source 1 (") {
		t.Errorf("a row of another source: %v", err)
	}
	if got := read(t, m.target, "SELECT * FROM merge.l WHERE id = 2"); len(got) != 1 || got[0] != fmt.Sprintf("[%q %q]", "2", strconv.Itoa(b[0])) {
		t.Errorf("row 2: %v", got)
	}
}

// TestMergeOwners compares the check of rows in Go with the conditions in SQL for random values of many types: each value has exactly one owner.
func TestMergeOwners(t *testing.T) {
	seed := testseed.New(t)
	rnd := newRand(seed)
	p := newPair(t, "merge")
	sqlExec(t, p.target, "CREATE DATABASE merge", "USE merge")
	for number, c := range []struct{ column, clause, value string }{
		{"INT", "hash(c)", "RAND() * 4e9 - 2e9"},
		{"BIGINT UNSIGNED", "range(c, 1000, 9223372036854775808)", "IF(RAND() < 0.5, RAND() * 2000, 9223372036854775800 + RAND() * 16)"},
		{"DECIMAL(12,3)", "hash(c)", "RAND() * 2000 - 1000"},
		{"DECIMAL(12,3)", "range(c, -10.5, 10.500)", "ROUND(RAND() * 60 - 30)"},
		{"DATETIME(3)", "hash(c)", "'2026-01-01' + INTERVAL RAND() * 1e6 SECOND"},
		{"DATETIME(3)", "range(c, '2026-01-05', '2026-01-09 12:00:00')", "'2026-01-01' + INTERVAL ROUND(RAND() * 24) * 43200 SECOND"},
		{"TIMESTAMP NULL", "range(c, '2026-01-05', '2026-01-09 12:00:00')", "'2026-01-01' + INTERVAL ROUND(RAND() * 24) * 43200 SECOND"},
		{"DATE", "hash(c)", "'2026-01-01' + INTERVAL RAND() * 1000 DAY"},
		{"TIME", "hash(c)", "SEC_TO_TIME(RAND() * 1e6 - 5e5)"},
		{"VARBINARY(20)", "hash(c)", "RANDOM_BYTES(1 + RAND() * 19)"},
		{"VARBINARY(20)", "range(c, 'G', 'g')", "CHAR(RAND() * 255)"},
		{"VARCHAR(20) CHARACTER SET utf8mb4", "hash(c)", "CONCAT(CHAR(0xc384 USING utf8mb4), RAND())"},
		{"CHAR(20) CHARACTER SET latin1", "hash(c)", "CONCAT(CHAR(0xe4 USING latin1), RAND())"},
		{"BIT(12)", "hash(c)", "RAND() * 4095"},
		{"YEAR", "hash(c)", "1950 + RAND() * 100"},
		{"ENUM('a', 'b', 'c', 'd')", "hash(c)", "1 + RAND() * 3"},
	} {
		table := fmt.Sprintf("t%d", number)
		sqlExec(t, p.target, fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, c %s)", table, c.column),
			fmt.Sprintf("SET @@rand_seed1 = %d, @@rand_seed2 = %d", rnd.IntN(1<<30), rnd.IntN(1<<30)),
			fmt.Sprintf("INSERT IGNORE INTO %s SELECT seq, IF(seq %% 9, %s, NULL) FROM seq_1_to_200", table, c.value))
		specs := make([][]tabledef.Spec, 3)
		for i := range specs {
			specs[i] = []tabledef.Spec{{Schema: "merge", Name: table, ToSchema: "merge", ToName: table}}
		}
		if err := tabledef.AddMerge(specs, []string{"a", "b", "c"}, "merge."+table+": "+c.clause); err != nil {
			t.Fatal(err)
		}
		source, err := copier.FromServer(root(p.to))(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for i := range specs {
			described, err := tabledef.Describe(t.Context(), source, p.target, tabledef.DescribeOptions{Follow: true}, &specs[i][0])
			if err != nil {
				t.Fatal(err)
			}
			owned := ownedIDs(t, source, described)
			total += len(owned)
			if d := cmp.Diff(read(t, p.target, "SELECT id FROM "+table+" WHERE "+described.Target.Owned.Condition()+" ORDER BY id"), owned); d != "" {
				t.Errorf("%s %s: rows of source %d (- in SQL, + in Go)\n%s", c.column, c.clause, i+1, d)
			}
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
		if total != 200 {
			t.Errorf("%s %s: %d of 200 rows have an owner", c.column, c.clause, total)
		}
	}
}

// ownedIDs returns the ids of the rows of a table that pass the check.
func ownedIDs(t *testing.T, source binlog.Follower, described *tabledef.Table) (ids []string) {
	t.Helper()
	view, err := source.Snapshot(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }() // read-only
	var row mysqlwire.TextRow
	for b, err := range view.Reader(0).Read(t.Context(), described.Source, rowstream.Chunk{}, rowstream.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b.Bytes); {
			if at, err = b.Row(at, &row); err != nil {
				t.Fatal(err)
			}
			if described.Target.Owned.Check(row) == nil {
				ids = append(ids, fmt.Sprintf("[%q]", row[0]))
			}
		}
	}
	return ids
}
