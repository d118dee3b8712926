package querylog

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestRedactedErrors redacts messages of servers, and forged ones that try to expose a value.
func TestRedactedErrors(t *testing.T) {
	long := "Duplicate entry '" + strings.Repeat("x", serverCuts) + "' for key 'k'"
	for _, c := range []struct {
		number uint16
		text   string
		want   string
	}{
		{1062, "Duplicate entry 'ann' for key 'users.name'", "Duplicate entry '?' for key 'users.name'"},
		{1062, "Duplicate entry 'O'Brien' for key 'k'", "Duplicate entry '?' for key 'k'"},
		{1062, "Duplicate entry 'x' for key 'secret' for key 'uk_email'", "Duplicate entry '?' for key 'uk_email'"},
		{1062, "Duplicate entry 'x' for key '4111'", "Duplicate entry '?' for key '?'"},
		{1062, "Duplicate entry 'x' for key 'a secret'", "Duplicate entry '?' for key '?'"},
		{1062, "Duplicate entry 'x' for key 'k", "?"},
		{1062, "Doppelter Eintrag 'x' für Schlüssel 'k'", "?"},
		{1062, "card 4111 declined for ann", "?"},
		{1062, long, "?"},
		{1054, "Unknown column 'x' in 'field list'", "Unknown column 'x' in 'field list'"},
		{1054, "Unknown column 'x' in 'ann lee'", "Unknown column 'x' in '?'"},
		{1146, "Table 'shop.t' doesn't exist", "Table 'shop.t' doesn't exist"},
		{1406, "Data too long for column 'name' at row 12", "Data too long for column 'name' at row ?"},
		{1366, "Incorrect integer value: 'a'b' for column `shop`.`t`.`n` at row 1", "Incorrect integer value: '?' for column `shop`.`t`.`n` at row ?"},
		{1292, "Truncated incorrect DOUBLE value: 'x value: 'y'", "Truncated incorrect ? value: '?'"},
		{1205, "Lock wait timeout exceeded; try restarting transaction", "Lock wait timeout exceeded; try restarting transaction"},
		{1205, "Lock wait for ann; try restarting transaction", "?"},
		{1644, "card 4111 declined for ann", "?"},
		{4999, "a new error", "?"},
		{0, "Can't connect to 10.0.0.1", "Can't connect to ?.?.?.?"},
		{0, "value 'cut off", "value '?'"},
		{0, "isn't 'xn't secret'", "isn't '?'"},
	} {
		if got := string(appendRedactedError(nil, sqldigest.ServerUnknown, c.number, []byte(c.text))); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestShapedErrors redacts messages by the servers' lists.
func TestShapedErrors(t *testing.T) {
	for _, c := range []struct {
		server sqldigest.ServerKind
		number uint16
		text   string
		want   string
	}{
		{sqldigest.ServerMariaDB, 1020, "Record has changed since last read in table 'orders'; try restarting transaction", "Record has changed since last read in table 'orders'; try restarting transaction"},
		{sqldigest.ServerMySQL, 1020, "Record has changed since last read in table 'orders'; try restarting transaction", "?"},
		{sqldigest.ServerUnknown, 1020, "Record has changed since last read in table 'orders'; try restarting transaction", "?"},
		{sqldigest.ServerMySQL, 1231, "Variable 'sql_mode' can't be set to the value of 'ann'", "Variable 'sql_mode' can't be set to the value of '?'"},
		{sqldigest.ServerMySQL, 1231, "Variable 'x' can't be set to the value of 'b' can't be set to the value of 'c'", "Variable '?' can't be set to the value of '?'"},
		{sqldigest.ServerMySQL, 1735, "Unknown partition 'p1' in table 't'", "Unknown partition 'p1' in table 't'"},
		{sqldigest.ServerMySQL, 1735, "Unknown partition 'p 1' in table '4111'", "Unknown partition '?' in table '?'"},
		{sqldigest.ServerMySQL, 3140, "Invalid JSON text: \"Invalid value.\" at position 7 in value for column 't.j'.", "Invalid JSON text: \"?\" at position ? in value for column '?'."},
		{sqldigest.ServerMySQL, 3140, "Invalid JSON text: \"Invalid value.\" at position ann in value for column 't.j'.", "?"},
		{sqldigest.ServerTiDB, 8047, "variable 'tx' does not yet support value: ann", "variable 'tx' does not yet support value: ?"},
		{sqldigest.ServerTiDB, 8047, "", "?"},
		{sqldigest.ServerMariaDB, 1103, "Incorrect table name 'ann'", "Incorrect table name '?'"}, // a DATA DIRECTORY
		{sqldigest.ServerMariaDB, 65535, "x", "?"},
	} {
		if got := string(appendRedactedError(nil, c.server, c.number, []byte(c.text))); got != c.want {
			t.Errorf("%v %d %q: got %q, want %q", c.server, c.number, c.text, got, c.want)
		}
	}
}

// TestNumbers compares decimal numbers around every power of ten with strconv's.
func TestNumbers(t *testing.T) {
	for _, p := range powers {
		for d := -2; d <= 2; d++ {
			checkNumber(t, p+uint64(d))
		}
	}
	for i := range 64 {
		checkNumber(t, 1<<i)
		checkNumber(t, 1<<i-1)
	}
	for v := range 256 {
		if got := string(appendOctet(nil, byte(v))); got != strconv.Itoa(v) {
			t.Errorf("octet %d: got %s", v, got)
		}
	}
	for ns := uint32(1); ns < 1e9; ns = ns*7 + 3 {
		if got, want := string(appendNanos(nil, ns)), fmt.Sprintf("%09dZ", ns); got != want {
			t.Errorf("nanoseconds: got %s, want %s", got, want)
		}
	}
	checkNumber(t, 1<<64-1)
}

func checkNumber(t *testing.T, v uint64) {
	t.Helper()
	if got, want := string(appendUint(nil, v)), strconv.FormatUint(v, 10); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(appendInt(nil, int64(v))), strconv.FormatInt(int64(v), 10); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
