package gateway

import (
	"testing"
)

func TestMayReadLast(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                  false,
		"INSERT INTO t VALUES (1, 'x')":     false,
		"SELECT row_coun":                   false,
		"SELECT ROW_COUNT()":                true,
		"INSERT INTO t SELECT Found_Rows()": true,
		"show warnings":                     true,
		"SELECT @@error_count":              true,
		"GET DIAGNOSTICS @n = NUMBER":       true,
		"SELECT trace FROM information_schema.optimizer_trace": true,
		"SHOW PROFILES":                             true,
		"SHOW SESSION STATUS LIKE 'x'":              true,
		"SELECT rROW_COUNT, FOUND_ROW, WARNINXerro": true,
		"SELECT FOUND_ROW, WARNIN, ERRO, DIAGNOSTI, OPTIMIZER_TRAC, PROFI, STATU": false,
	} {
		if got := mayReadLast([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
