package copier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// onOneServer runs a test, on each product, that copies a schema to another one of the same server.
func onOneServer(t *testing.T, schema string, test func(t *testing.T, p *pair)) {
	onServers(t, schema, map[string]func(*testing.T) *testmysql.Server{"MariaDB": sharedMariaDB, "MySQL": servers.holdMySQL}, test)
}

func sharedMariaDB(t *testing.T) *testmysql.Server { return servers.hold(t).from }

// onServers is onOneServer with the servers that the functions return.
func onServers(t *testing.T, schema string, products map[string]func(*testing.T) *testmysql.Server, test func(t *testing.T, p *pair)) {
	testmysql.SkipIfOff(t)
	t.Parallel()
	for name, product := range products {
		t.Run(name, func(t *testing.T) {
			server := product(t)
			p := &pair{from: server, to: server, schema: schema, source: connect(t, root(server)), target: connect(t, root(server))}
			sqlExec(t, p.source, "SET GLOBAL local_infile = 1", "DROP DATABASE IF EXISTS "+schema, "CREATE DATABASE "+schema, "USE "+schema)
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS copied", "DROP DATABASE IF EXISTS _tare", "CREATE DATABASE copied", "USE copied")
			test(t, p)
		})
	}
}

// into returns options that copy the tables to another schema.
func (p *pair) into(schema string, tables ...string) copier.Options {
	o := p.options(tables...)
	for i := range o.Tables {
		o.Tables[i].ToSchema = schema
	}
	o.Heartbeat.Off = false
	return o
}

// keysOf returns the foreign keys of a table.
func keysOf(t *testing.T, c *mysqlconn.Client, schema, name string) []rowstream.ForeignKey {
	t.Helper()
	table, err := rowstream.ReadTable(t.Context(), c, schema, name)
	if err != nil {
		t.Fatal(err)
	}
	keys, _, err := rowstream.CreateForeignKeys(table.Create)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// keyTables have keys of all forms: to another table, to the table itself, in a cycle, to another schema, of
// several columns, to a table that is not copied, and with unusual names. No constraint name contains a
// backtick, which MariaDB 11.8 does not quote in SHOW CREATE TABLE.
var keyTables = []string{
	"CREATE TABLE tree (id INT PRIMARY KEY, up INT, CONSTRAINT tree_up FOREIGN KEY (up) REFERENCES tree (id) ON DELETE SET NULL)",
	"CREATE TABLE p (a INT, b VARCHAR(20) CHARACTER SET utf8mb4, PRIMARY KEY (a, b))",
	"CREATE TABLE `odd``c, (\"` (id INT PRIMARY KEY, `x)` INT, y VARCHAR(20) CHARACTER SET utf8mb4, kind INT, KEY `k y` (`x)`, y), " +
		"CONSTRAINT `to p, (` FOREIGN KEY (`x)`, y) REFERENCES p (a, b) ON DELETE CASCADE ON UPDATE CASCADE, CONSTRAINT kinds FOREIGN KEY (kind) REFERENCES kinds (id) ON UPDATE RESTRICT)",
	"CREATE TABLE one (id INT PRIMARY KEY, other INT)",
	"CREATE TABLE two (id INT PRIMARY KEY, other INT, CONSTRAINT to_one FOREIGN KEY (other) REFERENCES one (id))",
	"ALTER TABLE one ADD CONSTRAINT to_two FOREIGN KEY (other) REFERENCES two (id) ON DELETE NO ACTION",
}

const oddTable = "odd`c, (\""

// TestForeignKeys copies tables with foreign keys, in any order: in the end the keys are valid in the target.
func TestForeignKeys(t *testing.T) {
	onOneServer(t, "fk", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE kinds (id INT PRIMARY KEY)", "INSERT INTO kinds VALUES (1)")
		sqlExec(t, p.source, keyTables...)
		sqlExec(t, p.source, "SET foreign_key_checks = 0",
			"INSERT INTO tree VALUES (1, 3), (2, 1), (3, 2), (4, NULL)", "INSERT INTO p VALUES (1, 'a'), (2, 'b')",
			"INSERT INTO `odd``c, (\"` VALUES (1, 2, 'B', 1), (2, NULL, 'no', NULL), (3, 1, 'a', 1)", "INSERT INTO one VALUES (1, 2), (2, 1)", "INSERT INTO two VALUES (1, 2), (2, 1)")
		tables := []string{oddTable, "two", "one", "tree", "p"}
		_, err := copier.Run(t.Context(), p.into("copied", tables...))
		if err == nil || !strings.Contains(err.Error(), "its foreign key kinds refers to copied.kinds, which is not copied and does not exist in the target") {
			t.Fatalf("a key to nothing: %v", err)
		}
		sqlExec(t, p.target, "CREATE TABLE kinds (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY, k INT, CONSTRAINT TO_ONE FOREIGN KEY (k) REFERENCES kinds (id))")
		if _, err := copier.Run(t.Context(), p.into("copied", tables...)); err == nil || !strings.Contains(err.Error(), "has the name of one of copied.other in the target") {
			t.Fatalf("a name that is taken: %v", err)
		}
		sqlExec(t, p.target, "DROP TABLE other")

		// A run that is stopped before the keys are created, one that finds rows whose referenced rows are
		// missing, and one that resumes.
		ctx, cancel := context.WithCancel(t.Context())
		o := p.into("copied", tables...)
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventIndexes && strings.Contains(e.Text, "FOREIGN KEY") {
				cancel()
			}
		}
		if _, err := copier.Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Fatalf("the run was not stopped: %v", err)
		}
		if keys := keysOf(t, p.target, "copied", "two"); len(keys) > 0 {
			t.Fatalf("keys before all rows: %v", keys)
		}
		_, err = runAfter(t, p.into("copied", tables...))
		if want := "create the foreign key kinds of copied." + oddTable + ": 2 rows refer to no row of `copied`.`kinds`; they are listed by SELECT "; err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("a violation: %v, want %q", err, want)
		}
		_, list, _ := strings.Cut(err.Error(), "listed by ")
		list, _, _ = strings.Cut(list, ";")
		if rows := read(t, p.target, list); len(rows) != 2 {
			t.Errorf("%s: %v", list, rows)
		}
		sqlExec(t, p.target, "INSERT INTO kinds VALUES (1)")
		if _, err := copier.Run(t.Context(), p.into("copied", tables...)); err != nil {
			t.Fatal(err)
		}
		p.sameKeys(t, tables)
		if rows := read(t, p.target, "SELECT * FROM _tare.copy_foreign_key"); len(rows) > 0 {
			t.Errorf("keys are left in the state: %v", rows)
		}
		if _, err := p.target.Exec(t.Context(), "INSERT INTO two VALUES (7, 7)"); err == nil {
			t.Error("the target takes a row that violates a key")
		}

		// Again, over tables that have keys: they are dropped and created again, even if a run is stopped in
		// between.
		ctx, cancel = context.WithCancel(t.Context())
		o = p.into("copied", tables...)
		o.Restart = true
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventDone {
				cancel()
			}
		}
		if _, err := copier.Run(ctx, o); err == nil {
			t.Fatal("the run was not stopped")
		}
		o = p.into("copied", tables...)
		o.Restart = true
		if _, err := runAfter(t, o); err != nil {
			t.Fatal(err)
		}
		p.sameKeys(t, tables)
	})
}

// sameKeys fails the test unless tables have the same keys, indexes and rows in the schema copied.
func (p *pair) sameKeys(t *testing.T, tables []string) {
	t.Helper()
	for _, name := range tables {
		want, got := keysOf(t, p.source, p.schema, name), keysOf(t, p.target, "copied", name)
		for i := range got {
			want[i].Schema, got[i].Schema = "", ""
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 && name != "p" {
			t.Errorf("keys of %s: %s", name, diff)
		}
		table := session.Ident(name)
		for _, sql := range []string{"SELECT * FROM %s." + table + " ORDER BY 1", "SHOW CREATE TABLE %s." + table} {
			want, got := read(t, p.source, fmt.Sprintf(sql, p.schema)), read(t, p.target, fmt.Sprintf(sql, "copied"))
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], "`copied`.", "")
			}
			if diff := cmp.Diff(sortedKeys(want), sortedKeys(got)); diff != "" {
				t.Errorf("%s: %s", sql, diff)
			}
		}
	}
}

// cascadeSQL returns a random statement whose foreign keys change rows of other tables. It may fail.
func cascadeSQL(rnd *rand.Rand) string {
	id := func() int { return rnd.IntN(40) }
	switch rnd.IntN(9) {
	case 0, 1:
		return fmt.Sprintf("INSERT INTO p VALUES (%d, 'p')", id())
	case 2:
		return fmt.Sprintf("DELETE FROM p WHERE a = %d", id())
	case 3:
		return fmt.Sprintf("UPDATE p SET a = %d WHERE a = %d", id(), id())
	case 4, 5:
		return fmt.Sprintf("INSERT INTO c VALUES (%d, %d, 'p', %d)", id(), id(), id())
	case 6:
		return fmt.Sprintf("UPDATE c SET x = %d WHERE id = %d", id(), id())
	case 7:
		return fmt.Sprintf("INSERT INTO tree VALUES (%d, %d) ON DUPLICATE KEY UPDATE up = NULL", id(), id())
	default:
		return fmt.Sprintf("DELETE FROM tree WHERE id = %d", id())
	}
}

var cascadeTables = []string{
	"CREATE TABLE tree (id INT PRIMARY KEY, up INT, CONSTRAINT tree_up FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
	"CREATE TABLE p (a INT, b VARCHAR(20) CHARACTER SET utf8mb4, PRIMARY KEY (a, b))",
	"CREATE TABLE c (id INT PRIMARY KEY, x INT, y VARCHAR(20) CHARACTER SET utf8mb4, t INT, KEY x (x, y), CONSTRAINT c_p FOREIGN KEY (x, y) REFERENCES p (a, b) ON DELETE CASCADE ON UPDATE CASCADE, " +
		"CONSTRAINT c_tree FOREIGN KEY (t) REFERENCES tree (id) ON DELETE SET NULL)",
}

// TestFollowCascades follows, with kills, tables whose keys change rows of others on a source that logs these
// changes. A source that does not is refused.
func TestFollowCascades(t *testing.T) {
	onOneServer(t, "fk", func(t *testing.T, p *pair) {
		rnd := testseed.Rand(t)
		sqlExec(t, p.source, cascadeTables...)
		sqlExec(t, p.source, "INSERT INTO tree VALUES (0, NULL), (1, 0), (2, 1)", "INSERT INTO p VALUES (1, 'p'), (2, 'p')", "INSERT INTO c VALUES (1, 1, 'p', 2), (2, 2, 'p', 0)")
		tables := []string{"c", "tree", "p"}
		options := func() copier.Options {
			o := p.into("copied", tables...)
			o.Follow, o.UntilCaughtUp, o.Patience = true, true, 20*time.Second
			return o
		}
		if !logsCascades(t, p.source) {
			_, err := copier.Run(t.Context(), options())
			if want := "what its foreign keys do to its rows is not logged: tree_up (ON DELETE CASCADE ON UPDATE RESTRICT): a row that it deletes makes"; err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want %q", err, want)
			}
			return
		}
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			o := options()
			var events atomic.Int64
			at := int64(2 + rnd.IntN(12))
			o.Observe = func(telemetry.Event) {
				if events.Add(1) == at {
					cancel()
				}
			}
			o.Workers = 1
			_, _ = copier.Run(ctx, o) // it may stop anywhere
			cancel()
			for range 150 {
				_, err := p.source.Exec(t.Context(), cascadeSQL(rnd))
				if refused := new(mysqlconn.ServerError); err != nil && !errors.As(err, &refused) {
					t.Fatal(err)
				}
			}
		}
		report, err := runAfter(t, options())
		if err != nil {
			t.Fatal(err)
		}
		if report.Follow.Deletes+report.Follow.Updates == 0 {
			t.Errorf("nothing was followed: %+v", report.Follow)
		}
		p.sameKeys(t, tables)
	})
}

func logsCascades(t *testing.T, c *mysqlconn.Client) bool {
	t.Helper()
	return slices.Equal(read(t, c, "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"), []string{`["innodb_native_foreign_keys" "OFF"]`})
}

// TestFollowKeys follows tables whose keys would reject changes: the keys exist as soon as the target has
// caught up, and applied changes do not violate them.
func TestFollowKeys(t *testing.T) {
	onOneServer(t, "fk", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY, p INT, v INT, KEY c_p (p), CONSTRAINT c_p FOREIGN KEY (p) REFERENCES p (id))",
			"INSERT INTO p VALUES (1), (2), (3)", "INSERT INTO c VALUES (1, 1, 1), (2, 2, 1)")
		sqlExec(t, p.target, "CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE stray (id INT PRIMARY KEY, CONSTRAINT astray FOREIGN KEY (id) REFERENCES p (id))")
		o := p.into("copied", "c", "p")
		o.Follow, o.UntilCaughtUp = true, true
		if _, err := copier.Plan(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the foreign key astray of copied.stray refers to it") {
			t.Fatalf("a table outside of the copy: %v", err)
		}
		sqlExec(t, p.target, "DROP TABLE stray")
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		p.sameKeys(t, []string{"c", "p"})
		sqlExec(t, p.source, "BEGIN", "INSERT INTO p VALUES (4)", "INSERT INTO c VALUES (4, 4, 0)", "UPDATE c SET p = 4 WHERE id = 1", "DELETE FROM p WHERE id = 1", "COMMIT")
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		p.sameKeys(t, []string{"c", "p"})
	})
}
