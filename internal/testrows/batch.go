package testrows

import (
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Row returns a row of texts and nils.
func Row(values ...any) mysqlwire.TextRow {
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

// BatchOf returns a batch with rows.
func BatchOf(rows ...mysqlwire.TextRow) *rowstream.Batch {
	b := new(rowstream.Batch)
	if len(rows) > 0 {
		b.Reset(len(rows[0]))
	}
	for _, r := range rows {
		b.AppendRow(r)
	}
	return b
}

// RowsOf returns the rows of a batch, as views of it.
func RowsOf(t testing.TB, b *rowstream.Batch) []mysqlwire.TextRow {
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

// Values returns texts as values of columns.
func Values(texts ...string) [][]byte {
	var v [][]byte
	for _, s := range texts {
		v = append(v, []byte(s))
	}
	return v
}
