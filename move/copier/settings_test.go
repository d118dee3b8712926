package copier_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/move/copier"
)

// TestServerSettings copies between servers whose sessions inherit settings that lose rows, refuse statements
// or leave transactions open. The end-to-end tests do so for every variable that servers have.
func TestServerSettings(t *testing.T) {
	p := newPairAlone(t, "settings")
	sqlExec(t, p.source, "CREATE TABLE t (id INT PRIMARY KEY, c CHAR(9), at TIMESTAMP(6) NOT NULL, KEY (c)) DEFAULT CHARSET=latin1",
		"INSERT INTO t SELECT seq, seq, FROM_UNIXTIME(seq) FROM seq_1_to_5000")
	for _, setting := range []string{
		"sql_select_limit = 1000", "autocommit = 0", "completion_type = 2", "sql_mode = 'ORACLE,PAD_CHAR_TO_FULL_LENGTH'", "sql_safe_updates = 1",
		"max_join_size = 1", "tx_read_only = 1", "max_session_mem_used = 8192", "sql_quote_show_create = 0", "time_zone = '+05:00'", "old_mode = 'ZERO_DATE_TIME_CAST'",
	} {
		name, _, _ := strings.Cut(setting, " ")
		t.Run(name, func(t *testing.T) {
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS settings", "DROP DATABASE IF EXISTS _tare")
			for _, side := range []*struct{ set, restore string }{{"SET GLOBAL " + setting, "SET GLOBAL " + name + " = DEFAULT"}} {
				if name == "time_zone" {
					side.restore = "SET GLOBAL time_zone = 'SYSTEM'"
				}
				sqlExec(t, p.source, side.set)
				sqlExec(t, p.target, side.set)
				defer sqlExec(t, p.source, side.restore)
				defer sqlExec(t, p.target, side.restore)
			}
			o := p.options("t")
			o.Verify = true
			report, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Mismatches() != 0 || report.Tables[0].Verify.Rows != 5000 {
				t.Errorf("%+v", report.Tables[0])
			}
			p.same(t, "t")
		})
	}
}
