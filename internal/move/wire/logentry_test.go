package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
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
		m := testrows.NewMemory(1, testrows.Row("1"))
		m.Err = fmt.Errorf("read a chunk: %w%s", &mysqlconn.ServerError{Number: c.number, Message: c.message, Version: c.version}, c.behind)
		_, addr := serve(t, wire.ServiceOptions{Server: m, Log: log})
		v, table := view(t, open(t, wire.RemoteOptions{Addr: addr}), 1)
		var refused *mysqlconn.ServerError
		if err := readErr(t.Context(), v.Reader(0), table, rowstream.Chunk{}); !errors.As(err, &refused) || refused.Number != c.number {
			t.Errorf("%v, want error %d", err, c.number)
		}
		if err := log.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := httptest.NewRecorder()
		log.ServeHTTP(got, httptest.NewRequest("GET", "/debug/querylog?for=0s", nil))
		var texts []string
		for b := range bytes.Lines(got.Body.Bytes()) {
			var line struct {
				Call string
				Text string `json:"error_text"`
			}
			if err := json.Unmarshal(b, &line); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if line.Call == "read" {
				texts = append(texts, line.Text)
			}
		}
		if len(texts) != 1 || texts[0] != c.want {
			t.Errorf("%s, error %d %s%s: %q, want %q", c.version, c.number, c.message, c.behind, texts, c.want)
		}
	}
}
