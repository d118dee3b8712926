package rowstream

import (
	"context"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Ident returns a name, quoted for SQL.
func Ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Idents joins quoted names by commas.
func Idents(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Ident(n)
	}
	return strings.Join(quoted, ", ")
}

// Quote returns a text as an SQL literal.
func Quote(s string) string { return string(AppendQuoted(nil, []byte(s))) }

// QueryValue returns the value of a statement with one row and column; empty if there is no row.
func QueryValue(ctx context.Context, c *mysqlconn.Client, sql string) (value string, err error) {
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		value = string(row[0])
		return nil
	})
	return value, err
}
