package copier_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/move/copier"
)

// between is a pair of two given servers, whose target has no such schema yet.
func between(t *testing.T, from, to *testmysql.Server, schema string) *pair {
	t.Helper()
	p := &pair{from: from, to: to, schema: schema, source: connect(t, root(from)), target: connect(t, root(to))}
	sqlExec(t, p.source, "DROP DATABASE IF EXISTS _tare")
	sqlExec(t, p.target, "DROP DATABASE IF EXISTS "+schema, "DROP DATABASE IF EXISTS _tare")
	return p
}

// secondMySQL starts a MySQL besides the one of the pool.
func secondMySQL(t *testing.T) *testmysql.Server {
	t.Helper()
	server, err := testmysql.New(testmysql.WithMySQL(), testmysql.WithBinlog())
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
}

// mysqlOnly are definitions that MySQL writes in another way than MariaDB.
var mysqlOnly = []string{
	"CREATE TABLE collated (id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, b VARCHAR(20) COLLATE utf8mb4_0900_as_cs, c VARCHAR(20) COLLATE utf8mb4_0900_bin, UNIQUE KEY a (a), KEY b (b DESC)) COLLATE utf8mb4_0900_ai_ci",
	"CREATE TABLE documents (id INT PRIMARY KEY, hidden INT DEFAULT 7 INVISIBLE, u CHAR(36) DEFAULT (UUID()), KEY unused (hidden) INVISIBLE)",
	"INSERT INTO collated VALUES (1, 'ä', 'B', 'c '), (2, 'ö', NULL, '')", "INSERT INTO documents (id, u) VALUES (1, 'x')",
	"CREATE VIEW compared AS SELECT id FROM collated WHERE a = _utf8mb4'A' COLLATE utf8mb4_0900_ai_ci",
}

// mariadbOnly are definitions that MariaDB writes in another way than MySQL.
var mariadbOnly = []string{
	"CREATE TABLE collated (id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_uca1400_nopad_ai_ci, b VARCHAR(20) COLLATE utf8mb4_uca1400_nopad_as_cs, c VARCHAR(20) COLLATE utf8mb4_nopad_bin, UNIQUE KEY a (a), KEY b (b DESC)) COLLATE utf8mb4_uca1400_nopad_ai_ci",
	"CREATE TABLE documents (id INT PRIMARY KEY, hidden INT DEFAULT 7 INVISIBLE, u CHAR(36) DEFAULT UUID(), t TEXT DEFAULT 'a''b', KEY unused (hidden) IGNORED) CHARACTER SET utf8mb4",
	"INSERT INTO collated VALUES (1, 'ä', 'B', 'c '), (2, 'ö', NULL, '')", "INSERT INTO documents (id, u) VALUES (1, 'x')",
	"CREATE VIEW compared AS SELECT id FROM collated WHERE a = _utf8mb4'A' COLLATE utf8mb4_uca1400_nopad_ai_ci",
}

// TestSchemaBetweenMySQL copies a schema from MySQL to MySQL.
func TestSchemaBetweenMySQL(t *testing.T) {
	first, second := servers.holdMySQL(t), secondMySQL(t)
	sqlExec(t, connect(t, root(first)), "DROP DATABASE IF EXISTS lending", "CREATE DATABASE lending CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_ci")
	p := between(t, first, second, "lending")
	sqlExec(t, p.source, "USE lending")
	p.fill(t, slices.Concat(rentalShop, mysqlOnly, []string{
		"CREATE TABLE functional (a VARCHAR(20) PRIMARY KEY, j JSON, KEY lower ((LOWER(a))))", `INSERT INTO functional VALUES ('A', '{"a": [1, 2, "ü"]}')`,
	})...)
	if _, err := copier.Run(t.Context(), p.schemaOptions(t)); err != nil {
		t.Fatal(err)
	}
	p.sameSchema(t)
}

// quotedTrigger is the start of a trigger as MySQL writes it. MariaDB keeps the names as they were given.
var quotedTrigger = regexp.MustCompile(" TRIGGER `(\\w+)` (\\w+ \\w+) ON `(\\w+)` ")

// TestSchemaRoundTrip copies a schema to the other vendor and back to a second server of the first one, where it must be what it was.
func TestSchemaRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		name             string
		first, via, last func(*testing.T) *testmysql.Server
		create, only     []string
	}{
		{
			name: "MySQL", first: servers.holdMySQL, via: func(t *testing.T) *testmysql.Server { return servers.hold(t).from }, last: secondMySQL,
			create: []string{"CREATE DATABASE trip CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"}, only: mysqlOnly,
		},
		{
			name: "MariaDB", first: func(t *testing.T) *testmysql.Server { return servers.hold(t).from }, via: servers.holdMySQL, last: func(t *testing.T) *testmysql.Server { return servers.hold(t).to },
			create: []string{"CREATE DATABASE trip CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"}, only: mariadbOnly,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, via, last := tt.first(t), tt.via(t), tt.last(t)
			sqlExec(t, connect(t, root(first)), append([]string{"DROP DATABASE IF EXISTS trip"}, tt.create...)...)
			there := between(t, first, via, "trip")
			sqlExec(t, there.source, "USE trip")
			there.fill(t, slices.Concat(rentalShop, tt.only)...)
			sqlExec(t, there.target, "SET GLOBAL local_infile = 1, GLOBAL log_bin_trust_function_creators = 1")
			for range 2 { // the second run finds all objects, which the server has reformatted
				report, err := copier.Run(t.Context(), there.schemaOptions(t))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d objects were created", report.Objects)
			}
			back := between(t, via, last, "trip")
			sqlExec(t, back.target, "SET GLOBAL local_infile = 1")
			if _, err := copier.Run(t.Context(), back.schemaOptions(t)); err != nil {
				t.Fatal(err)
			}
			whole := &pair{from: first, to: last, schema: "trip", source: there.source, target: back.target}
			whole.sameSchema(t, func(text string) string {
				text = strings.Replace(text, "NO_AUTO_CREATE_USER,", "", 1) // MySQL has no such mode
				return quotedTrigger.ReplaceAllString(text, " TRIGGER $1 $2 ON $3 ")
			})
		})
	}
}

// TestSchemaUntranslated refuses what the other vendor has not, and takes the collations that the operator chooses.
func TestSchemaUntranslated(t *testing.T) {
	mysql, pair := servers.holdMySQL(t), servers.hold(t)
	sqlExec(t, connect(t, root(mysql)), "DROP DATABASE IF EXISTS strange", "CREATE DATABASE strange COLLATE utf8mb4_0900_ai_ci")
	p := between(t, mysql, pair.to, "strange")
	sqlExec(t, p.source, "USE strange")
	p.fill(t, "CREATE TABLE functional (a VARCHAR(20) PRIMARY KEY, KEY lower ((LOWER(a))))", "CREATE TABLE unenforced (a INT PRIMARY KEY, CHECK (a > 0) NOT ENFORCED)",
		"CREATE TABLE japanese (id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_ja_0900_as_cs)", "CREATE TABLE place (id INT PRIMARY KEY, g POINT NOT NULL SRID 4326)")
	o := p.options()
	_, err := copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"strange"}})
	for _, want := range []string{"index lower is over an expression", "NOT ENFORCED", "no collation utf8mb4_ja_0900_as_cs", "SRID"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	sqlExec(t, p.source, "DROP TABLE functional, unenforced, place", "INSERT INTO japanese VALUES (1, 'はは')", "CREATE TABLE documents (id INT PRIMARY KEY, j JSON)", `INSERT INTO documents VALUES (1, '{"a": [1, 2]}')`)
	o = p.schemaOptions(t, func(o *copier.Options, _ *inventory.Selection) {
		o.Collations = map[string]string{"utf8mb4_ja_0900_as_cs": "utf8mb4_uca1400_as_cs"}
	})
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`["utf8mb4_uca1400_as_cs"]`}, read(t, p.target, "SELECT COLLATION(a) FROM strange.japanese")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`["{\"a\": [1, 2]}" "1"]`}, read(t, p.target, "SELECT j, (SELECT COUNT(*) FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'strange') FROM strange.documents")); diff != "" {
		t.Error(diff)
	}

	back := between(t, pair.from, mysql, "strange_too")
	sqlExec(t, back.source, "DROP DATABASE IF EXISTS strange_too", "CREATE DATABASE strange_too CHARACTER SET utf8mb4", "USE strange_too")
	back.fill(t, "CREATE TABLE padded (id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_uca1400_ai_ci)", "CREATE TABLE ids (id UUID PRIMARY KEY)", "CREATE SEQUENCE numbers",
		"CREATE TABLE numbered (id BIGINT DEFAULT NEXTVAL(numbers) PRIMARY KEY)", "SET SESSION sql_mode = 'ORACLE'", "CREATE PROCEDURE oracle AS BEGIN NULL; END", "SET SESSION sql_mode = DEFAULT")
	o = back.options()
	_, err = copier.Resolve(t.Context(), &o, inventory.Selection{Schemas: []string{"strange_too"}})
	for _, want := range []string{"option map-collation utf8mb4_uca1400_ai_ci=utf8mb4_0900_ai_ci", "type that MySQL has not", "MySQL has no sequences", "takes numbers from a sequence", "sql_mode has ORACLE"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	sqlExec(t, back.source, "DROP TABLE padded, ids, numbered", "DROP SEQUENCE numbers", "DROP PROCEDURE oracle", "CREATE TABLE documents (id INT PRIMARY KEY, j JSON) CHARACTER SET utf8mb4",
		`INSERT INTO documents VALUES (1, '{"a":  [1]}')`)
	if _, err := copier.Run(t.Context(), back.schemaOptions(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"[\"{\\\"a\\\":  [1]}\" \"longtext\" \"json_valid(`j`)\"]"}, read(t, back.target,
		"SELECT j, (SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'strange_too' AND COLUMN_NAME = 'j'), (SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'strange_too') FROM strange_too.documents")); diff != "" {
		t.Error(diff)
	}
}
