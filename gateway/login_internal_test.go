package gateway

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestKilledNumber(t *testing.T) {
	for sql, want := range map[string]string{
		"KILL 42": "42", "kill query 42": "42", "KILL SOFT QUERY ID 42 ;": "42", "/* x */ kill /* y */ connection 42 -- z": "42",
		"KILL 42; KILL 43": "", "KILL USER app": "", "KILL @x": "", "KILL 1+1": "", "select 42": "", "KILL": "",
	} {
		start, end, ok := killed([]byte(sql), sqldigest.Mode(0))
		if got := sql[start:end]; !ok && want != "" || ok && got != want {
			t.Errorf("%s: got %q, %v, want %q", sql, got, ok, want)
		}
	}
}
