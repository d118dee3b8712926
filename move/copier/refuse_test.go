package copier_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestRefusals checks the errors that precede any copied row and leave nothing behind.
func TestRefusals(t *testing.T) {
	p := newPair(t, "refused")
	sqlExec(t, p.source,
		"CREATE TABLE nokey (id INT)",
		"CREATE TABLE enumkey (e ENUM('a','b') PRIMARY KEY)",
		"CREATE TABLE parent (id INT PRIMARY KEY)",
		"CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES parent (id))",
		"CREATE TABLE myisam (id INT PRIMARY KEY) ENGINE=MyISAM",
		"CREATE VIEW view AS SELECT 1",
		"CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL) CHARACTER SET utf8mb4",
		"INSERT INTO plain VALUES (1, 'x', 2)",
		"CREATE DATABASE refused_other", "CREATE TABLE refused_other.parent (id INT PRIMARY KEY)", "CREATE SEQUENCE refused_other.q",
		"CREATE TABLE across (id INT PRIMARY KEY, p INT, CONSTRAINT g FOREIGN KEY (p) REFERENCES refused_other.parent (id))",
		"CREATE TABLE counted (id INT DEFAULT NEXTVAL(refused_other.q) PRIMARY KEY)")
	sqlExec(t, p.target, "CREATE DATABASE refused", "USE refused", "CREATE DATABASE refused_other", "CREATE TABLE refused_other.parent (id INT PRIMARY KEY)", "CREATE SEQUENCE refused_other.q")
	defer sqlExec(t, p.source, "DROP DATABASE refused", "DROP DATABASE refused_other")
	defer sqlExec(t, p.target, "DROP DATABASE refused", "DROP DATABASE refused_other")
	plain := func(change func(*copier.Options)) copier.Options {
		o := p.options("plain")
		change(&o)
		return o
	}
	tests := []struct {
		name    string
		o       copier.Options
		target  string // created there before
		want    string
		changes bool // the state's tables are created before the error is detected
	}{
		{"no key", p.options("nokey"), "", "table refused.nokey has no primary key", false},
		{"a key of enum", p.options("enumkey"), "", "ENUM, SET, JSON and CHAR with a NOPAD collation do not count", false},
		{"foreign key", p.options("child"), "", "its foreign key f refers to refused.parent, which is not copied and does not exist in the target", false},
		{"foreign key to another schema", p.options("across"), "", "its foreign key g refers to refused_other.parent, a table of a schema that the copy does not write to", false},
		{"a sequence of another schema", p.options("counted"), "", "its definition names an object of the schema refused_other, which the copy does not write to", false},
		{"engine", p.options("myisam"), "", "uses MyISAM", false},
		{"view", p.options("view"), "", "it is a view", false},
		{"missing", p.options("nothing"), "", "there is no such table", false},
		{"narrower", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(9), b INT NOT NULL) CHARACTER SET utf8mb4", "column a is varchar(10) in the source and varchar(9) in the target", false},
		{"charset", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL) CHARACTER SET latin1", "character set utf8mb4 in the source and latin1", false},
		{"nullable", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT) CHARACTER SET utf8mb4", "column b may be NULL in one", false},
		{"more columns", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL, c INT) CHARACTER SET utf8mb4", "column c is missing in the source", false},
		{"fewer columns", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10)) CHARACTER SET utf8mb4", "column b is missing in the target", false},
		{"another key", p.options("plain"), "CREATE TABLE plain (id INT, a VARCHAR(10), b INT NOT NULL PRIMARY KEY) CHARACTER SET utf8mb4", "ordered by the key", false},
		{"triggers", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL) CHARACTER SET utf8mb4; CREATE TRIGGER tr BEFORE INSERT ON plain FOR EACH ROW SET NEW.b = 0", "has triggers (tr)", false},
		{"rows", p.options("plain"), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL) CHARACTER SET utf8mb4; INSERT INTO plain VALUES (7, '', 0)", "has rows already", true},
		{"a column that is none", plain(func(o *copier.Options) { o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "nix", To: "nix"}} }), "", "table refused.plain has no column nix", false},
		{"columns without a table", plain(func(o *copier.Options) { o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "id", To: "id"}} }), "", "create it first", false},
		{"itself", plain(func(o *copier.Options) { o.To = root(p.from) }), "", "would be copied onto itself", false},
		{"itself under another name", plain(func(o *copier.Options) {
			o.To = root(p.from)
			o.To.Addr = strings.Replace(o.To.Addr, "127.0.0.1", "localhost", 1)
		}), "", "would be copied onto itself", false},
		{"restart with rows of others", plain(func(o *copier.Options) { o.Restart = true }), "CREATE TABLE plain (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL) CHARACTER SET utf8mb4; INSERT INTO plain VALUES (7, '', 0)", "use option restart and option truncate refused.plain", true},
		{"truncate without restart", plain(func(o *copier.Options) { o.Truncate = []string{"refused.plain"} }), "", "option truncate requires option restart", false},
		{"truncate of another table", plain(func(o *copier.Options) { o.Restart, o.Truncate = true, []string{"refused.plan"} }), "", "not a target table of this copy", false},
		{"a condition", plain(func(o *copier.Options) { o.Tables[0].Where = "nix > 1" }), "", "Unknown column", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sqlExec(t, p.target, "DROP TABLE IF EXISTS plain", "DROP DATABASE IF EXISTS _tare")
			for sql := range strings.SplitSeq(tt.target, "; ") {
				if sql != "" {
					sqlExec(t, p.target, sql)
				}
			}
			before := read(t, p.target, "SHOW DATABASES")
			if _, err := copier.Plan(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the plan: error %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(before, read(t, p.target, "SHOW DATABASES")); diff != "" {
				t.Errorf("the plan changed the target: %s", diff)
			}
			_, err := copier.Run(t.Context(), tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if diff := cmp.Diff(before, read(t, p.target, "SHOW DATABASES")); diff != "" && !tt.changes {
				t.Errorf("the target changed: %s", diff)
			}
		})
	}
}

// TestOtherSchemas copies tables whose definitions name another schema: if that is part of the copy, and if the target has the tables.
func TestOtherSchemas(t *testing.T) {
	p := newPair(t, "crossing")
	sqlExec(t, p.source, "CREATE DATABASE crossed", "CREATE TABLE crossed.parent (id INT PRIMARY KEY)", "INSERT INTO crossed.parent VALUES (1)", "CREATE SEQUENCE crossed.q",
		"CREATE TABLE child (id INT DEFAULT NEXTVAL(crossed.q) PRIMARY KEY, p INT, CONSTRAINT g FOREIGN KEY (p) REFERENCES crossed.parent (id))", "INSERT INTO child VALUES (7, 1)")
	defer sqlExec(t, p.source, "DROP DATABASE crossing", "DROP DATABASE crossed")
	sqlExec(t, p.target, "CREATE DATABASE crossing", "CREATE DATABASE crossed", "CREATE SEQUENCE crossed.q")
	defer sqlExec(t, p.target, "DROP DATABASE crossing", "DROP DATABASE crossed")
	both := p.options("child", "parent")
	both.Tables[1].Schema, both.Tables[1].ToSchema = "crossed", "crossed"
	if _, err := copier.Run(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	for _, o := range []copier.Options{p.options("child"), both} { // the tables are the target's now
		o.Restart = true
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(read(t, p.source, "SHOW CREATE TABLE crossing.child"), read(t, p.target, "SHOW CREATE TABLE crossing.child")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(read(t, p.source, "SELECT * FROM crossing.child"), read(t, p.target, "SELECT * FROM crossing.child")); diff != "" {
			t.Error(diff)
		}
	}
}

// TestGoingOn checks the errors of a run whose earlier run copied something else, and the effect of
// --restart.
func TestGoingOn(t *testing.T) {
	p := newPair(t, "again")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, b VARCHAR(10))", "INSERT INTO a SELECT seq, seq FROM seq_1_to_100")
	o := p.options("a")
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	changed := p.options("a")
	changed.Tables[0].Where = "id < 50"
	if _, err := copier.Run(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "now:  table again.a; where id < 50") {
		t.Errorf("other rows: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET version = 99")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another version of Tare") {
		t.Errorf("a later version: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET version = 4", "DELETE FROM _tare.copy_chunk WHERE chunk = 0", "INSERT INTO _tare.copy_chunk (target_schema, target_table, chunk) VALUES ('again', 'a', 1)")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chunk 0 is missing") {
		t.Errorf("a state with a hole: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_chunk SET chunk = 0, upto_key = x'023530'")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "0 is not copied") {
		t.Errorf("a finished table with a chunk that is not copied: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_chunk SET copied = 1")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "do not reach the end of the table") {
		t.Errorf("a finished table whose chunks do not reach its end: %v", err)
	}
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET phase = 'copying'", "INSERT INTO _tare.copy_chunk (target_schema, target_table, chunk, after_key) VALUES ('again', 'a', 1, x'023630')")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chunk 1 does not start where the one before it ends") {
		t.Errorf("a state with a gap: %v", err)
	}
	sqlExec(t, p.target, "DROP TABLE again.a", "DELETE FROM _tare.copy_chunk")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the table does not exist; use option restart") {
		t.Errorf("a table that is gone: %v", err)
	}
	changed.Restart = true
	if _, err := copier.Run(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got := read(t, p.target, "SELECT COUNT(*) FROM again.a"); got[0] != `["49"]` {
		t.Errorf("rows after a restart: %s", got)
	}

	// A table that is being emptied.
	sqlExec(t, p.target, "UPDATE _tare.copy_table SET phase = 'emptying'")
	unfinished := changed
	unfinished.Restart = false
	for name, run := range map[string]func() error{"run": func() error { _, err := copier.Run(t.Context(), unfinished); return err }, "plan": func() error { _, err := copier.Plan(t.Context(), unfinished); return err }} {
		if err := run(); err == nil || !strings.Contains(err.Error(), "repeat it with option restart") {
			t.Errorf("%s: a restart that was killed: %v", name, err)
		}
	}
	if _, err := copier.Run(t.Context(), changed); err != nil {
		t.Errorf("a restart after one that was killed: %v", err)
	}

	// Another running copier keeps this one out.
	holder := connect(t, root(p.to))
	read(t, holder, "SELECT GET_LOCK(CONCAT('tare.copy.', SHA1('again.a')), 60)") // the lock of the previous run is released when the server detects the end of its session
	if _, err := copier.Run(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "another tare copy is at work on again.a") {
		t.Errorf("two at once: %v", err)
	}
	if _, err := copier.Plan(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "another tare copy is at work on again.a") {
		t.Errorf("two at once, planned: %v", err)
	}
}

// TestTruncate empties a named table that no copy has written, by --restart.
func TestTruncate(t *testing.T) {
	p := newPair(t, "emptied")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
	sqlExec(t, p.target, "CREATE DATABASE emptied", "CREATE TABLE emptied.a (id INT PRIMARY KEY)", "INSERT INTO emptied.a VALUES (7)")
	o := p.options("a")
	o.Restart, o.Truncate = true, []string{"emptied.a"}
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.same(t, "a")
}

// TestSwapped checks that rows are not copied back over those that they were copied from.
func TestSwapped(t *testing.T) {
	p := newPair(t, "swapped")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
	defer sqlExec(t, p.source, "DROP DATABASE IF EXISTS _tare")
	if _, err := copier.Run(t.Context(), p.options("a")); err != nil {
		t.Fatal(err)
	}
	o := p.options("a")
	o.From, o.To = copier.FromServer(root(p.to)), root(p.from)
	o.To.Addr = strings.Replace(o.To.Addr, "127.0.0.1", "localhost", 1)
	o.Restart, o.Truncate = true, []string{"swapped.a"}
	for name, run := range map[string]func() error{"run": func() error { _, err := copier.Run(t.Context(), o); return err }, "plan": func() error { _, err := copier.Plan(t.Context(), o); return err }} {
		if err := run(); err == nil || !strings.Contains(err.Error(), "are the source and the target swapped?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := read(t, p.source, "SELECT COUNT(*) FROM a"); got[0] != `["2"]` {
		t.Errorf("rows: %s", got)
	}
}

// TestSpecs copies some rows and columns under other names, to another table.
func TestSpecs(t *testing.T) {
	p := newPair(t, "specs")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(10), e ENUM('x','y'), f FLOAT)", "INSERT INTO a SELECT seq, CONCAT('n', seq), 1 + seq % 2, seq / 3 FROM seq_1_to_1000")
	sqlExec(t, p.target, "CREATE DATABASE other", "CREATE TABLE other.b (label ENUM('x','y'), title VARCHAR(10), id INT PRIMARY KEY, spare INT DEFAULT 5)")
	defer sqlExec(t, p.target, "DROP DATABASE other")
	specs, err := tabledef.ParseTables("specs.a=other.b")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{tabledef.AddWhere(specs, "specs.a: id > 100"), tabledef.AddWhere(specs, "specs.a: id <= 900"), tabledef.AddShard(specs, "specs.a: id=2/3"), tabledef.AddColumns(specs, "specs.a: id, e as label, name AS title")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := p.options()
	o.Tables = specs
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := read(t, p.source, "SELECT id, e, name, 5 FROM specs.a WHERE id > 100 AND id <= 900 AND CRC32(id) % 3 = 1 ORDER BY id")
	if diff := cmp.Diff(want, read(t, p.target, "SELECT id, label, title, spare FROM other.b ORDER BY id")); diff != "" || len(want) < 200 {
		t.Errorf("%d rows: %s", len(want), diff)
	}
	planned, err := copier.Plan(t.Context(), o)
	if err != nil || len(planned) != 1 || planned[0].Phase != "finished" || planned[0].CopiedBefore != report.Tables[0].Chunks {
		t.Errorf("%+v, %v", planned, err)
	}
	for _, err := range []error{tabledef.AddWhere(specs, "specs.a"), tabledef.AddWhere(specs, "specs.z: a"), tabledef.AddShard(specs, "specs.a: id"), tabledef.AddShard(specs, "specs.a: id=3/2"), tabledef.AddColumns(specs, "specs.a: a b")} {
		if err == nil {
			t.Error("a clause that is none was taken")
		}
	}
	if _, err := tabledef.ParseTables("specs.a,specs.a"); err == nil {
		t.Error("a table was named twice")
	}
	if got := (&rowstream.Shard{Index: 1, Count: 2}).String(); got != "1/2" {
		t.Error(got)
	}
}

func TestPlanChangesNothing(t *testing.T) {
	p := newPair(t, "planned")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, b INT, KEY k (b))", "INSERT INTO a SELECT seq, 0 FROM seq_1_to_100", "ANALYZE TABLE a")
	before := read(t, p.target, "SHOW DATABASES")
	planned, err := copier.Plan(t.Context(), p.options("a"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, read(t, p.target, "SHOW DATABASES")); diff != "" {
		t.Error(diff)
	}
	planned[0].RowsEstimate, planned[0].BytesEstimate = 0, 0 // the server's estimates
	want := []copier.PlannedTable{{Source: "planned.a", Target: "planned.a", Spec: "table planned.a", Create: true, Key: "PRIMARY", Chunks: 1, Indexes: []string{"KEY `k` (`b`)"}, ForeignKeys: []string{}, Phase: "new"}}
	if diff := cmp.Diff(want, planned); diff != "" {
		t.Error(diff)
	}
}
