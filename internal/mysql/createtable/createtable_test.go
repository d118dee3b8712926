package createtable_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/mysql/createtable"
)

func TestAutoIncrement(t *testing.T) {
	for create, want := range map[string]uint64{
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB AUTO_INCREMENT=18446744073709551615 DEFAULT CHARSET=utf8mb4":                                             18446744073709551615,
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='x AUTO_INCREMENT=5 '":                                                   0,
		"CREATE TABLE `a` (\n  `id` int COMMENT '\n) AUTO_INCREMENT=5 it''s \\'',\n  KEY `\n) AUTO_INCREMENT=6`\n) ENGINE=InnoDB AUTO_INCREMENT=7\n PARTITION BY": 7,
		"": 0,
	} {
		if got := createtable.AutoIncrement(create); got != want {
			t.Errorf("%d, want %d: %s", got, want, create)
		}
	}
}

func TestKeys(t *testing.T) {
	const create = "CREATE TABLE `t` (\n  `id` int COMMENT ',\n  KEY `no` (`x`)',\n  PRIMARY KEY (`id`,`b``c`(10) DESC) USING BTREE COMMENT 'x) y',\n" +
		"  UNIQUE KEY `a\n  KEY ``k`` (b)` (`x`) /*!80000 INVISIBLE */,\n  UNIQUE KEY `e` ((concat(`a`,_utf8mb4',)'))) COMMENT 'it''s IGNORED',\n" +
		"  KEY `i` (`a`) IGNORED,\n  UNIQUE KEY `o` (`id`,`p` WITHOUT OVERLAPS),\n  FULLTEXT KEY `f` (`t`),\n  CONSTRAINT `c` CHECK (`id` > 1)\n) ENGINE=InnoDB\nKEY `none` (`x`)"
	want := []createtable.Key{
		{"PRIMARY KEY", "PRIMARY", []string{"`id`", "`b``c`(10) DESC"}, "USING BTREE COMMENT 'x) y'"},
		{"UNIQUE KEY", "a\n  KEY `k` (b)", []string{"`x`"}, "/*!80000 INVISIBLE */"},
		{"UNIQUE KEY", "e", []string{"(concat(`a`,_utf8mb4',)'))"}, "COMMENT 'it''s IGNORED'"},
		{"KEY", "i", []string{"`a`"}, "IGNORED"},
		{"UNIQUE KEY", "o", []string{"`id`", "`p` WITHOUT OVERLAPS"}, ""},
		{"FULLTEXT KEY", "f", []string{"`t`"}, ""},
	}
	got := createtable.Keys(create)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for i, k := range got {
		if k.Hidden() != (i == 1 || i == 3) || k.WithoutOverlaps() != (i == 4) {
			t.Errorf("%+v: hidden %v, without overlaps %v", k, k.Hidden(), k.WithoutOverlaps())
		}
	}
}
