package rowstream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/rowstream"
)

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
