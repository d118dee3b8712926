package state

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/testrows"
)

// TestReadJob parses a row of the jobs' query, and refuses one with another text in place of each number and time.
func TestReadJob(t *testing.T) {
	good := []any{"db", "t", "4", "source", "all", "finished", "KEY a (a)\nKEY b (b)\n", "2026-01-02 03:04:05", "2026-01-02 03:05:05", "3", "2", "700", "1"}
	j, err := readJob(testrows.Row(good...))
	if err != nil || j.Target != "db.t" || j.Version != 4 || j.Chunks != 3 || j.Copied != 2 || j.Rows != 700 || !j.AllCut || j.Indexes != 2 || j.Finished == nil || !j.Finished.Equal(time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC)) || j.Started.IsZero() {
		t.Errorf("got %+v, %v", j, err)
	}
	for _, column := range []int{2, 7, 8, 9, 10, 11} {
		bad := append([]any{}, good...)
		bad[column] = "x"
		if j, err := readJob(testrows.Row(bad...)); err == nil {
			t.Errorf("column %d is x: %+v", column, j)
		}
	}
	good[8], good[12] = nil, "0"
	if j, err := readJob(testrows.Row(good...)); err != nil || j.Finished != nil || j.AllCut {
		t.Errorf("an unfinished one: %+v, %v", j, err)
	}
}
