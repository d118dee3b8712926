package gateway

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestPreparedName(t *testing.T) {
	for _, c := range []struct {
		sql  string
		mode sqldigest.Mode
		want string
	}{
		{"PREPARE by_id FROM 'SELECT ?'", 0, "by_id"},
		{"prepare /* its name */ `by id` from @sql", 0, "by id"},
		{`PREPARE "by id" FROM 'SELECT 1'`, sqldigest.ANSIQuotes, "by id"},
		{"PREPARE `a``b` FROM 'SELECT 1'", 0, "a`b"},
		{"EXECUTE by_id USING @a, @b", 0, "by_id"},
		{"SET STATEMENT max_statement_time=1 FOR EXECUTE by_id", 0, "by_id"},
		{"DEALLOCATE PREPARE by_id", 0, "by_id"},
		{"DROP PREPARE by_id", 0, "by_id"},
		{"EXECUTE IMMEDIATE 'SELECT 1'", 0, ""},
		{"EXECUTE", 0, ""},
		{"EXECUTE `", 0, ""},
		{"EXECUTE `a", 0, "a"},
		{"EXECUTE ``", 0, ""},
	} {
		if got := preparedName([]byte(c.sql), c.mode); string(got) != c.want {
			t.Errorf("%s: got %q, want %q", c.sql, got, c.want)
		}
	}
}
