package tabledef

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestHostileTables checks definitions as servers print them, and texts that a lying source or a changed dump could have
// instead.
func TestHostileTables(t *testing.T) {
	const body = "CREATE TABLE `s`.`t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"
	for _, c := range []struct{ text, want string }{
		{body + " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='; SELECT ''1'' AS `union`'", ""},
		{body + " ENGINE=InnoDB AUTO_INCREMENT=5 `PAGE_COMPRESSED`='ON' WITH SYSTEM VERSIONING", ""},
		{body + " /*!50100 TABLESPACE `innodb_file_per_table` */ ENGINE=InnoDB\n/*!50100 PARTITION BY RANGE (`id`)\n(PARTITION p0 VALUES LESS THAN (5) ENGINE = InnoDB,\n PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */", ""},
		{body + " ENGINE=InnoDB\n PARTITION BY LIST (`id`)\n(PARTITION `p0` VALUES IN (1,2) ENGINE = InnoDB)", ""},
		{"CREATE TABLE `s`.`t` (\n  `id` int NOT NULL COMMENT 'it\\'s; select',\n  `select` int DEFAULT (json_value(`a`,'$')),\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB", ""},
		{"CREATE TABLE `s`.`t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */\n) ENGINE=InnoDB", ""},
		{body + " ENGINE=InnoDB\n/*!50500 PARTITION BY RANGE  COLUMNS(engine,connection)\n(PARTITION p0 VALUES LESS THAN (1,2) ENGINE = InnoDB) */", ""},

		{body + " ENGINE=InnoDB\n/*!50500 PARTITION BY RANGE  COLUMNS(data,directory)\n(PARTITION p0 VALUES LESS THAN (1,2) ENGINE = InnoDB) */", ""},
		{"CREATE TABLE `s`.`t` (\n  `like` int CHECK (`like` like 'x'),\n  CONSTRAINT `c` CHECK ((`like` like 'y'))\n) ENGINE=InnoDB COMMENT='data directory'", ""},

		{"CREATE TABLE `s`.`t` (\n LIKE mysql.user)", "LIKE"},
		{"CREATE TABLE `s`.`t` (\n/*!50000 like*/ mysql.user)", "LIKE"},
		{body + " ENGINE=InnoDB DATA DIRECTORY='/var/lib/mysql/important'", "DATA DIRECTORY"},
		{body + " ENGINE=InnoDB index /* */ directory = '/tmp'", "INDEX DIRECTORY"},
		{body + " ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`id`)\n(PARTITION p0 DATA DIRECTORY = '/tmp' ENGINE = InnoDB) */", "DATA DIRECTORY"},
		{body + " ENGINE=InnoDB AS SELECT 1 AS id", "SELECT"},
		{body + " ENGINE=InnoDB AS SELECT LOAD_FILE('/etc/passwd') AS id", "SELECT"},
		{body + " ENGINE=InnoDB (SELECT 1 AS id)", "SELECT"},
		{body + " ENGINE=InnoDB IGNORE WITH x AS (SELECT 1 AS id) SELECT * FROM x", "SELECT"},
		{body + " /*!99999 ENGINE=InnoDB */ /*M! AS SELECT 1 AS id */", "SELECT"},
		{body + " ENGINE=InnoDB /*!50000 AS SELECT 1 AS id */", "SELECT"},
		{body + " ENGINE=InnoDB /*!50701 COMMENT=' */ AS SELECT 1 AS id /*!50701 ' */", "SELECT"},
		{body + " ENGINE=InnoDB COMMENT=\"'\" AS SELECT 1 AS id -- '", "SELECT"},
		{body + " ENGINE=InnoDB COMMENT='\\' AS SELECT 1 AS id -- ", ""}, // a comment that does not end, as the target reads it
		{body + " ENGINE=InnoDB TABLE mysql.user", "TABLE"},
		{body + " ENGINE=InnoDB DATA SELECT 1", "SELECT"},
		{body + " ENGINE=InnoDB INDEX TABLE mysql.user", "TABLE"},
		{body + " ENGINE=InnoDB VALUES IN TABLE mysql.user", "TABLE"},
		{body + " PARTITION BY HASH (engine) AS SELECT 1", "SELECT"},
		{body + " ENGINE=InnoDB VALUES ROW(1)", "VALUES"},
		{body + " /*!50100 TABLESPACE `x` */ ENGINE=InnoDB", `tablespace "x"`},
		{body + " ENGINE=InnoDB tablespace = innodb_system", `tablespace "innodb_system"`},
		{body + " ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`id`)\n(PARTITION p0 TABLESPACE = `x` ENGINE = InnoDB) */", `tablespace "x"`},
		{body + " ENGINE=InnoDB\n/*!50500 PARTITION BY RANGE  COLUMNS(tablespace,start)\n(PARTITION p0 VALUES LESS THAN (1,2) ENGINE = InnoDB) */", ""},
		{body + " ENGINE=InnoDB START TRANSACTION", "START TRANSACTION"},
		{"CREATE TABLE `s`.`t` (\n  `id` int NOT NULL PRIMARY KEY REFERENCES `other`.`t` (`id`)\n) ENGINE=InnoDB", "REFERENCES"},
		{"CREATE TABLE `s`.`t` (\n  `id` int NOT NULL PRIMARY KEY,\n   FOREIGN KEY (`id`) /*!50000 REFERENCES*/ `other`.`t` (`id`)\n) ENGINE=InnoDB", "REFERENCES"},
		{"CREATE TABLE `s`.`t` (\n  `references` int NOT NULL COMMENT 'REFERENCES x',\n  PRIMARY KEY (`references`)\n) ENGINE=InnoDB", ""},
		{body + " ENGINE=InnoDB; DROP DATABASE important", "second statement"},
		{body + " ENGINE=FEDERATED CONNECTION='mysql://app@evil.example/s/t'", `engine "FEDERATED"`},
		{body + " ENGINE=InnoDB ENGINE='SPIDER' COMMENT='wrapper \"mysql\", host \"evil.example\"'", `engine "SPIDER"`},
		{body + " ENGINE MRG_MyISAM UNION=(`mysql`.`user`) INSERT_METHOD=LAST", `engine "MRG_MyISAM"`},
		{body + " UNION=(`mysql`.`user`)", "UNION"},
		{body + " CONNECTION='mysql://evil.example/'", "CONNECTION"},
		{body + " ENGINE=InnoDB PARTITION BY HASH (`id`) (PARTITION p0 ENGINE = CONNECT)", `engine "CONNECT"`},
		{"CREATE TABLE `s`.`t` (\n  `id` int NOT NULL DEFAULT ((select 1)),\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB", "SELECT"},
	} {
		for _, version := range []string{"10.11.14-MariaDB", "9.7.0", "8.0.11-TiDB-v8.4.0", ""} {
			if strings.Contains(c.text, "50701") && !strings.Contains(version, "MariaDB") {
				continue // it is a comment of the table there
			}
			err := checkCreate(c.text, "InnoDB", version)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", version, c.text, err, c.want)
			}
		}
	}
}

// FuzzCreate checks arbitrary definitions: one that is accepted is not with a second statement or a query after it, unless it ends
// within a comment or a quoted text.
func FuzzCreate(f *testing.F) {
	const body = "CREATE TABLE `s`.`t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"
	f.Add(body + " ENGINE=InnoDB COMMENT='x'")
	f.Add(body + " /*!50100 PARTITION BY LIST (`id`)\n(PARTITION p0 VALUES IN (1) ENGINE = InnoDB) */")
	f.Add(body + " /*M!100301 AS SELECT 1 */ -- x")
	f.Fuzz(func(t *testing.T, text string) {
		defer alloctest.Bounded(t, 16<<20)()
		for _, version := range []string{"10.11.14-MariaDB", "9.7.0", ""} {
			if checkCreate(text, "InnoDB", version) != nil {
				continue
			}
			var m sqldigest.Mode
			var l sqldigest.Lexer
			l.Reset([]byte(text), m.WithServer(sqldigest.ParseServer(version)))
			last := sqldigest.KindEOF
			for tok := l.Next(); tok.Kind != sqldigest.KindEOF; tok = l.Next() {
				last = tok.Kind
			}
			if last != sqldigest.KindIdent && last != sqldigest.KindKeyword && last != sqldigest.KindNumber {
				continue
			}
			for _, more := range []string{" ; DROP DATABASE x", " AS SELECT 1", " (SELECT 1)"} {
				if checkCreate(text+more, "InnoDB", version) == nil {
					t.Errorf("%s: accepted with %q: %q", version, more, text)
				}
			}
		}
	})
}
