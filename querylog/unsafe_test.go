package querylog_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// TestLinesAreSafeToDisplay logs every character of Unicode in both formats: those that may change how a line is
// displayed, by Unicode's own lists, are escaped, and each can be read back.
func TestLinesAreSafeToDisplay(t *testing.T) {
	unsafe := func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	}
	var all strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r < 0xD800 || r > 0xDFFF {
			all.WriteRune(r)
		}
	}
	r := &querylog.Record{Start: time.Unix(1, 0), Normalized: []byte(all.String())}
	asJSON, asText := line(r, querylog.JSON, querylog.RedactNone), line(r, querylog.Text, querylog.RedactNone)
	for name, b := range map[string][]byte{"JSON": asJSON, "text": bytes.ReplaceAll(asText, []byte("\t"), nil)} {
		if at := bytes.IndexFunc(bytes.TrimSuffix(b, []byte("\n")), unsafe); at >= 0 {
			t.Errorf("%s: %q at byte %d", name, b[at:at+4], at)
		}
	}
	if !json.Valid(asJSON) {
		t.Error("invalid JSON")
	}
	made, _, err := querylog.AppendAsText(nil, asJSON, nil)
	if err != nil || !bytes.Equal(made, asText) {
		t.Errorf("text made of JSON: %v, or it differs", err)
	}
}

// TestShortBinds logs values of every type in every length, also those that are too short for their type: a caller's
// mistake must not end it.
func TestShortBinds(t *testing.T) {
	for typ := range 0x100 {
		for length := range 13 {
			for _, unsigned := range []bool{false, true} {
				v := mysqlwire.BinaryValue{Data: make([]byte, length), ValueType: mysqlwire.ValueType{Type: mysqlwire.ColumnType(typ), Unsigned: unsigned}}
				r := &querylog.Record{Start: time.Unix(1, 0), Binds: []mysqlwire.BinaryValue{v}}
				if b := line(r, querylog.JSON, querylog.RedactNone); !json.Valid(b) {
					t.Errorf("type %#x, %d bytes: %s", typ, length, b)
				}
			}
		}
	}
}
