package pool

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestMovable(t *testing.T) {
	mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("9.7.0")).WithCharset(sqldigest.CharsetNamed([]byte("utf8mb4")))
	for sql, want := range map[string]bool{
		"SET NAMES utf8mb4":                                             true,
		"set names 'latin1' collate latin1_bin":                         true,
		"SET NAMES utf8mb4, time_zone = '+00:00';":                      true,
		"SET autocommit = 0":                                            true,
		"SET AUTOCOMMIT=1 -- again":                                     true,
		"SET @@session.sql_mode = 'ANSI_QUOTES'":                        true,
		"SET @@sql_mode = ''":                                           true,
		"SET SESSION sql_mode = ANSI, group_concat_max_len := 100":      true,
		"SET @@SESSION.time_zone='+02:00', @@local.unique_checks=OFF":   true,
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED":        true,
		"SET LOCAL TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE": true,
		"SET transaction_isolation = 'READ-COMMITTED'":                  true,
		"SET @@session.tx_isolation = 'READ-COMMITTED'":                 true,
		"SET character_set_results = NULL":                              true,
		"SET sql_auto_is_null = 0":                                      true,
		"SET default_week_format = -1":                                  true,
		"SET sql_select_limit = DEFAULT":                                true,

		"SET @@transaction_isolation = 'READ-COMMITTED'":       false, // the next transaction only
		"SET TRANSACTION READ ONLY":                            false,
		"SET sql_auto_is_null = 1":                             false,
		"SET sql_mode = CONCAT(@@sql_mode, ',ANSI')":           false,
		"SET sql_mode = @@sql_mode":                            false,
		"SET sql_mode = @m":                                    false,
		"SET sql_mode = (SELECT 'ANSI')":                       false,
		"SET group_concat_max_len = 1 + 1":                     false,
		"SET group_concat_max_len = f()":                       false,
		"SET time_zone = 'a' 'b'":                              false,
		"SET time_zone = _latin1'x'":                           false,
		`SET time_zone = '\x'`:                                 false,
		"SET time_zone = 'ä'":                                  false,
		`SET time_zone = "+00:00"`:                             false,
		"SET @a = 1":                                           false,
		"SET GLOBAL sql_mode = ''":                             false,
		"SET @@global.sql_mode = ''":                           false,
		"SET SESSION sql_mode = '', GLOBAL max_join_size = 1":  false,
		"SET PERSIST sql_mode = ''":                            false,
		"SET CHARACTER SET latin1":                             false,
		"SET NAMES DEFAULT":                                    false,
		"SET ROLE r":                                           false,
		"SET PASSWORD = 'x'":                                   false,
		"SET timestamp = 1":                                    false,
		"SET last_insert_id = 1":                               false,
		"SET rand_seed1 = 1":                                   false,
		"SET sql_log_bin = 0":                                  false,
		"SET pseudo_thread_id = 1":                             false,
		"SET session_track_system_variables = '*'":             false,
		"SET STATEMENT max_statement_time = 1 FOR SELECT 1":    false,
		"SET sql_mode = ''; SELECT 1":                          false,
		"SET sql_mode":                                         false,
		"SET":                                                  false,
		"SELECT 1":                                             false,
		"SET SESSION":                                          false,
		"SET time_zone = '+00:00',":                            false,
		"SET autocommit = 0, @x = 1":                           false,
		"SET `sql_mode` = ''":                                  false,
		"SET a_name_that_is_longer_than_forty_bytes_is_none=1": false,
	} {
		if got := Movable([]byte(sql), mode); got != want {
			t.Errorf("Movable(%q) = %v, want %v", sql, got, want)
		}
	}
	if Movable([]byte("SET NAMES utf8mb4"), mode.WithCharset(0)|sqldigest.UnknownSQLMode) {
		t.Error("a statement is movable although the mode is unknown")
	}
}
