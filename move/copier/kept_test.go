package copier_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/move/copier"
)

// TestEmptiedFollowed empties a followed target table between two runs, after changes in the source. The next run fails unless the source's first
// row may be new: then the target had no row with its key.
func TestEmptiedFollowed(t *testing.T) {
	p := newPair(t, "emptied")
	remote := overTheWire(t, root(p.from), wire.NoCompression)
	const lost = "resume the copy to emptied.a: the state in the target records copied rows, but the table is empty"
	for i, tt := range []struct {
		name, where string
		change      []string
		want        string
	}{
		{"no change", "", nil, lost},
		{"other rows are inserted", "", []string{"INSERT INTO a VALUES ('x', 1)", "UPDATE a SET n = 5 WHERE k = 'b'"}, lost},
		{"the row is changed", "", []string{"UPDATE a SET n = n + 1"}, lost},
		{"the row is deleted and written again", "", []string{"DELETE FROM a", "INSERT INTO a VALUES ('a', 9)"}, lost},
		{"rows of another condition", "n < 3", []string{"UPDATE a SET n = 7 WHERE k = 'b'"}, lost},
		{"all rows are deleted", "", []string{"DELETE FROM a"}, ""},
		{"all rows of the condition are deleted", "n < 3", []string{"DELETE FROM a WHERE n < 3"}, ""},
		{"a row gets another key", "", []string{"DELETE FROM a WHERE k <> 'a'", "UPDATE a SET k = 'A'"}, ""},
		{"rows are replaced", "", []string{"DELETE FROM a", "INSERT INTO a VALUES ('v', 1), ('w', 2)"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && !slices.Contains([]int{1, 6, 7}, i) {
				t.Skip("two or three copies in each case")
			}
			sqlExec(t, p.source, "DROP TABLE IF EXISTS a", "CREATE TABLE a (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)", "INSERT INTO a VALUES ('a', 1), ('b', 2), ('c', 3)")
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS emptied", "DROP DATABASE IF EXISTS _tare")
			if p.over = nil; i%2 == 0 {
				p.over = remote
			}
			o := p.options("a")
			o.Follow, o.Tables[0].Where = true, tt.where
			goesOn(t, o, "")
			sqlExec(t, p.source, tt.change...)
			if tt.want != "" {
				sqlExec(t, p.target, "TRUNCATE TABLE emptied.a")
			} else {
				sqlExec(t, p.target, "DELETE FROM emptied.a") // as the changes do
			}
			if _, err := copier.Plan(t.Context(), o); (err == nil) != (tt.want == "") {
				t.Errorf("a dry run: %v", err)
			}
			goesOn(t, o, tt.want)
			if tt.want == "" {
				sql := "SELECT * FROM emptied.a WHERE " + cmp.Or(tt.where, "TRUE") + " ORDER BY k"
				if d := gocmp.Diff(read(t, p.source, sql), read(t, p.target, sql)); d != "" {
					t.Errorf("- source, + target\n%s", d)
				}
			}
		})
	}
}

// TestMergeTruncated truncates a table on one of two sources. The merge resumes once the target has no rows of that source, and keeps those of the
// other. A target that was truncated, too, is refused. The stored generated column is compared chunk by chunk, with the rows of both sources in the
// range of each chunk.
func TestMergeTruncated(t *testing.T) {
	m := newMergeServers(t)
	a, b := ownedBy(0), ownedBy(1)
	m.both(t, "CREATE TABLE h (tenant BIGINT PRIMARY KEY, note VARCHAR(20), shout VARCHAR(20) AS (UPPER(note)) STORED)")
	sqlExec(t, m.source, fmt.Sprintf("INSERT INTO h (tenant, note) VALUES (%d, 'first'), (%d, 'first')", a[0], a[1]))
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO h (tenant, note) VALUES (%d, 'second')", b[0]))
	parts := m.parts(t, "h: hash(tenant)")
	if _, err := m.run(t.Context(), parts, nil); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, m.other, fmt.Sprintf("INSERT INTO h (tenant, note) VALUES (%d, 'second')", b[1]), "TRUNCATE TABLE h", fmt.Sprintf("INSERT INTO h (tenant, note) VALUES (%d, 'new')", b[2]))
	var statement string
	for _, remedy := range []string{"all before it is in the target: ", "everything before that is in the target: "} {
		_, err := m.run(t.Context(), parts, nil)
		if err == nil {
			t.Fatal("no error")
		}
		_, rest, found := strings.Cut(err.Error(), remedy)
		next, _, ends := strings.Cut(rest, " there, ")
		if !found || !ends || !strings.HasPrefix(next, "DELETE FROM `merge`.`h` WHERE ") || statement != "" && next != statement {
			t.Fatalf("%q before %v", statement, err)
		}
		statement = next
	}
	sqlExec(t, m.target, statement)
	if _, err := m.run(t.Context(), parts, nil); err != nil {
		t.Fatal(err)
	}
	m.union(t, "h")
	if got := read(t, m.target, "SELECT note FROM merge.h ORDER BY note"); !slices.Equal(got, []string{`["first"]`, `["first"]`, `["new"]`}) {
		t.Errorf("the target has %v", got)
	}
	sqlExec(t, m.target, "TRUNCATE TABLE merge.h")
	m.refused(t, parts, "resume the copy to merge.h: the state in the target records copied rows, but the table is empty")
}
