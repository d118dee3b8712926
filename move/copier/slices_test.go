package copier_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestSlices copies a table with and without a limit: with one each statement at the target has a slice of the rows, after which
// there can be a pause.
func TestSlices(t *testing.T) {
	p := newPair(t, "slices")
	const rows, bytes = 4000, 120 // of a row, at least
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(200))",
		fmt.Sprintf("INSERT INTO a SELECT seq, REPEAT('x', %d) FROM seq_1_to_%d", bytes, rows), "ANALYZE TABLE a")
	loads := func(limits throttle.Options) int64 {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS slices", "DROP DATABASE IF EXISTS _tare")
		o := p.options("a")
		o.Throttle = limits
		before := statusNumber(t, p.target, "Com_load")
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		p.same(t, "a")
		return statusNumber(t, p.target, "Com_load") - before
	}
	if n := loads(throttle.Options{}); n == 0 || n > 10 {
		t.Errorf("%d statements without a limit", n)
	}
	near := throttle.Options{Server: root(p.from), Query: "SELECT 9", Above: 10} // so that the rate does not grow
	if n := loads(near); n < rows*bytes/copier.SliceBytes {
		t.Errorf("%d statements for %d rows with a limit", n, rows)
	}
}

// statusNumber returns a status variable of a server.
func statusNumber(t *testing.T, c *mysqlconn.Client, name string) (n int64) {
	t.Helper()
	if _, err := c.Query(t.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'", func(row mysqlwire.TextRow) (err error) {
		n, err = strconv.ParseInt(string(row[1]), 10, 64)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
