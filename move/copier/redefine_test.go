package copier_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
)

// goesOn runs a copy until the target has caught up, or until it fails as expected.
func goesOn(t *testing.T, o copier.Options, want string) {
	t.Helper()
	o.Follow, o.UntilCaughtUp = true, true
	_, err := copier.Run(t.Context(), o)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Fatalf("got %v, want %q", err, want)
	}
}

// TestAltered alters a followed table on the source between changes of its rows. The copy ends at that
// position, and resumes once the target was altered too, if required; otherwise its error gives the reason.
func TestAltered(t *testing.T) {
	p := newPair(t, "altered")
	const (
		ended   = "all before it is in the target: do the same there"
		restart = "option restart"
	)
	remote := overTheWire(t, root(p.from), wire.NoCompression)
	type step struct {
		source, target []string
		want           string // the expected error of the next run; empty: it catches up
	}
	for i, tt := range []struct {
		name    string
		columns []tabledef.ColumnSpec
		steps   []step
	}{
		{"a column is added", nil, []step{
			{[]string{"INSERT INTO a VALUES (10, 1, 'old form')", "ALTER TABLE a ADD COLUMN x VARCHAR(9) DEFAULT 'new' AFTER id", "UPDATE a SET x = 'set' WHERE id < 5", "INSERT INTO a VALUES (11, 'x', 2, 'b')"}, nil, ended},
			{nil, nil, "column x is missing in the target"},
			{[]string{"DELETE FROM a WHERE id = 10"}, nil, "such as by ALTER TABLE `altered`.`a` ADD COLUMN `x` varchar(9) DEFAULT 'new'"},
			{nil, []string{"ALTER TABLE altered.a ADD COLUMN `x` varchar(9) DEFAULT 'new'"}, ""},
			{[]string{"INSERT INTO a VALUES (12, 'y', 3, 'c')"}, nil, ""},
			{[]string{"UPDATE a SET n = 4", "ALTER TABLE a DROP COLUMN x", "UPDATE a SET n = 5"}, nil, ended}, // altered a second time
			{nil, []string{"ALTER TABLE altered.a DROP COLUMN x"}, ""},
		}},
		{"a column gets another type", nil, []step{
			{[]string{"UPDATE a SET n = -n", "ALTER TABLE a MODIFY n BIGINT, MODIFY s VARCHAR(90) CHARACTER SET latin1", "UPDATE a SET n = 1 << 40, s = x'e9' WHERE id = 1"}, nil, ended},
			{nil, nil, "MODIFY COLUMN `n` bigint(20) DEFAULT NULL, MODIFY COLUMN `s` varchar(90) CHARACTER SET latin1"},
			{nil, []string{"ALTER TABLE altered.a MODIFY n BIGINT, MODIFY s VARCHAR(90) CHARACTER SET latin1"}, ""},
		}},
		{"a column gets another name", nil, []step{
			{[]string{"ALTER TABLE a CHANGE n m INT"}, nil, "alter the target the same way, and run the same command again"}, // without changes before it
			{[]string{"UPDATE a SET m = 7"}, []string{"ALTER TABLE altered.a CHANGE n m INT"}, ""},
		}},
		{"an index is made", nil, []step{
			{[]string{"INSERT INTO a VALUES (10, 1, 'before')", "CREATE INDEX i ON a (n)", "INSERT INTO a VALUES (11, 1, 'after')", "DROP INDEX i ON a", "INSERT INTO a VALUES (12, 1, 'last')"}, nil, ended},
			{nil, nil, ""},
		}},
		{"what is not copied", []tabledef.ColumnSpec{{From: "id", To: "id"}, {From: "s", To: "s"}}, []step{
			{[]string{"INSERT INTO a VALUES (10, 1, 'before')", "ALTER TABLE a ADD COLUMN x INT FIRST, DROP COLUMN n", "INSERT INTO a VALUES (5, 11, 'after')"}, nil, ended},
			{nil, nil, ""},
			{[]string{"UPDATE a SET s = CONCAT(s, '!')"}, nil, ""},
		}},
		{"truncated", nil, []step{
			{[]string{"INSERT INTO a VALUES (10, 1, 'before')", "TRUNCATE TABLE a", "INSERT INTO a VALUES (11, 1, 'after')"}, nil, ended},
			{nil, nil, "the source's altered.a was truncated (TRUNCATE TABLE a)"},
			{nil, []string{"TRUNCATE TABLE altered.a"}, ""},
		}},
		{"altered twice, written between", nil, []step{
			{[]string{"ALTER TABLE a ADD COLUMN x INT", "UPDATE a SET x = 1", "ALTER TABLE a ADD COLUMN y INT"}, nil, "altered more than once, and written between: ALTER TABLE a ADD COLUMN x INT; ALTER TABLE a ADD COLUMN y INT; use option restart"},
		}},
		{"altered twice, nothing written between", nil, []step{
			{[]string{"ALTER TABLE a ADD COLUMN x INT", "ALTER TABLE a MODIFY x BIGINT", "UPDATE a SET x = 1"}, []string{"ALTER TABLE altered.a ADD COLUMN x BIGINT"}, ""},
		}},
		{"another key", nil, []step{
			{[]string{"ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)"}, nil, "its key was (id) and is (id, n), by which its chunks were cut; use " + restart},
		}},
		{"exchanged", nil, []step{
			{[]string{"CREATE TABLE b LIKE a", "INSERT INTO a VALUES (10, 1, 'before')", "RENAME TABLE a TO c, b TO a"}, nil, "the log does not list what it did to rows: copy again with " + restart},
			{nil, nil, "the log does not record what happened to its rows in: RENAME TABLE a TO c, b TO a; use " + restart},
		}},
		{"dropped", nil, []step{{[]string{"DROP TABLE a"}, nil, "there is no such table"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sqlExec(t, p.source, "DROP TABLE IF EXISTS a, b, c", "CREATE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(20))", "INSERT INTO a SELECT seq, seq, 'row' FROM seq_1_to_9")
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS altered", "DROP DATABASE IF EXISTS _tare")
			if p.over = nil; i%2 == 0 {
				p.over = remote
			}
			o := p.options("a")
			o.Follow = true
			if o.Tables[0].Columns = tt.columns; tt.columns != nil {
				sqlExec(t, p.target, "CREATE DATABASE altered", "CREATE TABLE altered.a (id INT PRIMARY KEY, s VARCHAR(20))")
			}
			goesOn(t, o, "")
			for _, s := range tt.steps {
				sqlExec(t, p.source, s.source...)
				sqlExec(t, p.target, s.target...)
				goesOn(t, o, s.want)
			}
			last := tt.steps[len(tt.steps)-1].want
			if _, err := copier.Plan(t.Context(), o); (err == nil) != (last == "") {
				t.Errorf("a dry run: %v", err)
			}
			if last != "" {
				return
			}
			columns := "*"
			if tt.columns != nil {
				columns = "id, s"
			}
			sql := "SELECT " + columns + " FROM altered.a ORDER BY id"
			if tt.name == "a column is added" {
				sql = "SELECT id, n, s FROM altered.a ORDER BY id" // in another order
			}
			if want, got := read(t, p.source, sql), read(t, p.target, sql); strings.Join(want, "\n") != strings.Join(got, "\n") {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// TestAlteredKilled has a copy killed around the position where its table was altered: the recorded position
// may be before that, with rows of the old form after it, applied or not.
func TestAlteredKilled(t *testing.T) {
	p := newPair(t, "alteredkilled")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1), (2, 2)", "CREATE TABLE b LIKE a")
	o := p.options("a", "b")
	goesOn(t, o, "")
	position := func() string { return read(t, p.target, "SELECT position FROM _tare.copy_follow")[0] }
	killed := position()
	back := func() {
		sqlExec(t, p.target, "UPDATE _tare.copy_follow SET position = '"+strings.Trim(killed, `["]`)+"'")
	}
	sqlExec(t, p.source, "UPDATE a SET n = 10", "INSERT INTO b VALUES (3, 3)", "ALTER TABLE a MODIFY n INT UNSIGNED", "INSERT INTO a VALUES (3, 3000000000)", "INSERT INTO b VALUES (4, 4)")

	const ended = "all before it is in the target"
	goesOn(t, o, ended)
	if got := read(t, p.target, "SELECT (SELECT SUM(n) FROM alteredkilled.a), (SELECT COUNT(*) FROM alteredkilled.b)"); got[0] != `["20" "1"]` {
		t.Errorf("before the change: %s", got)
	}
	// Killed before it could record its progress and the change that stopped it.
	back()
	sqlExec(t, p.target, "UPDATE _tare.copy_definition SET stopped = ''")
	goesOn(t, o, ended)
	// Killed, and the target altered too early: the form of the rows cannot be determined.
	back()
	sqlExec(t, p.target, "ALTER TABLE alteredkilled.a MODIFY n INT UNSIGNED")
	goesOn(t, o, "restore the earlier definition")
	sqlExec(t, p.target, "ALTER TABLE alteredkilled.a MODIFY n INT")
	goesOn(t, o, ended)
	there := position()
	sqlExec(t, p.target, "ALTER TABLE alteredkilled.a MODIFY n INT UNSIGNED")
	goesOn(t, o, "")
	// Killed after it has recorded the new definition, and before the position moved past the change.
	sqlExec(t, p.target, "UPDATE _tare.copy_follow SET position = '"+strings.Trim(there, `["]`)+"'")
	goesOn(t, o, "")
	p.same(t, "a")
	p.same(t, "b")

	// While rows are copied.
	sqlExec(t, p.target, "DELETE FROM _tare.copy_follow", "UPDATE _tare.copy_table SET phase = 'copying'")
	sqlExec(t, p.source, "ALTER TABLE a ADD COLUMN more INT")
	goesOn(t, o, "altered on the source while its rows were being copied, so they have two forms:\n  column more is missing before\nuse option restart")
	o.Restart = true
	sqlExec(t, p.target, "DROP TABLE alteredkilled.a")
	goesOn(t, o, "")
	p.same(t, "a")
	p.same(t, "b")
}

// TestAlteredWhileFollowed alters a table that is being followed, in the middle of writes.
func TestAlteredWhileFollowed(t *testing.T) {
	p := newPair(t, "alteredlive")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (0, 1)")
	o := p.options("a")
	o.Follow, o.Control = true, filepath.Join(t.TempDir(), "c.sock")
	caughtUp := make(chan struct{})
	once := sync.OnceFunc(func() { close(caughtUp) }) // a run that has lost its lease is followed by another
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventCaughtUp {
			once()
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := copier.Run(t.Context(), o)
		ended <- err
	}()
	select {
	case <-caughtUp:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the copy to catch up")
	}
	sqlExec(t, p.source, "INSERT INTO a SELECT seq, seq FROM seq_1_to_20000", "ALTER TABLE a ADD COLUMN x INT NOT NULL DEFAULT 5", "UPDATE a SET x = id")
	err := testwait.Receive(t, "the copy to stop", ended)
	var stop *binlog.StopError
	if !errors.As(err, &stop) || stop.Reason != binlog.StopSchema || stop.Change != binlog.ChangeColumns || stop.SQL != "ALTER TABLE a ADD COLUMN x INT NOT NULL DEFAULT ?" {
		t.Fatalf("it ended with %v", err)
	}
	if got := read(t, p.target, "SELECT COUNT(*) FROM alteredlive.a"); got[0] != `["20001"]` {
		t.Errorf("the target has %s rows", got)
	}
	o.Observe = nil
	_, err = copier.Run(t.Context(), o)
	if err == nil {
		t.Fatal("it goes on with another definition")
	}
	alter := regexp.MustCompile("ALTER TABLE `.* DEFAULT 5").FindString(err.Error())
	if alter == "" {
		t.Fatalf("it does not say what to run: %v", err)
	}
	sqlExec(t, p.target, alter)
	goesOn(t, o, "")
	p.same(t, "a")
}

// TestAlteredUnrecorded alters a table whose rows were copied without following, so that no earlier
// definition is recorded, in a way that keeps the number and types of its columns.
func TestAlteredUnrecorded(t *testing.T) {
	p := newPair(t, "unrecorded")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, price INT, qty INT)", "INSERT INTO a VALUES (1, 10, 2)", "CREATE TABLE b LIKE a")
	o := p.options("a", "b")
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.source, "UPDATE a SET price = 11", "CREATE INDEX i ON b (qty)", "INSERT INTO b VALUES (1, 2, 3)")
	goesOn(t, o, "")
	p.same(t, "a")
	if got := read(t, p.target, "SELECT * FROM unrecorded.b"); len(got) != 1 { // its index is not dropped
		t.Errorf("b has %v", got)
	}

	sqlExec(t, p.target, "DROP DATABASE unrecorded", "DROP DATABASE _tare")
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.source, "UPDATE a SET price = 12", "ALTER TABLE a MODIFY price INT AFTER qty")
	sqlExec(t, p.target, "ALTER TABLE unrecorded.a MODIFY price INT AFTER qty")
	goesOn(t, o, "was altered (ALTER TABLE a MODIFY price INT AFTER qty) after its rows were copied without option follow")
}

// TestTablesAdded adds a table to a copy that follows others, which were altered in between: each table's
// changes are read from its recorded position, by the definition that applied there.
func TestTablesAdded(t *testing.T) {
	p := newPair(t, "added")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, price INT, qty INT)", "INSERT INTO a VALUES (1, 10, 2)",
		"CREATE TABLE b (id INT PRIMARY KEY, x INT, y INT)", "INSERT INTO b VALUES (1, 1, 2)")
	p.over = overTheWire(t, root(p.from), wire.NoCompression)
	goesOn(t, p.options("a"), "")
	const reordered = "MODIFY price INT AFTER qty"
	sqlExec(t, p.source, "UPDATE a SET price = 11", "ALTER TABLE a "+reordered)
	goesOn(t, p.options("a"), "all before it is in the target")
	sqlExec(t, p.target, "ALTER TABLE added.a "+reordered)
	goesOn(t, p.options("a"), "")

	// Rows of b in another form, and of a, which only the log has.
	sqlExec(t, p.source, "UPDATE b SET x = 5", "ALTER TABLE b MODIFY x INT AFTER y", "UPDATE b SET y = 6", "UPDATE a SET qty = 3", "INSERT INTO a VALUES (2, 3, 4)")
	goesOn(t, p.options("a", "b"), "")
	p.same(t, "a")
	p.same(t, "b")

	// The smaller set does not resume from its former position.
	sqlExec(t, p.source, "UPDATE a SET price = price + 1", "ALTER TABLE a MODIFY price INT AFTER id", "UPDATE b SET x = 7")
	goesOn(t, p.options("a", "b"), "all before it is in the target")
	sqlExec(t, p.target, "ALTER TABLE added.a MODIFY price INT AFTER id")
	goesOn(t, p.options("a", "b"), "")
	sqlExec(t, p.source, "UPDATE a SET price = price + 1")
	goesOn(t, p.options("a"), "")
	p.same(t, "a")
	p.same(t, "b")
}
