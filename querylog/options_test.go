package querylog_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/querylog"
)

// TestValidate passes invalid options to New, each with a word of the expected error.
func TestValidate(t *testing.T) {
	file := func(s querylog.SinkOptions) querylog.Options {
		return querylog.Options{Sinks: []querylog.SinkOptions{s}}
	}
	for _, c := range []struct {
		o    querylog.Options
		want string
	}{
		{querylog.Options{MaxText: -1}, "negative"},
		{querylog.Options{RingBytes: 100}, "ring of 100 bytes"},
		{querylog.Options{RingRedaction: 9}, "redaction 9"},
		{querylog.Options{Sampling: querylog.Sampling{SlowerThan: -1}}, "slower-than"},
		{file(querylog.SinkOptions{}), "a path or a writer"},
		{file(querylog.SinkOptions{Path: "a", Writer: io.Discard}), "a path or a writer"},
		{file(querylog.SinkOptions{Path: "a", Format: 7}), "format 7"},
		{file(querylog.SinkOptions{Path: "a", Redaction: 7}), "redaction 7"},
		{file(querylog.SinkOptions{Path: "a", QueueBytes: -1}), "queue"},
		{file(querylog.SinkOptions{Path: "-", Rotation: querylog.Rotation{Bytes: 1}}), "only a file"},
		{file(querylog.SinkOptions{Path: "a", Rotation: querylog.Rotation{Bytes: -1}}), "negative"},
		{file(querylog.SinkOptions{Path: "a", Rotation: querylog.Rotation{Keep: 3}}), "neither a size nor an age"},
		{file(querylog.SinkOptions{Path: "a", Rotation: querylog.Rotation{Bytes: 1, Compression: 9}}), "compression 9"},
		{querylog.Options{Sinks: []querylog.SinkOptions{{Path: "a"}, {Path: "a"}}}, "already"},
		{file(querylog.SinkOptions{Path: filepath.Join(t.TempDir(), "none", "query.log")}), "does not exist: create it"},
	} {
		l, err := querylog.New(c.o)
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
	for f := range querylog.Text + 1 {
		if got, err := querylog.ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%v: got %v, %v", f, got, err)
		}
	}
	if _, err := querylog.ParseFormat("yaml"); err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("got %v", err)
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
	for _, f := range []querylog.Format{querylog.JSON, querylog.Text} {
		if !strings.Contains(string(line(r, f, querylog.RedactNone)), secret) {
			t.Errorf("%v: the secret is not in the whole line", f)
		}
		if got := line(r, f, querylog.RedactLiterals); strings.Contains(string(got), secret) || !strings.Contains(string(got), "where") {
			t.Errorf("%v, literals: %s", f, got)
		}
		got := string(line(r, f, querylog.RedactAll))
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
	l := querylog.Line{OriginalText: true, MaxText: 2, MaxBind: 4}
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
	many := make([]querylog.Tag, 100)
	for i := range many {
		many[i] = querylog.Tag{Key: []byte{byte(i)}, Value: []byte("v")}
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
		l := querylog.Line{Format: querylog.Text}
		l.Begin(nil, "x")
		l.Time("t", c.t)
		if got := strings.TrimSpace(string(l.End())); got != "kind:x\tt:"+c.want {
			t.Errorf("%v: got %s", c.t, got)
		}
	}
}

// TestRecordFields reads each field that filters may name from a record with all fields.
func TestRecordFields(t *testing.T) {
	r := everything()
	for _, name := range querylog.RecordFields() {
		v := r.FieldValue(name)
		if len(v.Text) == 0 && v.Number == 0 {
			t.Errorf("%s: the record has no value for a filter", name)
		}
		f, err := querylog.ParseFilter(name + "=x")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.CheckRecord(); err != nil {
			t.Error(err)
		}
	}
	f, err := querylog.ParseFilter("user=app usr=app")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckRecord(); err == nil || !strings.Contains(err.Error(), `unknown field usr (did you mean user?)`) {
		t.Errorf("got %v, want an error about usr", err)
	}
}
