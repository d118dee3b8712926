package createtable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/createtable"
)

// TestOptions reads AUTO_INCREMENT at each place of the options, and of texts that are none.
func TestOptions(t *testing.T) {
	for line, want := range map[string]uint64{
		") AUTO_INCREMENT=10": 10, ") AUTO_INCREMENT=11 ENGINE=InnoDB": 11, ") ENGINE=InnoDB AUTO_INCREMENT=1\n/*!50100 PARTITION BY HASH (`a`) */": 1,
		") ENGINE=InnoDB": 0, ")": 0, ") ": 0, ") AUTO_INCREMENT=": 0, ") AUTO_INCREMENT=x": 0, ") XAUTO_INCREMENT=5": 0, "  AUTO_INCREMENT=5": 0, ")  AUTO_INCREMENT=5": 5,
		") COMMENT='a' AUTO_INCREMENT=5": 0, ") COMMENT='AUTO_INCREMENT=5 '": 0, ") ENGINE=InnoDB\n) AUTO_INCREMENT=5": 0,
		") AUTO_INCREMENT=18446744073709551615": 18446744073709551615,
	} {
		for _, before := range []string{"", "CREATE TABLE `a` (\n  `id` int\n"} {
			if got := createtable.AutoIncrement(before + line); got != want {
				t.Errorf("%q: %d, want %d", before+line, got, want)
			}
		}
	}
	if got := createtable.AutoIncrement("CREATE TABLE `AUTO_INCREMENT=5 ` (\n  `a` int,\n  `) AUTO_INCREMENT=6` int\n)"); got != 0 {
		t.Errorf("in names: %d", got)
	}
}

// TestKeyLines reads each kind of key at each place of a definition, with each kind of name and list.
func TestKeyLines(t *testing.T) {
	for _, kind := range []string{"PRIMARY KEY", "UNIQUE KEY", "KEY", "FULLTEXT KEY", "SPATIAL KEY", "CONSTRAINT `KEY`", "KEYS", "`KEY`"} {
		for _, name := range []string{"a", "a b", "a`b", "KEY `x` (`y`)"} {
			for list, parts := range map[string][]string{"(`a`)": {"`a`"}, "(`a`,`b,c`(3) DESC)": {"`a`", "`b,c`(3) DESC"}, "((`a` + 1))": {"(`a` + 1)"}} {
				for _, options := range []string{"", " USING HASH", " COMMENT 'x, (y)'"} {
					quoted := " `" + strings.ReplaceAll(name, "`", "``") + "`"
					want := fmt.Sprintf("[{%s %s %q %s}]", kind, name, parts, strings.TrimSpace(options))
					switch {
					case kind == "PRIMARY KEY":
						quoted, want = "", fmt.Sprintf("[{%s PRIMARY %q %s}]", kind, parts, strings.TrimSpace(options))
					case strings.Contains(kind, "`"), kind == "KEYS":
						want = "[]"
					}
					line := kind + quoted + " " + list + options
					for _, create := range []string{"CREATE TABLE `t` (\n  " + line + ",\n  `z` int\n)", "CREATE TABLE `t` (\n  `z` int,\n  " + line + "\n)"} {
						var got []string
						for _, k := range createtable.Keys(create) {
							got = append(got, fmt.Sprintf("{%s %s %q %s}", k.Kind, k.Name, k.Parts, k.Options))
						}
						if fmt.Sprint(got) != want {
							t.Errorf("%s: %s, want %s", create, got, want)
						}
					}
					for _, create := range []string{line, " " + line, "CREATE TABLE `t` (\n" + line + "\n)"} {
						if got := createtable.Keys(create); len(got) > 0 {
							t.Errorf("%q: %q", create, got)
						}
					}
				}
			}
		}
	}
}

// TestKinds classifies keys and columns.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		k                createtable.Key
		hidden, overlaps bool
	}{
		{createtable.Key{}, false, false},
		{createtable.Key{Parts: []string{"`a`", "`p` WITHOUT OVERLAPS"}}, false, true},
		{createtable.Key{Parts: []string{"`p` WITHOUT OVERLAPS"}}, false, true},
		{createtable.Key{Parts: []string{"`p` WITHOUT OVERLAPS", "`a`"}}, false, false},
		{createtable.Key{Parts: []string{"` WITHOUT OVERLAPS`"}}, false, false},
		{createtable.Key{Options: "USING BTREE IGNORED"}, true, false},
		{createtable.Key{Options: "COMMENT 'x' /*!80000 INVISIBLE */"}, true, false},
		{createtable.Key{Options: "COMMENT 'IGNORED'"}, false, false},
	} {
		if tt.k.Hidden() != tt.hidden || tt.k.WithoutOverlaps() != tt.overlaps {
			t.Errorf("%+v: hidden %t, without overlaps %t", tt.k, tt.k.Hidden(), tt.k.WithoutOverlaps())
		}
	}
	for extra, want := range map[string]bool{
		"VIRTUAL GENERATED": true, "virtual generated": true, "STORED GENERATED": true, "stored generated INVISIBLE": true, "PERSISTENT": true, "Persistent": true,
		"": false, "auto_increment": false, "DEFAULT_GENERATED": false, "DEFAULT_GENERATED on update CURRENT_TIMESTAMP": false, "VIRTUAL": false, "STORED": false, "INVISIBLE": false,
	} {
		if createtable.IsGenerated(extra) != want {
			t.Errorf("%q: %t", extra, !want)
		}
	}
}
