package rowstream_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestSetOrdinals writes values of ReadExpr of SETs with 64 members, whose numbers have more bits than a
// double: the same members are set.
func TestSetOrdinals(t *testing.T) {
	c := testrows.Connect(t, testrows.App(testmysql.Start(t)))
	members := make([]string, 64)
	for i := range members {
		members[i] = fmt.Sprintf("'m%d'", i)
	}
	testrows.Exec(t, c, "CREATE DATABASE sets", "CREATE TABLE sets.a (id INT PRIMARY KEY, s SET("+strings.Join(members, ", ")+"))", "CREATE TABLE sets.b LIKE sets.a",
		"INSERT INTO sets.a VALUES (1, 0), (2, 4611686018427387905), (3, 18446744073709551615), (4, 9223372036854775809), (5, NULL)")
	table, err := rowstream.ReadTable(t.Context(), c, "sets", "a")
	if err != nil {
		t.Fatal(err)
	}
	list, wraps := rowstream.InsertColumns(table.Columns)
	stmt, _, rows, err := rowstream.AppendInsert(nil, "INSERT INTO sets.b "+list+" VALUES ", testrows.BatchOf(testrows.Selected(t, c, table)...), 0, 1<<20, wraps)
	if err != nil || rows != 5 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	testrows.Exec(t, c, string(stmt))
	const text = "SELECT CONCAT(id, ' ', IFNULL(CONCAT(s, ''), 'NULL')) FROM sets."
	if diff := cmp.Diff(testrows.Column(t, c, text+"a"), testrows.Column(t, c, text+"b")); diff != "" {
		t.Error(diff)
	}
}
