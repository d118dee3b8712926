package copier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// unloggedProducts are servers that do not log the actions of foreign keys.
var unloggedProducts = map[string]func(*testing.T) *testmysql.Server{
	"MariaDB": sharedMariaDB,
	"MySQL": func(t *testing.T) *testmysql.Server {
		t.Helper()
		server, err := testmysql.New(testmysql.WithMySQL(), testmysql.WithBinlog(), testmysql.WithArgs("--innodb-native-foreign-keys=ON"))
		if errors.Is(err, testmysql.ErrNoMySQL) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		return server
	},
}

// derivedTables have foreign keys whose changes are derived: with several columns, under a case-insensitive
// collation, and to the table itself.
var derivedTables = []string{
	"CREATE TABLE tree (id INT PRIMARY KEY, up INT, CONSTRAINT tree_up FOREIGN KEY (up) REFERENCES tree (id) ON DELETE SET NULL)",
	"CREATE TABLE p (a INT, b VARCHAR(20) CHARACTER SET utf8mb4, PRIMARY KEY (a, b))",
	"CREATE TABLE c (id INT PRIMARY KEY, x INT, y VARCHAR(20) CHARACTER SET utf8mb4, t INT, n INT, at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY x (x, y), UNIQUE KEY n (n), " +
		"CONSTRAINT c_p FOREIGN KEY (x, y) REFERENCES p (a, b) ON DELETE CASCADE ON UPDATE CASCADE, " +
		"CONSTRAINT c_tree FOREIGN KEY (t) REFERENCES tree (id) ON DELETE SET NULL)",
}

// derivedSQL returns a random transaction whose foreign keys change rows of other tables. Its statements may
// fail.
func derivedSQL(rnd *rand.Rand) []string {
	id := func() int { return rnd.IntN(30) }
	in := func() string { return fmt.Sprintf("(%d, %d, %d, %d)", id(), id(), id(), id()) }
	p := []string{"p", "P"}[rnd.IntN(2)]
	switch rnd.IntN(12) {
	case 0, 1:
		return []string{fmt.Sprintf("INSERT IGNORE INTO p VALUES (%d, '%s'), (%d, 'p')", id(), p, id())}
	case 2:
		return []string{"DELETE FROM p WHERE a IN " + in()}
	case 3: // children and their parent are inserted again
		a := id()
		return []string{fmt.Sprintf("REPLACE INTO p VALUES (%d, '%s')", a, p), fmt.Sprintf("INSERT INTO c (id, x, y, n) VALUES (%d, %d, 'p', NULL)", id(), a)}
	case 4:
		return []string{fmt.Sprintf("INSERT IGNORE INTO c (id, x, y, t) SELECT %d * 1000 + 30 * p.a + tree.id, p.a, p.b, tree.id FROM p LEFT JOIN tree ON tree.id > %d LIMIT 40", id(), id())}
	case 5, 6:
		return []string{fmt.Sprintf("INSERT IGNORE INTO c (id, x, y, t, n) VALUES (%d, %d, '%s', %d, %d), (%d, %d, 'p', %d, NULL)", id()*10+id(), id(), p, id(), id(), id()*10, id(), id())}
	case 7: // children move to another parent
		return []string{fmt.Sprintf("UPDATE IGNORE c SET x = %d, y = 'p' WHERE id %% 7 = %d", id(), rnd.IntN(7)), fmt.Sprintf("UPDATE IGNORE c SET t = %d WHERE id %% 7 = %d", id(), rnd.IntN(7))}
	case 8:
		return []string{fmt.Sprintf("INSERT IGNORE INTO tree VALUES (%d, NULL), (%d, %d)", id(), id(), id())}
	case 9:
		return []string{"DELETE FROM tree WHERE id IN " + in()}
	case 10: // keys have no actions
		a := id()
		return []string{"SET foreign_key_checks = 0", fmt.Sprintf("REPLACE INTO tree SELECT id, NULL FROM tree WHERE id = %d", a), fmt.Sprintf("REPLACE INTO p SELECT * FROM p WHERE a = %d", a), fmt.Sprintf("DELETE FROM c WHERE x = %d", id()), "SET foreign_key_checks = 1"}
	default: // deleted and inserted again in one transaction
		a := id()
		return []string{fmt.Sprintf("DELETE FROM tree WHERE id = %d", a), fmt.Sprintf("INSERT INTO tree VALUES (%d, NULL)", a), fmt.Sprintf("UPDATE IGNORE c SET t = %d WHERE id %% 5 = %d", a, rnd.IntN(5))}
	}
}

// writeDerived executes random transactions.
func writeDerived(ctx context.Context, c *mysqlconn.Client, rnd *rand.Rand, transactions int) error {
	for range transactions {
		statements := append([]string{"BEGIN"}, derivedSQL(rnd)...)
		end := "COMMIT"
		if rnd.IntN(8) == 0 {
			end = "ROLLBACK"
		}
		for _, sql := range append(statements, end) {
			_, err := c.Exec(ctx, sql)
			if refused := new(mysqlconn.ServerError); err != nil && !errors.As(err, &refused) {
				return err
			}
		}
	}
	return nil
}

// TestDeriveCascades follows tables whose keys change rows while clients write, with kills, on servers that
// do not log these changes.
func TestDeriveCascades(t *testing.T) {
	onServers(t, "fk", unloggedProducts, func(t *testing.T, p *pair) {
		if logsCascades(t, p.source) {
			t.Fatal("the server logs what foreign keys do")
		}
		rnd := testseed.Rand(t)
		sqlExec(t, p.source, derivedTables...)
		if err := writeDerived(t.Context(), p.source, rnd, 100); err != nil {
			t.Fatal(err)
		}
		tables := []string{"c", "tree", "p"}
		options := func() copier.Options {
			o := p.into("copied", tables...)
			o.Follow, o.UntilCaughtUp, o.Patience, o.ChunkBytes, o.Workers = true, true, 20*time.Second, 1024, 1+rnd.IntN(3)
			return o
		}
		if _, err := copier.Plan(t.Context(), options()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			o := options()
			var events atomic.Int64
			at := int64(2 + rnd.IntN(16))
			o.Observe = func(telemetry.Event) {
				if events.Add(1) == at {
					cancel()
				}
			}
			o.Workers = 1
			writes := rand.New(rand.NewPCG(rnd.Uint64(), 0))
			written := make(chan error, 1)
			go func() { written <- writeDerived(t.Context(), p.source, writes, 80) }()
			_, _ = copier.Run(ctx, o) // it may stop anywhere
			cancel()
			if err := testwait.Receive(t, "the clients to have written", written); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeDerived(t.Context(), p.source, rnd, 100); err != nil {
			t.Fatal(err)
		}
		o := options()
		o.Verify = true
		report, err := runAfter(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Follow.Deletes+report.Follow.Updates == 0 {
			t.Errorf("nothing was followed: %+v", report.Follow)
		}
		p.sameKeys(t, tables)
		if err := writeDerived(t.Context(), p.source, rnd, 300); err != nil { // with the keys in the target
			t.Fatal(err)
		}
		sqlExec(t, p.source, "SET foreign_key_checks = 1", "INSERT INTO tree VALUES (900, NULL)", "INSERT INTO p VALUES (900, 'p'), (901, 'p')",
			"INSERT INTO c (id, x, y, t) VALUES (90000, 900, 'P', 900), (90001, 901, 'p', 900)", "DELETE FROM tree WHERE id = 900", "DELETE FROM p WHERE a = 901")
		if _, err := copier.Run(t.Context(), options()); err != nil {
			t.Fatal(err)
		}
		p.sameKeys(t, tables)
		if rows := read(t, p.target, "SELECT id, t FROM copied.c WHERE id >= 90000"); len(rows) != 1 || !strings.HasPrefix(rows[0], `["90000" `) || strings.Contains(rows[0], "900\"]") {
			t.Errorf("rows that a key deleted, or changed, are left: %v", rows)
		}
	})
}

// TestUnderivable checks that the copy refuses or stops at changes by foreign keys that cannot be derived.
func TestUnderivable(t *testing.T) {
	onServers(t, "fk", unloggedProducts, func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT c_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
			"CREATE TABLE g (id INT PRIMARY KEY, c INT, CONSTRAINT g_c FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE)", "INSERT INTO p VALUES (1), (2), (3)", "INSERT INTO c VALUES (1, 1), (2, 2)")
		options := func(tables ...string) copier.Options {
			o := p.into("copied", tables...)
			o.Follow, o.UntilCaughtUp, o.Patience = true, true, 20*time.Second
			return o
		}
		sqlExec(t, p.target, "CREATE TABLE p (id INT PRIMARY KEY)")
		for want, o := range map[string]copier.Options{
			"fk.p, which it refers to, is not followed":                     options("c"),
			"a row that it deletes makes g_c of fk.g change others":         options("c", "p", "g"),
			"fk.c is copied in part":                                        func() copier.Options { o := options("c", "p"); o.Tables[0].Where = "id > 1"; return o }(),
			"its table computes values from columns that become NULL":       options("gen", "p"),
			"the columns that it refers to are not unique":                  options("loose", "q"),
			"it shares a column with shares_q":                              options("shares", "p", "q"),
			"column v is of the type double, whose values are not compared": options("d", "e"),
		} {
			sqlExec(t, p.source, "CREATE TABLE IF NOT EXISTS gen (id INT PRIMARY KEY, p INT, v INT AS (id + 1) VIRTUAL, CONSTRAINT gen_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)",
				"CREATE TABLE IF NOT EXISTS q (id INT PRIMARY KEY, v INT NOT NULL, w INT NOT NULL, KEY (v), UNIQUE KEY vw (v, w))", "CREATE TABLE IF NOT EXISTS d (id INT PRIMARY KEY, v DOUBLE, UNIQUE KEY (v))",
				"CREATE TABLE IF NOT EXISTS e (id INT PRIMARY KEY, v DOUBLE, CONSTRAINT e_d FOREIGN KEY (v) REFERENCES d (v) ON DELETE CASCADE)",
				"CREATE TABLE IF NOT EXISTS shares (id INT PRIMARY KEY, v INT, w INT, CONSTRAINT shares_p FOREIGN KEY (v) REFERENCES p (id) ON DELETE CASCADE, CONSTRAINT shares_q FOREIGN KEY (v, w) REFERENCES q (v, w) ON DELETE SET NULL)")
			if o.Tables[0].Name == "loose" {
				_, _ = p.source.Exec(t.Context(), "SET SESSION restrict_fk_on_non_standard_key = OFF")
				sqlExec(t, p.source, "CREATE TABLE IF NOT EXISTS loose (id INT PRIMARY KEY, v INT, CONSTRAINT loose_q FOREIGN KEY (v) REFERENCES q (v) ON DELETE CASCADE)")
			}
			if _, err := copier.Plan(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		sqlExec(t, p.target, "DROP TABLE p")
		sqlExec(t, p.source, "DROP TABLE g")
		for _, tt := range []struct{ want, sql string }{
			{"the key of a row was changed, and what the foreign key c_p of fk.c then does to its rows is not logged", "UPDATE p SET id = 30 WHERE id = 3"},
			{"a row was written with foreign_key_checks = 0", "INSERT INTO c VALUES (7, 1)"},
			{"a row was written with foreign_key_checks = 0", "UPDATE c SET p = 1 WHERE id = 2"},
			{"", "DELETE FROM c WHERE p = 2"},
			{"", "INSERT INTO c VALUES (9, NULL)"},
			{"", "INSERT INTO p VALUES (9)"},
		} {
			o := options("c", "p")
			o.Restart = true
			if _, err := copier.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			checks := "SET foreign_key_checks = 0"
			if strings.HasPrefix(tt.sql, "UPDATE p") {
				checks = "DO 0"
			}
			sqlExec(t, p.source, checks, tt.sql, "SET foreign_key_checks = 1")
			for range 2 { // it stops there again in the next run
				_, err := copier.Run(t.Context(), options("c", "p"))
				var stop *binlog.StopError
				if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &stop) || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("%s: %v, want %q", tt.sql, err, tt.want)
				}
			}
		}
	})
}
