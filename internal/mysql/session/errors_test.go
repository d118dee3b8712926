package session_test

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestIsUnseen lists the errors that are absences or denials.
func TestIsUnseen(t *testing.T) {
	for number, want := range map[mysqlwire.Errno]bool{
		1193: true, 1146: true, 1109: true, 1054: true, 1305: true, // missing
		1044: true, 1142: true, 1227: true, // denied
		1030: false, 1064: false, 1105: false, 1205: false, 1213: false, 1317: false, 2013: false,
	} {
		if err := error(&mysqlconn.ServerError{Number: number}); session.IsUnseen(err) != want {
			t.Errorf("%d: %v, want %v", number, !want, want)
		}
	}
	if session.IsUnseen(nil) || session.IsUnseen(errors.New("lost")) {
		t.Error("no error of a server is an absence")
	}
}
