package wire

import (
	"testing"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

func row(values ...any) mysqlwire.TextRow {
	r := mysqlwire.TextRow{}
	for _, v := range values {
		if v == nil {
			r = append(r, nil)
			continue
		}
		r = append(r, []byte(v.(string)))
	}
	return r
}

func batchOf(rows ...mysqlwire.TextRow) *rowstream.Batch {
	b := new(rowstream.Batch)
	if len(rows) > 0 {
		b.Reset(len(rows[0]))
	}
	for _, r := range rows {
		b.AppendRow(r)
	}
	return b
}

func rowsOf(t *testing.T, b *rowstream.Batch) []mysqlwire.TextRow {
	t.Helper()
	var rows []mysqlwire.TextRow
	for at := 0; at < len(b.Bytes); {
		var r mysqlwire.TextRow
		next, err := b.Row(at, &r)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
		at = next
	}
	return rows
}
