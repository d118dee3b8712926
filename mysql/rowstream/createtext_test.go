package rowstream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/rowstream"
)

func TestAutoIncrement(t *testing.T) {
	for create, want := range map[string]uint64{
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB AUTO_INCREMENT=18446744073709551615 DEFAULT CHARSET=utf8mb4":                                             18446744073709551615,
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='x AUTO_INCREMENT=5 '":                                                   0,
		"CREATE TABLE `a` (\n  `id` int COMMENT '\n) AUTO_INCREMENT=5 it''s \\'',\n  KEY `\n) AUTO_INCREMENT=6`\n) ENGINE=InnoDB AUTO_INCREMENT=7\n PARTITION BY": 7,
		"": 0,
	} {
		if got := rowstream.AutoIncrement(create); got != want {
			t.Errorf("%d, want %d: %s", got, want, create)
		}
	}
}

func TestCreateForeignKeys(t *testing.T) {
	const head, tail = "CREATE TABLE `t` (\n  `id` int COMMENT ',\n  CONSTRAINT `no` FOREIGN KEY (`x`) REFERENCES `y` (`z`)',\n  PRIMARY KEY (`id`)", "\n) ENGINE=InnoDB\n/*!50100 PARTITION BY"
	const create = head + ",\n  CONSTRAINT `a``(b` FOREIGN KEY (`x)`, `y,`) REFERENCES `o``s`.`p (` (`a`,`b`) ON DELETE SET NULL ON UPDATE NO ACTION,\n" +
		"  CONSTRAINT `c` CHECK (`id` > 1),\n  CONSTRAINT `k` FOREIGN KEY (`id`) REFERENCES `t` (`id`)" + tail
	want := []rowstream.ForeignKey{
		{"a`(b", []string{"x)", "y,"}, "o`s", "p (", []string{"a", "b"}, "SET NULL", "NO ACTION"},
		{"k", []string{"id"}, "", "t", []string{"id"}, "", ""},
	}
	got, without, err := rowstream.CreateForeignKeys(create)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if want := head + ",\n  CONSTRAINT `c` CHECK (`id` > 1)" + tail; without != want {
		t.Errorf("without: %s", cmp.Diff(want, without))
	}
	if !got[0].Acts() || got[1].Acts() {
		t.Error("it is not known which key acts")
	}
	again, _, err := rowstream.CreateForeignKeys("  " + got[0].Definition("`o``s`.`p (`"))
	if diff := cmp.Diff(want[:1], again); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, odd := range []string{"REFERENCES `p` (`a`,`b`)", "REFERENCES `p` (`a`) MATCH FULL", "REFERENCES p (`a`)", "REFERENCES `p` (`a`) ON DELETE EXPLODE"} {
		if keys, _, err := rowstream.CreateForeignKeys("CREATE TABLE `t` (\n  CONSTRAINT `a` FOREIGN KEY (`x`) " + odd + "\n)"); err == nil {
			t.Errorf("%s: %+v", odd, keys)
		}
	}
}

func TestCreateKeys(t *testing.T) {
	const create = "CREATE TABLE `t` (\n  `id` int COMMENT ',\n  KEY `no` (`x`)',\n  PRIMARY KEY (`id`,`b``c`(10) DESC) USING BTREE COMMENT 'x) y',\n" +
		"  UNIQUE KEY `a\n  KEY ``k`` (b)` (`x`) /*!80000 INVISIBLE */,\n  UNIQUE KEY `e` ((concat(`a`,_utf8mb4',)'))) COMMENT 'it''s IGNORED',\n" +
		"  KEY `i` (`a`) IGNORED,\n  UNIQUE KEY `o` (`id`,`p` WITHOUT OVERLAPS),\n  FULLTEXT KEY `f` (`t`),\n  CONSTRAINT `c` CHECK (`id` > 1)\n) ENGINE=InnoDB\nKEY `none` (`x`)"
	want := []rowstream.CreateKey{
		{"PRIMARY KEY", "PRIMARY", []string{"`id`", "`b``c`(10) DESC"}, "USING BTREE COMMENT 'x) y'"},
		{"UNIQUE KEY", "a\n  KEY `k` (b)", []string{"`x`"}, "/*!80000 INVISIBLE */"},
		{"UNIQUE KEY", "e", []string{"(concat(`a`,_utf8mb4',)'))"}, "COMMENT 'it''s IGNORED'"},
		{"KEY", "i", []string{"`a`"}, "IGNORED"},
		{"UNIQUE KEY", "o", []string{"`id`", "`p` WITHOUT OVERLAPS"}, ""},
		{"FULLTEXT KEY", "f", []string{"`t`"}, ""},
	}
	got := rowstream.CreateKeys(create)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for i, k := range got {
		if k.Hidden() != (i == 1 || i == 3) || k.WithoutOverlaps() != (i == 4) {
			t.Errorf("%+v: hidden %v, without overlaps %v", k, k.Hidden(), k.WithoutOverlaps())
		}
	}
}
