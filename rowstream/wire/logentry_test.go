package wire

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// TestLogErrorText redacts a server's error by the message list of that server: each text is in the list of
// only one of them.
func TestLogErrorText(t *testing.T) {
	const maria, my = "11.8.2-MariaDB", "9.7.0"
	const byMaria, byMySQL = "Could not parse GTID list", "Server isn't available"
	for _, c := range []struct {
		version, message, behind, want string
		number                         mysqlwire.Errno
	}{
		{maria, byMaria, "", "read a chunk: server error ?: " + byMaria, 1941},
		{my, byMaria, "", "read a chunk: server error ?: ?", 1941},
		{my, byMySQL, "", "read a chunk: server error ?: " + byMySQL, 3168},
		{maria, byMySQL, "", "read a chunk: server error ?: ?", 3168},
		{maria, "Duplicate entry 'secret' for key 'PRIMARY'", "", "read a chunk: server error ?: Duplicate entry '?' for key 'PRIMARY'", 1062},
		{maria, byMaria, " at secret", "?", 1941},
	} {
		log, err := querylog.New(querylog.Options{RingBytes: 1 << 20, RingRedaction: querylog.RedactLiterals})
		if err != nil {
			t.Fatal(err)
		}
		refused := &mysqlconn.ServerError{Number: c.number, Message: c.message, Version: c.version}
		e := &LogEntry{Call: "read", Err: fmt.Sprintf("read a chunk: %v%s", refused, c.behind), Code: "Unknown"}
		e.setServerError(refused)
		log.LogEntry(e)
		if err := log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := httptest.NewRecorder()
		log.ServeHTTP(got, httptest.NewRequest("GET", "/debug/querylog?limit=1", nil))
		var line struct {
			Text string `json:"error_text"`
		}
		if err := json.Unmarshal(got.Body.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, got.Body)
		}
		if line.Text != c.want {
			t.Errorf("%s, error %d %s%s: %q, want %q", c.version, c.number, c.message, c.behind, line.Text, c.want)
		}
	}
}
