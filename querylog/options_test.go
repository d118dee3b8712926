package querylog

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/sqldigest"
)

// TestValidate passes invalid options to New, each with a word of the expected error.
func TestValidate(t *testing.T) {
	file := func(s SinkOptions) Options { return Options{Sinks: []SinkOptions{s}} }
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{MaxText: -1}, "negative"},
		{Options{RingBytes: 100}, "ring of 100 bytes"},
		{Options{RingRedaction: 9}, "redaction 9"},
		{Options{Sampling: Sampling{SlowerThan: -1}}, "slower-than"},
		{file(SinkOptions{}), "a path or a writer"},
		{file(SinkOptions{Path: "a", Writer: io.Discard}), "a path or a writer"},
		{file(SinkOptions{Path: "a", Format: 7}), "format 7"},
		{file(SinkOptions{Path: "a", Redaction: 7}), "redaction 7"},
		{file(SinkOptions{Path: "a", QueueBytes: -1}), "queue"},
		{file(SinkOptions{Path: "-", Rotation: Rotation{Bytes: 1}}), "only a file"},
		{file(SinkOptions{Path: "a", Rotation: Rotation{Bytes: -1}}), "negative"},
		{file(SinkOptions{Path: "a", Rotation: Rotation{Keep: 3}}), "neither a size nor an age"},
		{file(SinkOptions{Path: "a", Rotation: Rotation{Bytes: 1, Compression: 9}}), "compression 9"},
		{Options{Sinks: []SinkOptions{{Path: "a"}, {Path: "a"}}}, "already"},
		{file(SinkOptions{Path: filepath.Join(t.TempDir(), "none", "query.log")}), "does not exist: create it"},
	} {
		l, err := New(c.o)
		if err == nil {
			mustClose(t, l)
			t.Errorf("%+v is accepted", c.o)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %q, want %q in it", err, c.want)
		}
	}
}

// TestNames parses the result of String for each option that has names.
func TestNames(t *testing.T) {
	for f := range Text + 1 {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%v: got %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("yaml"); err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("got %v", err)
	}
}

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

// TestRedaction searches lines for a secret that they must not contain.
func TestRedaction(t *testing.T) {
	const secret = "s3cr3t"
	r := everything()
	r.Text = []byte("select '" + secret + "'")
	r.Binds = append(r.Binds, bind(0xFD, secret))
	r.BindNames = append(r.BindNames, []byte("card"))
	r.ErrorText = []byte("Duplicate entry '" + secret + "' for key 'k'")
	for _, f := range []Format{JSON, Text} {
		if !strings.Contains(string(line(r, f, RedactNone)), secret) {
			t.Errorf("%v: the secret is not in the whole line", f)
		}
		if got := line(r, f, RedactLiterals); strings.Contains(string(got), secret) || !strings.Contains(string(got), "where") {
			t.Errorf("%v, literals: %s", f, got)
		}
		got := string(line(r, f, RedactAll))
		for _, word := range []string{secret, "where", "orders", "Duplicate"} {
			if strings.Contains(got, word) {
				t.Errorf("%v, all: %q in %s", f, word, got)
			}
		}
	}
}

// TestCut truncates texts and bind variables at their limits and writes their full length.
func TestCut(t *testing.T) {
	r := everything()
	r.Text = []byte("aébc")
	r.TextBytes = 0
	r.Binds = append(r.Binds[:0:0], bind(0xFD, "xxxéyyy"), bind(0xFD, "xxx"), bind(0xFD, "\xff\xfe\xfd\xfc\xfb"))
	r.BindNames = nil
	l := Line{OriginalText: true, MaxText: 2, MaxBind: 4}
	l.Begin(nil, "x")
	l.SQL("text", r.Text, 0)
	l.SQL("sent", []byte("ab"), 900)
	l.MaxText = 0
	l.Binds("binds", r.Binds, nil)
	want := `{"kind":"x","text":"a","text_bytes":5,"sent":"ab","sent_bytes":900,"binds":[` +
		`{"type":"VAR_STRING","value":"xxx","bytes":8},{"type":"VAR_STRING","value":"xxx"},` +
		`{"type":"VAR_STRING","value_base64":"//79/A==","bytes":5}]}` + "\n"
	if got := string(l.End()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	l.MaxText = 100
	many := make([]Tag, 100)
	for i := range many {
		many[i] = Tag{Key: []byte{byte(i)}, Value: []byte("v")}
	}
	for range 7 {
		r.Binds = append(r.Binds, r.Binds...)
	}
	l.Begin(nil, "x")
	l.Binds("binds", r.Binds, nil)
	l.Tags("tags", many)
	got := l.End()
	if !strings.Contains(string(got), `"binds_count":384`) || !strings.Contains(string(got), `"tags_count":100`) || len(got) > 2000 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// TestYears writes extreme times: those outside RFC 3339 become the nearest valid one.
func TestYears(t *testing.T) {
	for _, c := range []struct {
		t    time.Time
		want string
	}{
		{time.Time{}, "0001-01-01T00:00:00.000000000Z"},
		{time.Date(-5, 1, 2, 3, 4, 5, 6, time.UTC), "0000-01-02T03:04:05.000000006Z"},
		{time.Date(12345, 1, 2, 3, 4, 5, 999999999, time.UTC), "9999-01-02T03:04:05.999999999Z"},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), "2026-01-02T02:04:05.000000000Z"},
	} {
		l := Line{Format: Text}
		l.Begin(nil, "x")
		l.Time("t", c.t)
		if got := strings.TrimSpace(string(l.End())); got != "kind:x\tt:"+c.want {
			t.Errorf("%v: got %s", c.t, got)
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

// TestRecordFields reads each field that filters may name from a record with all fields.
func TestRecordFields(t *testing.T) {
	r := everything()
	for _, name := range RecordFields() {
		v := r.FieldValue(name)
		if len(v.Text) == 0 && v.Number == 0 {
			t.Errorf("%s: the record has no value for a filter", name)
		}
		f, err := ParseFilter(name + "=x")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.CheckRecord(); err != nil {
			t.Error(err)
		}
	}
	f, err := ParseFilter("user=app usr=app")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckRecord(); err == nil || !strings.Contains(err.Error(), `unknown field usr (did you mean user?)`) {
		t.Errorf("got %v, want an error about usr", err)
	}
}
