package copier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/cutover"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// rentalShop is a schema of a shop that lends films, with objects of all kinds that both vendors have.
var rentalShop = []string{
	"CREATE TABLE language (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name CHAR(20) NOT NULL) CHARACTER SET utf8mb4",
	`CREATE TABLE film (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT NULL, language_id TINYINT UNSIGNED NOT NULL,
  rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, rating ENUM('G','PG','R') DEFAULT 'G', features SET('Trailers','Commentaries'), twice DECIMAL(6,2) AS (rate * 2) STORED,
  updated TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, KEY title (title), KEY language (language_id),
  CONSTRAINT film_language FOREIGN KEY (language_id) REFERENCES language (id) ON UPDATE CASCADE, CONSTRAINT rate_positive CHECK (rate > 0)) CHARACTER SET utf8mb4`,
	"CREATE TABLE film_text (film_id INT UNSIGNED NOT NULL PRIMARY KEY, title VARCHAR(255) NOT NULL, description TEXT, FULLTEXT KEY words (title, description)) CHARACTER SET utf8mb4",
	"CREATE TABLE staff (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(45) NOT NULL, boss INT, CONSTRAINT staff_boss FOREIGN KEY (boss) REFERENCES staff (id)) CHARACTER SET utf8mb4",
	`CREATE TABLE rental (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, film_id INT UNSIGNED NOT NULL, staff_id INT NOT NULL, at DATETIME NOT NULL,
  KEY film (film_id), CONSTRAINT rental_film FOREIGN KEY (film_id) REFERENCES film (id), CONSTRAINT rental_staff FOREIGN KEY (staff_id) REFERENCES staff (id)) CHARACTER SET utf8mb4`,
	"CREATE TABLE payment (id INT NOT NULL, at DATE NOT NULL, amount DECIMAL(5,2), PRIMARY KEY (id, at)) PARTITION BY RANGE (YEAR(at)) (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN MAXVALUE)",
	"CREATE TABLE counter (what VARCHAR(20) CHARACTER SET ascii NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
	"INSERT INTO language (name) VALUES ('English'), ('Français'), ('日本語')",
	"INSERT INTO film (title, language_id, rating, features) VALUES ('ACADEMY DINOSAUR', 1, 'PG', 'Trailers'), ('L''Été', 2, 'G', ''), ('影', 3, 'R', 'Trailers,Commentaries')",
	"INSERT INTO film_text SELECT id, title, CONCAT(title, ' as a text') FROM film",
	"INSERT INTO staff VALUES (1, 'Mike', NULL), (2, 'Jon', 1), (9, 'gone', NULL)", "DELETE FROM staff WHERE id = 9",
	"INSERT INTO rental (film_id, staff_id, at) VALUES (1, 1, '2005-05-24 22:53:30'), (2, 2, '2005-05-24 22:54:33'), (3, 1, '2026-01-01 00:00:00')",
	"INSERT INTO payment VALUES (1, '2019-02-03', 2.99), (2, '2024-02-29', 0.99)", "INSERT INTO counter VALUES ('rentals', 3)",
	// The name of the second view sorts before that of the first, which it refers to.
	"CREATE SQL SECURITY INVOKER VIEW film_list AS SELECT f.id, f.title, l.name AS language FROM film f JOIN language l ON l.id = f.language_id WHERE f.rate > 0.5 AND l.name <> 'x''y'",
	"CREATE VIEW a_list AS SELECT * FROM film_list WHERE id > 0 WITH CASCADED CHECK OPTION",
	"CREATE FUNCTION price(film INT) RETURNS DECIMAL(6,2) READS SQL DATA COMMENT 'of one' RETURN (SELECT rate FROM film WHERE id = film)",
	"CREATE FUNCTION shout(t VARCHAR(20) CHARACTER SET utf8mb4) RETURNS VARCHAR(21) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci DETERMINISTIC RETURN CONCAT(UPPER(t), '!')",
	"CREATE VIEW prices AS SELECT id, price(id) AS price, shout(LEFT(title, 20)) AS title FROM film",
	`CREATE PROCEDURE rent(IN film INT, OUT n INT) MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  -- a comment with a 'quote
  INSERT INTO rental (film_id, staff_id, at) VALUES (film, 1, NOW());
  SELECT COUNT(*) INTO n FROM rental; # ünï
END`,
	"SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'", `CREATE PROCEDURE "ansi quoted"() SELECT 'a' || 'b' AS "c d"`, "SET SESSION sql_mode = DEFAULT",
	"CREATE TRIGGER rental_counts AFTER INSERT ON rental FOR EACH ROW UPDATE counter SET n = n + 1 WHERE what = 'rentals'",
	"CREATE TRIGGER a_second AFTER INSERT ON rental FOR EACH ROW UPDATE counter SET n = n * 2 WHERE what = 'doubled'",
	"CREATE TRIGGER first BEFORE INSERT ON rental FOR EACH ROW SET NEW.at = COALESCE(NEW.at, NOW())",
	"CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2020-01-01 03:00:00' ON COMPLETION PRESERVE ENABLE COMMENT 'it''s' DO DELETE FROM rental WHERE at < '2000-01-01'",
	"CREATE EVENT idle ON SCHEDULE EVERY 2 WEEK DISABLE DO SELECT 1",
}

// newSchemaPair is a pair whose source has a schema of objects of all kinds.
func newSchemaPair(t *testing.T, schema string, statements ...string) *pair {
	t.Helper()
	p := newPair(t, schema)
	p.fill(t, statements...)
	return p
}

// fill creates objects in the schema of the source, in the time zone and the character set of clients.
func (p *pair) fill(t *testing.T, statements ...string) {
	t.Helper()
	sqlExec(t, p.source, "SET NAMES utf8mb4", "SET SESSION sql_mode = DEFAULT, time_zone = '+02:00'")
	sqlExec(t, p.source, statements...)
	sqlExec(t, p.source, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00', character_set_results = NULL")
}

// schemaOptions resolves the schema of the pair.
func (p *pair) schemaOptions(t *testing.T, change ...func(*copier.Options, *inventory.Selection)) copier.Options {
	t.Helper()
	o := p.options()
	sel := inventory.Selection{Schemas: []string{p.schema}}
	for _, f := range change {
		f(&o, &sel)
	}
	if inv, err := copier.Resolve(t.Context(), &o, sel); err != nil {
		if inv != nil {
			for _, obj := range inv.Objects {
				t.Logf("%+v", obj)
			}
		}
		t.Fatal(err)
	}
	return o
}

// objects returns the definitions of all objects of the schema that are no tables, as the server shows them.
func (p *pair) objects(t *testing.T, c *mysqlconn.Client) map[string]string {
	t.Helper()
	sqlExec(t, c, "USE information_schema") // names of the default schema would be left out
	schema := "'" + p.schema + "'"
	all := make(map[string]string)
	for _, row := range read(t, c, "SELECT CONCAT('VIEW ', TABLE_NAME) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = "+schema+
		" UNION ALL SELECT CONCAT(ROUTINE_TYPE, ' ', ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = "+schema+
		" UNION ALL SELECT CONCAT('TRIGGER ', TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = "+schema+
		" UNION ALL SELECT CONCAT('EVENT ', EVENT_NAME) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = "+schema) {
		kind, name, _ := strings.Cut(strings.Trim(row, `["]`), " ")
		for _, shown := range read(t, c, "SHOW CREATE "+kind+" `"+p.schema+"`.`"+name+"`") {
			if kind == "TRIGGER" { // the last column is when it was created
				shown = shown[:strings.LastIndex(shown, ` "`)]
			}
			all[kind+" "+name] = shown
		}
	}
	for _, row := range read(t, c, "SELECT GROUP_CONCAT(TRIGGER_NAME ORDER BY ACTION_ORDER), EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = "+schema+
		" GROUP BY EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION") {
		all["order of triggers "+row] = ""
	}
	all["schema"] = read(t, c, "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = "+schema)[0]
	return all
}

// sameSchema fails unless the target has all objects and rows of the source, with events disabled.
func (p *pair) sameSchema(t *testing.T, normal ...func(string) string) {
	t.Helper()
	want, got := p.objects(t, p.source), p.objects(t, p.target)
	for _, f := range normal {
		for _, objects := range []map[string]string{want, got} {
			for name, text := range objects {
				objects[name] = f(text)
			}
		}
	}
	for name, text := range want {
		if strings.HasPrefix(name, "EVENT") {
			want[name] = strings.Replace(text, " PRESERVE ENABLE ", " PRESERVE DISABLE ", 1)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p.sameTables(t)
}

// sameTables fails unless both sides have the same tables with the same definitions and rows.
func (p *pair) sameTables(t *testing.T) {
	t.Helper()
	tables := read(t, p.source, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA = '"+p.schema+"'")
	for _, name := range tables {
		name = strings.Trim(name, `["]`)
		create := "SHOW CREATE TABLE `" + p.schema + "`.`" + name + "`"
		if diff := cmp.Diff(definitionLines(read(t, p.source, create)), definitionLines(read(t, p.target, create))); diff != "" {
			t.Errorf("%s: %s", create, diff)
		}
		sum := p.checksum(t, name)
		if diff := cmp.Diff(read(t, p.source, sum), read(t, p.target, sum)); diff != "" {
			t.Errorf("%s: %s", sum, diff)
		}
	}
	if there := read(t, p.target, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA = '"+p.schema+"'"); len(there) != len(tables) {
		t.Errorf("the source has the tables %s, the target %s", tables, there)
	}
}

// definitionLines sorts the lines of a table's definition, without the character sets and collations that columns have by default: servers
// show them or not, depending on how they were once given.
func definitionLines(rows []string) []string {
	lines := sortedKeys(rows)
	_, collation, _ := strings.Cut(rows[0], " COLLATE=")
	collation = strings.FieldsFunc(collation, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })[0]
	for i := range lines {
		if strings.HasPrefix(lines[i], "  `") {
			lines[i] = strings.Replace(strings.Replace(lines[i], " CHARACTER SET utf8mb4", "", 1), " COLLATE "+collation+" ", " ", 1)
		}
	}
	return lines
}

// TestSchema copies a schema with objects of all kinds, and again.
func TestSchema(t *testing.T) {
	p := newSchemaPair(t, "lending", slices.Concat([]string{"ALTER DATABASE lending CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"}, rentalShop, []string{
		"CREATE SEQUENCE numbers START WITH 100 INCREMENT BY 10", "CREATE TABLE numbered (id BIGINT NOT NULL DEFAULT NEXTVAL(numbers) PRIMARY KEY, v INT)",
		"INSERT INTO numbered (v) VALUES (1), (2)", "CREATE AGGREGATE FUNCTION total(x INT) RETURNS INT DETERMINISTIC BEGIN DECLARE s INT DEFAULT 0; DECLARE CONTINUE HANDLER FOR NOT FOUND RETURN s; LOOP FETCH GROUP NEXT ROW; SET s = s + x; END LOOP; END",
	})...)
	o := p.schemaOptions(t)
	o.Verify = true
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Mismatches(); n != 0 {
		t.Errorf("%d rows differ", n)
	}
	p.sameSchema(t)
	next := func(c *mysqlconn.Client) int {
		var n int
		if _, err := fmt.Sscanf(read(t, c, "SELECT NEXTVAL(lending.numbers)")[0], `["%d"]`, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if want, got := next(p.source), next(p.target); got < want {
		t.Errorf("the sequence gives %d in the target, %d in the source", got, want)
	}
	o = p.schemaOptions(t)
	for _, obj := range o.Objects.Objects {
		if obj.Fate == inventory.Copied && !obj.Exists {
			t.Errorf("%s is not found to exist", obj)
		}
	}
	if report, err = copier.Run(t.Context(), o); err != nil || report.Objects != 0 {
		t.Errorf("the second run created %d objects: %v", report.Objects, err)
	}
	p.sameSchema(t)
}

// TestSchemaLargestFirst resolves patterns to tables.
func TestSchemaLargestFirst(t *testing.T) {
	p := newSchemaPair(t, "sizes", "CREATE TABLE a_small (id INT PRIMARY KEY)", "CREATE TABLE b_large (id INT PRIMARY KEY, v LONGTEXT)",
		"INSERT INTO b_large VALUES (1, REPEAT('x', 1000000)), (2, REPEAT('y', 1000000))", "CREATE TABLE c_left (id INT PRIMARY KEY)", "CREATE TABLE not_asked (id INT PRIMARY KEY)",
		"CREATE VIEW a_view AS SELECT 1", "ANALYZE TABLE b_large")
	o := p.options("not_asked")
	o.Tables[0].ToName = "renamed"
	pattern := func(name string) inventory.Pattern { return inventory.Pattern{Schema: "sizes", Name: name} }
	inv, err := copier.Resolve(t.Context(), &o, inventory.Selection{Tables: []inventory.Pattern{pattern("?_*")}, Exclude: []inventory.Pattern{pattern("*left")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range o.Tables {
		got = append(got, o.Tables[i].Source())
	}
	if diff := cmp.Diff([]string{"sizes.not_asked", "sizes.b_large", "sizes.a_small"}, got); diff != "" {
		t.Error(diff)
	}
	fates := make(map[string]string)
	for _, obj := range inv.Objects {
		fates[obj.String()] = string(obj.Fate) + " " + obj.Why
	}
	want := map[string]string{
		"schema sizes": "copied ", "table sizes.a_small": "copied ", "table sizes.b_large": "copied ", "table sizes.not_asked": "copied ",
		"table sizes.c_left": "left out excluded by option exclude sizes.*left", "view sizes.a_view": "left out not among option tables",
	}
	if diff := cmp.Diff(want, fates); diff != "" {
		t.Error(diff)
	}
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.same(t, "a_small")
	p.same(t, "b_large")
}

// TestSchemaRefused lists what needs a hand, before anything is written.
func TestSchemaRefused(t *testing.T) {
	p := newPair(t, "hand")
	defer sqlExec(t, p.source, "DROP USER IF EXISTS hand_definer")
	p.fill(t, "CREATE USER hand_definer", "CREATE TABLE fine (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (id INT)", "CREATE TABLE mine (id INT PRIMARY KEY) ENGINE=MyISAM",
		"CREATE TABLE history (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "CREATE TABLE gone (id INT PRIMARY KEY)", "CREATE VIEW broken AS SELECT id FROM gone", "DROP TABLE gone",
		"CREATE DEFINER = hand_definer PROCEDURE theirs() SELECT 1", "CREATE VIEW of_keyless AS SELECT id FROM keyless", "CREATE TABLE aview (id INT PRIMARY KEY)",
		"CREATE PROCEDURE changed() SELECT 1", "CREATE VIEW changed_view AS SELECT 1 AS a", "CREATE TRIGGER stays BEFORE INSERT ON fine FOR EACH ROW SET NEW.v = 1",
		"CREATE DATABASE IF NOT EXISTS hand_other", "CREATE TABLE IF NOT EXISTS hand_other.t (id INT PRIMARY KEY)", "CREATE VIEW across AS SELECT id FROM hand_other.t")
	sqlExec(t, p.target, "CREATE DATABASE hand COLLATE latin1_bin", "CREATE VIEW hand.aview AS SELECT 1", "CREATE PROCEDURE hand.changed() SELECT 2", "CREATE VIEW hand.changed_view AS SELECT 2 AS a")
	o := p.options()
	inv, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"hand"}})
	if err == nil {
		t.Fatal("nothing needs a hand")
	}
	for _, obj := range inv.Objects {
		if obj.Fate != inventory.Copied && obj.Why == "" {
			t.Errorf("%s is %s without a reason", obj, obj.Fate)
		}
	}
	want := map[string]string{
		"schema hand": "ALTER DATABASE `hand` COLLATE", "table hand.keyless": "no primary key", "table hand.mine": "MyISAM", "table hand.history": "SYSTEM VERSIONED",
		"view hand.broken": "not valid on the source", "procedure hand.theirs": "hand_definer@% does not exist in the target", "table hand.aview": "the target has a view of that name",
		"procedure hand.changed": "another definition", "view hand.changed_view": "another definition", "view hand.across": "refers to hand_other.t, which is neither copied nor in the target",
	}
	for _, obj := range inv.Objects {
		text := want[obj.String()]
		if (obj.Fate == inventory.NeedsHand) != (text != "") || !strings.Contains(obj.Why, text) {
			t.Errorf("%s is %s: %s, want %q", obj, obj.Fate, obj.Why, text)
		}
		if text != "" && !strings.Contains(err.Error(), obj.String()+": ") {
			t.Errorf("the error does not name %s: %v", obj, err)
		}
		delete(want, obj.String())
	}
	for name := range want {
		t.Errorf("%s is not listed", name)
	}
	// A view of an excluded table needs a hand, too, until it is excluded.
	exclude := func(names ...string) (sel inventory.Selection) {
		sel.Schemas = []string{"hand"}
		for _, name := range names {
			sel.Exclude = append(sel.Exclude, inventory.Pattern{Schema: "hand", Name: name})
		}
		return sel
	}
	sqlExec(t, p.target, "DROP DATABASE hand")
	o = p.options()
	inv, err = copier.Resolve(t.Context(), &o, exclude("keyless", "mine", "history", "broken", "theirs", "across"))
	if err == nil || inv.Count(inventory.NeedsHand) != 1 || !strings.Contains(err.Error(), "view hand.of_keyless: it refers to hand.keyless") {
		t.Fatalf("got %v", err)
	}
	o = p.options()
	if _, err = copier.Resolve(t.Context(), &o, exclude("keyless", "mine", "history", "broken", "theirs", "across", "of_*", "nothing_*")); err == nil || !strings.Contains(err.Error(), "hand.nothing_* matches nothing") {
		t.Fatalf("got %v", err)
	}
	o = p.options()
	if _, err = copier.Resolve(t.Context(), &o, exclude("keyless", "mine", "history", "broken", "theirs", "across", "of_*")); err != nil {
		t.Fatal(err)
	}
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := read(t, p.target, "SHOW TRIGGERS FROM hand"); len(got) != 1 {
		t.Errorf("triggers of the target: %s", got)
	}
	// With triggers in the target nothing is written to it any more.
	o.Follow = true
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has triggers (stays)") {
		t.Errorf("following a table with triggers: %v", err)
	}
	// What has changed on the source since is an error, not left behind.
	o = p.schemaOptions(t, func(_ *copier.Options, sel *inventory.Selection) {
		*sel = exclude("keyless", "mine", "history", "broken", "theirs", "across", "of_*")
	})
	sqlExec(t, p.source, "CREATE TABLE hand.late (id INT PRIMARY KEY)", "ALTER PROCEDURE hand.changed COMMENT 'new'")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "table hand.late was created") || !strings.Contains(err.Error(), "procedure hand.changed was altered") {
		t.Errorf("the source has changed: %v", err)
	}
	sqlExec(t, p.source, "DROP DATABASE hand_other")
}

// TestSchemaPrivileges copies with accounts that cannot see all objects.
func TestSchemaPrivileges(t *testing.T) {
	p := newPair(t, "hidden")
	p.fill(t, "CREATE OR REPLACE USER hidden_reader IDENTIFIED BY '"+testmysql.Password+"'", "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)",
		"CREATE VIEW v AS SELECT 1", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE PROCEDURE p() SELECT 1", "CREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW SET NEW.id = 1")
	defer sqlExec(t, p.source, "DROP USER hidden_reader")
	cfg := root(p.from)
	cfg.User = "hidden_reader"
	for _, tt := range []struct{ grant, lacks string }{
		{"GRANT SELECT ON hidden.a TO hidden_reader", "kind table: it lacks SELECT"},
		{"GRANT SELECT ON `hi%`.* TO hidden_reader", "kind view: it lacks SHOW VIEW"},
		{"GRANT SHOW VIEW, TRIGGER ON hidden.* TO hidden_reader", "kind table: it lacks SELECT"},
		{"GRANT SELECT ON hidden.* TO hidden_reader", "kind function: it lacks SELECT on mysql.proc"},
		{"GRANT SELECT ON mysql.proc TO hidden_reader", "kind event: it lacks EVENT"},
		{"GRANT EVENT ON *.* TO hidden_reader", ""},
	} {
		sqlExec(t, p.source, tt.grant)
		o := p.options()
		o.From = copier.FromServer(cfg)
		inv, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"hidden"}})
		if tt.lacks != "" {
			if err == nil || !strings.Contains(err.Error(), tt.lacks) {
				t.Errorf("after %s: %v, want %q", tt.grant, err, tt.lacks)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := inv.Count(inventory.Copied); n != 7 {
			t.Errorf("%d objects are copied", n)
		}
	}
	sqlExec(t, p.source, "REVOKE EVENT ON *.* FROM hidden_reader")
	o := p.options()
	o.From = copier.FromServer(cfg)
	inv, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"hidden"}, Kinds: []inventory.Kind{inventory.View}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(inv.Objects, func(obj *inventory.Object) bool {
		return obj.Kind == inventory.Event && obj.Fate == inventory.LeftOut && strings.Contains(obj.Why, "there may be some that are not listed")
	}) {
		t.Error("the inventory does not say that it cannot see events")
	}
}

// TestSchemaFollow follows a schema: triggers are created when nothing is applied any more.
func TestSchemaFollow(t *testing.T) {
	p := newSchemaPair(t, "chased", rentalShop...)
	o := p.schemaOptions(t)
	o.Follow, o.UntilCaughtUp = true, true
	written := false
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventFollow && !written {
			written = true
			// The source's trigger counts this row; the target's must not, too.
			if _, err := p.source.Exec(context.Background(), "INSERT INTO chased.rental (film_id, staff_id, at) VALUES (1, 1, '2026-02-02')"); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if !written {
		t.Fatal("nothing was written while the copy followed")
	}
	p.sameSchema(t)
	o = p.options()
	o.Follow, o.Cutover = true, &cutover.Options{}
	if _, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"chased"}}); err == nil || !strings.Contains(err.Error(), "trigger chased.first: with option cutover") {
		t.Errorf("triggers with a cutover: %v", err)
	}
}

// TestSchemaKilled ends runs at random events, until one comes to its end.
func TestSchemaKilled(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	p := newSchemaPair(t, "struck", rentalShop...)
	rnd := testseed.Rand(t)
	for range rounds {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS struck", "DROP DATABASE IF EXISTS _tare")
		for run, done := 0, false; !done; run++ {
			o := p.schemaOptions(t)
			left := rnd.IntN(20) + run
			ctx, cancel := context.WithCancel(t.Context())
			o.Observe = func(telemetry.Event) {
				if left--; left < 0 && run < 30 {
					cancel()
				}
			}
			o.Workers = 1 // events come one after the other
			_, err := runAfterContext(ctx, t, o)
			done = err == nil
			if err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			cancel()
		}
		p.sameSchema(t)
	}
}

// TestSchemaMany copies a schema with many tables.
func TestSchemaMany(t *testing.T) {
	n := 80
	if testing.Short() {
		n = 40
	}
	p := newPair(t, "many")
	var sqls []string
	for i := range n {
		sqls = append(sqls, fmt.Sprintf("CREATE TABLE t%03d (id INT PRIMARY KEY, v VARCHAR(20), up INT, KEY v (v), CONSTRAINT up%03d FOREIGN KEY (up) REFERENCES t%03d (id))", i, i, i/2),
			fmt.Sprintf("INSERT INTO t%03d VALUES (%d, 'of %d', NULL)", i, i, i))
	}
	p.fill(t, sqls...)
	o := p.schemaOptions(t)
	if len(o.Tables) != n {
		t.Fatalf("%d tables are to be copied, of %d", len(o.Tables), n)
	}
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Tables) != n {
		t.Errorf("%d tables are reported, of %d", len(report.Tables), n)
	}
	p.sameSchema(t)
}

// runAfterContext is runAfter with a context that ends the run.
func runAfterContext(ctx context.Context, t *testing.T, o copier.Options) (report *copier.Report, err error) {
	t.Helper()
	if report, err = copier.Run(ctx, o); errors.Is(err, state.ErrLocked) && ctx.Err() == nil {
		return runAfter(t, o)
	}
	return report, err
}
