package binlog

import (
	"testing"
)

// TestChangeKind classifies statements by their effect on rows.
func TestChangeKind(t *testing.T) {
	for sql, want := range map[string]SchemaChangeKind{
		"CREATE INDEX i ON a (n)":                               ChangeIndex,
		"CREATE OR REPLACE UNIQUE INDEX i ON a (n)":             ChangeIndex,
		"DROP INDEX i ON a":                                     ChangeIndex,
		"ALTER TABLE a ADD COLUMN x INT":                        ChangeColumns,
		"ALTER ONLINE TABLE f.a ADD x INT, RENAME INDEX i TO j": ChangeColumns,
		"ALTER ONLINE IGNORE TABLE a ADD UNIQUE (x)":            ChangeOther,
		"alter table a rename column n to m":                    ChangeColumns,
		"ALTER TABLE a ADD COLUMN x INT COMMENT 'RENAME TO b'":  ChangeColumns,
		"ALTER TABLE a RENAME TO b":                             ChangeOther,
		"ALTER TABLE a ADD COLUMN x INT, RENAME b":              ChangeOther,
		"ALTER TABLE a DROP PARTITION p":                        ChangeOther,
		"ALTER TABLE a DISCARD TABLESPACE":                      ChangeOther,
		"TRUNCATE a":                                            ChangeTruncate,
		"TRUNCATE TABLE f.a":                                    ChangeTruncate,
		"RENAME TABLE a TO b":                                   ChangeOther,
		"DROP TABLE a":                                          ChangeOther,
		"CREATE OR REPLACE TABLE a (id INT)":                    ChangeOther,
		"DROP DATABASE f":                                       ChangeOther,
	} {
		f := described(intColumn)
		f.name, f.table.Name = "a", "a"
		r, _ := newLogReader(f, "")
		if got := r.classify(&query{schema: []byte("f"), text: []byte(sql)}); got.kind != statementSchema || got.change != want {
			t.Errorf("%s: %+v, want %d", sql, got, want)
		}
	}
}
