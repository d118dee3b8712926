package gateway

import (
	"testing"
)

func TestMayReadDiagnostics(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                  false,
		"INSERT INTO t VALUES (1, 'x')":     false,
		"SELECT row_coun":                   false,
		"SELECT ROW_COUNT()":                true,
		"INSERT INTO t SELECT Found_Rows()": true,
		"show warnings":                     true,
		"SELECT @@error_count":              true,
		"GET DIAGNOSTICS @n = NUMBER":       true,
		"SELECT rROW_COUNT, FOUND_ROW, WARNINXerro": true,
		"SELECT FOUND_ROW, WARNIN, ERRO, DIAGNOSTI": false,
	} {
		if got := mayReadDiagnostics([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
