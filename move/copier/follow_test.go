package copier_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

var followRounds = flag.Int("follow.rounds", 3, "rounds of TestFollow, each with a seed and one of the specs; every third and fourth is over a wire")

// A followTxn has the statements of a transaction. A statement may fail: random transactions cause duplicate
// keys.
type followTxn []string

// followTables are the tables of the model test: with an exact key, with a key of several
// columns, with unique values that displace other rows, and with a key under a collation that treats a and A
// as equal.
var followTables = []string{
	"CREATE TABLE a (id INT PRIMARY KEY, k INT NOT NULL, c VARCHAR(60), KEY k (k))",
	"CREATE TABLE u (id INT PRIMARY KEY, u VARCHAR(9) COLLATE utf8mb4_general_ci, n INT, UNIQUE KEY u (u), KEY n (n))",
	"CREATE TABLE c (name VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)",
	"CREATE TABLE m (x BIGINT, y VARBINARY(8), v TEXT, e ENUM('x','y','2'), f FLOAT, PRIMARY KEY (x, y))",
}

// randomTxn returns a random transaction over followTables.
func randomTxn(rnd *rand.Rand) (all followTxn) {
	id := func() int { return rnd.IntN(90) }
	name := func() string {
		const letters = "aAbBcC"
		return string(letters[rnd.IntN(6)]) + strings.Repeat("x", rnd.IntN(4)) + []string{"", "", " "}[rnd.IntN(3)]
	}
	for range 1 + rnd.IntN(4) {
		switch rnd.IntN(16) {
		case 0, 1:
			all = append(all, fmt.Sprintf("INSERT INTO a VALUES (%d, %d, 'new %d')", id(), id(), id()))
		case 2:
			all = append(all, fmt.Sprintf("UPDATE a SET k = k + 1, c = CONCAT(c, '!') WHERE id BETWEEN %d AND %d", id(), id()))
		case 3:
			all = append(all, fmt.Sprintf("UPDATE a SET id = %d WHERE id = %d", id(), id())) // across chunks
		case 4:
			all = append(all, fmt.Sprintf("DELETE FROM a WHERE id = %d", id()))
		case 5, 6:
			all = append(all, fmt.Sprintf("INSERT INTO u VALUES (%d, '%s', %d)", id(), name(), id()))
		case 7: // exchange two unique values
			x, y := id(), id()
			all = append(all,
				fmt.Sprintf("SET @x = (SELECT u FROM u WHERE id = %d), @y = (SELECT u FROM u WHERE id = %d)", x, y),
				fmt.Sprintf("UPDATE u SET u = 'tmp' WHERE id = %d", x),
				fmt.Sprintf("UPDATE u SET u = @x WHERE id = %d", y), fmt.Sprintf("UPDATE u SET u = @y WHERE id = %d", x))
		case 8:
			all = append(all, fmt.Sprintf("UPDATE u SET u = '%s', n = %d WHERE id = %d", name(), id(), id()))
		case 9:
			all = append(all, fmt.Sprintf("DELETE FROM u WHERE id = %d", id()), fmt.Sprintf("INSERT INTO u VALUES (%d, '%s', NULL)", id(), name()))
		case 10:
			all = append(all, fmt.Sprintf("INSERT INTO c VALUES ('%s', %d)", name(), id()))
		case 11:
			all = append(all, fmt.Sprintf("UPDATE c SET name = '%s' WHERE name = '%s'", name(), name())) // often equal to the server
		case 12:
			all = append(all, fmt.Sprintf("DELETE FROM c WHERE name = '%s'", name()))
		case 13:
			all = append(all, fmt.Sprintf("REPLACE INTO m VALUES (%d, x'%02x', 'v%d', %d, %d / 7)", id()%9, id(), id(), id()%4, id()))
		case 14:
			all = append(all, fmt.Sprintf("UPDATE m SET y = x'%02x' WHERE x = %d LIMIT 1", id(), id()%9))
		case 15:
			all = append(all, fmt.Sprintf("DELETE FROM m WHERE x = %d AND y > x'%02x'", id()%9, id()))
		}
	}
	return all
}

// play executes transactions over a new connection. Statements that the server refuses are ignored.
func play(ctx context.Context, cfg mysqlconn.Config, schema string, txns []followTxn) error {
	c, err := session.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	for _, txn := range append([]followTxn{{"USE " + schema}}, txns...) {
		for _, sql := range append(append(followTxn{"BEGIN"}, txn...), "COMMIT") {
			_, err := c.Exec(ctx, sql)
			var refused *mysqlconn.ServerError
			if err != nil && !errors.As(err, &refused) {
				return err
			}
		}
	}
	return nil
}

// A followSpec specifies which part of the tables is copied and how it is compared.
type followSpec struct {
	name    string
	specs   func(*pair) []tabledef.Spec
	compare map[string]string // a statement on the source, and one on the target
}

var followSpecs = []followSpec{
	{"whole", func(p *pair) []tabledef.Spec { return p.options("a", "u", "c", "m").Tables }, map[string]string{
		"SELECT *, HEX(c) FROM a ORDER BY id":       "",
		"SELECT *, HEX(u) FROM u ORDER BY id":       "",
		"SELECT *, HEX(name) FROM c ORDER BY name":  "",
		"SELECT *, e+0, f*1e0 FROM m ORDER BY x, y": "",
	}},
	{"parts", func(p *pair) []tabledef.Spec {
		return []tabledef.Spec{
			{Schema: p.schema, Name: "a", Where: "k < 50 OR k IN (60, 61)"},
			{Schema: p.schema, Name: "u", Columns: []tabledef.ColumnSpec{{From: "n", To: "number"}, {From: "id", To: "id"}}, ToName: "part"},
			{Schema: p.schema, Name: "m", Shard: rowstream.Shard{Index: 1, Count: 2}, ShardColumn: "y"},
		}
	}, map[string]string{
		"SELECT * FROM a WHERE k < 50 OR k IN (60, 61) ORDER BY id":   "SELECT * FROM a ORDER BY id",
		"SELECT id, n FROM u ORDER BY id":                             "SELECT id, number FROM part ORDER BY id",
		"SELECT *, f*1e0 FROM m WHERE CRC32(y) % 2 = 0 ORDER BY x, y": "SELECT *, f*1e0 FROM m ORDER BY x, y",
	}},
}

// TestFollow runs random transactions while tables are copied in small chunks and followed. It stops the copy
// and breaks its connections at random times and runs it again: in the end the target has the source's rows.
// A failing history is repeated with fewer transactions.
func TestFollow(t *testing.T) {
	p := newPair(t, "follow")
	for round := range uint64(*followRounds) {
		spec := followSpecs[round%uint64(len(followSpecs))]
		if p.over = nil; round%4 >= 2 {
			p.over = overTheWire(t, root(p.from), wire.Compression(round/2%2))
		}
		txns := make([]followTxn, 150)
		rnd := newRand(round)
		for i := range txns {
			txns[i] = randomTxn(rnd)
		}
		diff, err := p.followOnce(t, spec, txns, round)
		if err == nil && p.followed == 0 {
			err = errors.New("no change was followed")
		}
		p.followed = 0
		if err != nil {
			t.Fatalf("seed %d, %s: %v", round, spec.name, err)
		}
		if diff == "" {
			continue
		}
		for n := len(txns) / 2; n > 0; n /= 2 { // bisect while it still fails
			for from := 0; from+n <= len(txns); {
				fewer := append(append([]followTxn{}, txns[:from]...), txns[from+n:]...)
				d, err := p.followOnce(t, spec, fewer, round)
				if err == nil && d != "" {
					txns, diff = fewer, d
				} else {
					from += n
				}
			}
		}
		t.Fatalf("seed %d, %s: after %d transactions the target differs\n%s\n%v", round, spec.name, len(txns), diff, txns)
	}
}

// followOnce copies and follows while the transactions run, and returns the difference of the target.
func (p *pair) followOnce(t *testing.T, spec followSpec, txns []followTxn, seed uint64) (diff string, err error) {
	t.Helper()
	rnd := newRand(seed + 1000)
	sqlExec(t, p.source, "DROP DATABASE follow", "CREATE DATABASE follow", "USE follow")
	sqlExec(t, p.source, followTables...)
	sqlExec(t, p.source, "INSERT INTO a SELECT seq, seq, CONCAT('row ', seq) FROM seq_1_to_60", "INSERT INTO u SELECT seq, CONCAT('u', seq), seq FROM seq_1_to_60",
		"INSERT INTO c VALUES ('a', 1), ('B', 2), ('cx', 3)", "INSERT INTO m SELECT seq % 9, CHAR(seq), 'v', 1, 0.1 FROM seq_1_to_60", "ANALYZE TABLE a, u, c, m")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS follow", "DROP DATABASE IF EXISTS _tare", "CREATE DATABASE follow",
		"CREATE TABLE follow.part (number INT, id INT PRIMARY KEY)")

	const runs = 5
	for i := range runs { // a part of the transactions in each run, after its snapshot
		part := txns[len(txns)*i/runs : len(txns)*(i+1)/runs]
		if err := p.followRun(t, spec, part, rnd, i < runs-1 && rnd.IntN(5) > 0); err != nil {
			return "", err
		}
	}
	if err := p.followRun(t, spec, nil, rnd, false); err != nil {
		return "", err
	}
	for source, target := range spec.compare {
		if target == "" {
			target = source
		}
		sqlExec(t, p.target, "USE follow")
		want, got := read(t, p.source, source), read(t, p.target, target)
		if d := cmp.Diff(want, got); d != "" {
			diff += fmt.Sprintf("%s (- source, + target)\n%s", source, d)
		}
	}
	return diff, nil
}

// followRun executes one run until the target has caught up. Transactions are played from its snapshot on,
// and the run is disturbed after some of its events. It returns only the error of an undisturbed run.
func (p *pair) followRun(t *testing.T, spec followSpec, txns []followTxn, rnd *rand.Rand, disturb bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := p.options()
	o.Tables, o.Workers, o.ChunkBytes = spec.specs(p), 1+rnd.IntN(3), 1<<10
	o.Follow, o.UntilCaughtUp, o.Patience = true, true, testwait.Limit
	if rnd.IntN(2) == 0 {
		o.MaxViewAge, o.MayRun = shortView, pauses(rnd.Uint64())
	}
	var playing sync.WaitGroup
	var playErr error
	var mu sync.Mutex
	begun, n, at, how := false, 0, rnd.IntN(40), rnd.IntN(3)
	begin := func() {
		if !begun {
			begun = true
			playing.Go(func() { playErr = play(t.Context(), root(p.from), "follow", txns) })
		}
	}
	o.Observe = func(e telemetry.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == telemetry.EventSnapshot {
			begin()
		}
		if n++; !disturb || n != at {
			return
		}
		switch how {
		case 0:
			cancel()
		case 1:
			killCopy(t, p.source)
		case 2:
			killCopy(t, p.target)
		}
	}
	var report *copier.Report
	var err error
	if disturb {
		report, err = copier.Run(ctx, o)
	} else {
		report, err = runAfter(t, o)
	}
	mu.Lock()
	begin() // it may have taken no snapshot
	mu.Unlock()
	testwait.Group(t, "the writer to finish", &playing)
	if playErr != nil {
		return playErr
	}
	if err == nil {
		f := report.Follow
		p.followed += f.Inserts + f.Updates + f.Deletes
	}
	if disturb {
		return nil
	}
	return err
}

// shortView is the life of a view in tests that interrupt views by pauses. A busy machine needs the time to
// read through one.
const shortView = time.Second

// pauses returns a MayRun that pauses a copy at random, for longer than the life of a shortView.
func pauses(seed uint64) func() bool {
	var mu sync.Mutex
	var until time.Time
	rnd := newRand(seed)
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if rnd.IntN(60) == 0 && now.After(until) {
			until = now.Add(3 * shortView / 2)
		}
		return now.After(until)
	}
}

// killCopy kills the connections of copies to a server, which have no default schema, and waits until they
// have ended.
func killCopy(t *testing.T, c *mysqlconn.Client) {
	t.Helper()
	var killed []string
	for _, row := range read(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND DB IS NULL AND COMMAND <> 'Daemon'") {
		id := strings.Trim(row, `["]`)
		_, _ = c.Exec(t.Context(), "KILL "+id) // it may have ended already
		killed = append(killed, id)
	}
	if len(killed) == 0 {
		return
	}
	left := "SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN (" + strings.Join(killed, ", ") + ")"
	testwait.Until(t, "the killed connections to end", func() bool { return len(read(t, c, left)) == 0 })
}
