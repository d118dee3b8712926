package alter

import (
	"fmt"
	"strings"
	"testing"
)

// TestParse parses clauses and checks their effects on columns.
func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"ADD COLUMN note VARCHAR(200), DROP INDEX k, ADD INDEX k2 (a, b)", "ADD COLUMN note VARCHAR(200)|DROP INDEX k|ADD INDEX k2 (a, b) map[] map[note:true] map[]"},
		{"CHANGE a b INT, RENAME COLUMN C TO d;", "CHANGE a b INT|RENAME COLUMN C TO d map[b:a d:c] map[] map[]"},
		{"DROP COLUMN a, ADD COLUMN a INT DEFAULT 3 COMMENT 'x, (y'", "DROP COLUMN a|ADD COLUMN a INT DEFAULT 3 COMMENT 'x, (y' map[] map[a:true] map[a:true]"},
		{"ADD COLUMN (a INT, b DECIMAL(5,2))", "ADD COLUMN (a INT, b DECIMAL(5,2)) map[] map[a:true b:true] map[]"},
		{"MODIFY e ENUM('a','b,c','d''e') NOT NULL", "MODIFY e ENUM('a','b,c','d''e') NOT NULL map[] map[] map[]"},
		{"ENGINE=InnoDB, COMMENT='it''s'", "ENGINE=InnoDB|COMMENT='it''s' map[] map[] map[]"},
		{"CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET utf8mb4 map[] map[] map[]"},
		{"PARTITION BY HASH (id) PARTITIONS 4", "PARTITION BY HASH (id) PARTITIONS 4 map[] map[] map[]"},
	} {
		s, err := Parse("a", "t", tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var texts []string
		for _, c := range s.Clauses {
			texts = append(texts, c.Text)
		}
		if got := fmt.Sprint(strings.Join(texts, "|"), " ", s.renamed, " ", s.added, " ", s.dropped); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

// TestParseRefuses has texts that are not executed.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "no clauses",
		"ADD COLUMN":                       "parse",
		"ADD COLUMN a INT; DROP TABLE b":   "more than one statement",
		"ADD COLUMN a INT /*! , DROP b */": "comments",
		"ADD COLUMN a INT -- b":            "comments",
		"ADD COLUMN a INT # b":             "comments",
		"ADD COLUMN a INT COMMENT 'b":      "quote",
		"RENAME TO b":                      "RENAME TABLE separately",
		"ADD COLUMN a INT, ALGORITHM=COPY": "option always-copy",
		"ADD COLUMN a INT, LOCK=NONE":      "option always-copy",
		"DROP PARTITION p0":                "partitions are managed",
		"DISABLE KEYS":                     "no definition",
		"DISCARD TABLESPACE":               "no definition",
	} {
		if _, err := Parse("a", "t", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestAlters has the statements of clauses with an algorithm.
func TestAlters(t *testing.T) {
	s, err := Parse("a", "t", "DROP INDEX k, ADD COLUMN b INT PARTITION BY HASH (id)")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := alters("`t`", s.Clauses, "ALGORITHM=INSTANT"), "ALTER TABLE `t` ALGORITHM=INSTANT, DROP INDEX k, ADD COLUMN b INT PARTITION BY HASH (id)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s, err = Parse("a", "t", "PARTITION BY HASH (id)"); err != nil {
		t.Fatal(err)
	}
	if got, want := alters("`t`", s.Clauses, "ALGORITHM=COPY"), "ALTER TABLE `t` ALGORITHM=COPY PARTITION BY HASH (id)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
