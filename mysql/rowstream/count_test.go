package rowstream_test

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestCount reads chunks over a session that gets a limit of rows after it was opened.
func TestCount(t *testing.T) {
	server := testmysql.Start(t)
	c := testrows.Connect(t, testrows.Root(server))
	testrows.Exec(t, c, "CREATE DATABASE counted", "USE counted", "CREATE TABLE counted.t (id INT PRIMARY KEY)", "INSERT INTO counted.t SELECT seq FROM seq_1_to_100")
	table, err := rowstream.ReadTable(t.Context(), c, "counted", "t")
	if err != nil {
		t.Fatal(err)
	}
	s, err := rowstream.OpenSnapshot(t.Context(), testrows.Root(server), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for limit, want := range map[string]error{"18446744073709551615": nil, "99": rowstream.ErrShort, "0": rowstream.ErrShort, "100": nil} {
		testrows.Exec(t, rowstream.Clients(s)[0], "SET SESSION sql_select_limit = "+limit)
		rows, got := int64(0), error(nil)
		for _, err := range s.Reader(0).Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{Count: &rows}) {
			got = err
		}
		if !errors.Is(got, want) {
			t.Errorf("limit %s: %d rows, %v; want %v", limit, rows, got, want)
		}
	}
}
