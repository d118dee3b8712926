package tabledef

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestCreateIn checks definitions of MySQL for MySQL, which are unchanged, and for MariaDB, which ignores
// comments for MySQL.
func TestCreateIn(t *testing.T) {
	const create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `a` int DEFAULT '5' /*!80023 INVISIBLE */ COMMENT 'x',\n" +
		"  `b` int DEFAULT NULL /*!80023 INVISIBLE */,\n  `c` varchar(9) DEFAULT '/*!80023 INVISIBLE */' COMMENT 'of /*!80023 INVISIBLE */ columns',\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
	got, err := createIn(create, "`s`.`u`", "9.7.0")
	if want := strings.Replace(create, "`t`", "`s`.`u`", 1); got != want || err != nil {
		t.Errorf("for MySQL: %s, %v", got, err)
	}
	got, err = createIn(create, "`s`.`u`", "10.11.19-MariaDB")
	want := strings.Replace(strings.Replace(create, "`t`", "`s`.`u`", 1), "'5' /*!80023 INVISIBLE */", "'5' INVISIBLE", 1)
	want = strings.Replace(want, "NULL /*!80023 INVISIBLE */", "NULL INVISIBLE", 1)
	if got != want || err != nil {
		t.Errorf("for MariaDB: %s, %v", got, err)
	}
	if _, err := createIn("CREATE VIEW v AS SELECT 1", "t", ""); err == nil {
		t.Error("a view was taken for a table")
	}
}

// TestDifferences checks which differences of a target table are permitted.
func TestDifferences(t *testing.T) {
	column := func(name, kind, full, charset, collation string) rowstream.Column {
		return rowstream.Column{Name: name, Type: kind, FullType: full, Charset: charset, Collation: collation}
	}
	source := &rowstream.Table{
		Columns: []rowstream.Column{
			column("id", "int", "int", "", ""), column("u", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_0900_ai_ci"), column("e", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_0900_ai_ci"),
			column("v", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_0900_ai_ci"), column("j", "json", "json", "", ""), column("g", "geomcollection", "geomcollection", "", ""),
		},
		Key: []int{0}, Create: "CREATE TABLE `t` (\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`u`),\n  UNIQUE KEY `f` ((lower(`e`))),\n  KEY `v` (`v`)\n)",
	}
	target := func(i int, c rowstream.Column) *rowstream.Table {
		there := *source
		there.Columns = append([]rowstream.Column(nil), source.Columns...)
		there.Columns[i] = c
		return &there
	}
	for _, tt := range []struct {
		there *rowstream.Table
		want  string
	}{
		{target(0, column("id", "int", "int(11)", "", "")), ""},
		{target(0, column("id", "bigint", "bigint", "", "")), "column id is int in the source and bigint in the target"},
		{target(1, column("u", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_bin")), "column u, which is of a unique key, has the collation utf8mb4_0900_ai_ci in the source and utf8mb4_bin in the target"},
		{target(2, column("e", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_bin")), "column e, which is of a unique key"},
		{target(3, column("v", "varchar", "varchar(9)", "utf8mb4", "utf8mb4_general_ci")), ""},
		{target(3, column("v", "varchar", "varchar(9)", "latin1", "latin1_swedish_ci")), "column v has the character set utf8mb4 in the source and latin1 in the target"},
		{target(4, column("j", "longtext", "longtext", "utf8mb4", "utf8mb4_bin")), ""},
		{target(4, column("j", "longtext", "longtext", "latin1", "latin1_bin")), "column j is json in the source and longtext in the target"},
		{target(4, column("j", "text", "text", "utf8mb4", "utf8mb4_bin")), "column j is json in the source and text in the target"},
		{target(5, column("g", "geometrycollection", "geometrycollection", "", "")), ""},
	} {
		got := strings.Join(differences(source, tt.there), "; ")
		if got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
