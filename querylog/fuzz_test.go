package querylog_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

// fuzzed returns a record whose texts and numbers come from the fuzzer.
func fuzzed(a, b, c []byte, n uint64, t uint8) *querylog.Record {
	r := &querylog.Record{
		Start:         time.Unix(0, int64(n)),
		Total:         time.Duration(n >> 1),
		Plan:          time.Duration(n % 1000),
		Upstream:      time.Duration(n % 77),
		FirstByte:     time.Duration(n % 55),
		ConnectionID:  n,
		User:          string(a),
		Schema:        string(b),
		Backend:       string(c),
		Command:       mysqlwire.Command(t),
		StatementType: string(c),
		Normalized:    a,
		Text:          b,
		RowsReturned:  n,
		RowsAffected:  n / 3,
		BytesIn:       n / 5,
		BytesOut:      n / 7,
		Warnings:      uint16(n),
		Results:       uint32(n),
		ErrorNumber:   uint16(n) | 1,
		SQLState:      string(a),
		ErrorText:     c,
		PlanCached:    n&1 == 0,
		TransactionID: n,
		StatementName: b,
		StatementID:   uint32(n),
		Rule:          string(a),
		RuleAction:    string(b),
		PinnedReason:  string(c),
		Client:        netip.AddrPortFrom(netip.IPv6LinkLocalAllNodes().WithZone(string(a)), uint16(n)),
	}
	copy(r.Digest[:], a)
	eight := []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), byte(n >> 32), byte(n >> 40), byte(n >> 48), byte(n >> 56)}
	r.Binds = []mysqlwire.BinaryValue{
		{Data: a, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}},
		{Data: eight, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong, Unsigned: n&2 == 0}},
		{Data: eight, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeDouble}},
		{Data: eight[:4], ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeFloat}},
		{Data: b, ValueType: mysqlwire.ValueType{Type: mysqlwire.ColumnType(t | 0xF6)}},
		{Long: true, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeBlob}},
		{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeNull}},
		{Data: c, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeString}},
	}
	r.BindNames = [][]byte{nil, nil, nil, nil, nil, nil, nil, append([]byte("n"), b...)}
	r.Tags = []querylog.Tag{{a, b}, {b, c}, {a, c}}
	return r
}

// decodeJSON decodes a line by encoding/json only, and replaces base64 values by their bytes.
func decodeJSON(line []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, err
	}
	for name, v := range m {
		if plain, ok := strings.CutSuffix(name, "_base64"); ok {
			s, err := base64.StdEncoding.DecodeString(v.(string))
			if err != nil {
				return nil, err
			}
			m[plain] = string(s)
		}
	}
	return m, nil
}

// jsonString returns the value of a nested string that may be in base64.
func jsonString(v any) string {
	if m, ok := v.(map[string]any); ok {
		b, _ := base64.StdEncoding.DecodeString(m["base64"].(string))
		return string(b)
	}
	return v.(string)
}

// FuzzRecord checks that any record gives JSON that encoding/json accepts and decodes to the record's values,
// that the text line unescapes to the same values, and that converting the JSON line to text gives the same
// bytes as formatting it.
func FuzzRecord(f *testing.F) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	f.Add(all, []byte("a\tb\nc\\d\"e"), []byte("Duplicate entry 'x' for key 'y'"), uint64(1<<63), uint8(3))
	f.Add([]byte("\xff\xfe"), []byte("\u2028\u0085é"), []byte{}, uint64(math.Float64bits(math.NaN())), uint8(0xFA))
	f.Add([]byte("k"), []byte("k"), []byte("\xed\xa0\x80"), uint64(0), uint8(0x90))
	for i := range 256 {
		f.Add([]byte{byte(i)}, []byte{'a', byte(i), 'b', 'c', 'd', 'e', 'f', 'g', 'h'}, []byte{byte(i), byte(i)}, uint64(i)<<40, uint8(i))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, n uint64, typ uint8) {
		r := fuzzed(a, b, c, n, typ)
		asJSON := line(r, querylog.JSON, querylog.RedactNone)
		asText := line(r, querylog.Text, querylog.RedactNone)
		checkRecord(t, r, asJSON, asText)
		made, _, err := querylog.AppendAsText(nil, asJSON, nil)
		if err != nil || !bytes.Equal(made, asText) {
			t.Errorf("text made of JSON: %v\ngot  %q\nwant %q", err, made, asText)
		}
		for _, red := range []querylog.Redaction{querylog.RedactLiterals, querylog.RedactAll} {
			if b := line(r, querylog.JSON, red); !json.Valid(b) {
				t.Errorf("%v: not JSON: %q", red, b)
			}
		}
	})
}

func checkRecord(t *testing.T, r *querylog.Record, asJSON, asText []byte) {
	t.Helper()
	if !utf8.Valid(asText) || bytes.Count(asText, []byte("\n")) != 1 || bytes.Count(asJSON, []byte("\n")) != 1 {
		t.Fatalf("not one line of UTF-8: %q", asText)
	}
	m, err := decodeJSON(asJSON)
	if err != nil {
		t.Fatalf("%v: %q", err, asJSON)
	}
	texts := map[string]string{}
	fields := querylog.ParseLine(asText)
	for fields.Next() {
		v, err := fields.AppendValue(nil)
		if err != nil {
			t.Fatalf("%v: %q", err, asText)
		}
		texts[string(fields.Name())] = string(v)
	}
	if fields.Err() != nil {
		t.Fatalf("%v: %q", fields.Err(), asText)
	}
	want := map[string]string{
		"user": r.User, "schema": r.Schema, "backend": r.Backend, "statement_type": r.StatementType,
		"normalized": string(r.Normalized), "text": string(r.Text), "sqlstate": r.SQLState,
		"error_text": string(r.ErrorText), "statement_name": string(r.StatementName),
		"pinned_reason": r.PinnedReason,
		"total_ns":      fmt.Sprint(int64(r.Total)), "rows_returned": fmt.Sprint(r.RowsReturned),
		"bytes_in": fmt.Sprint(r.BytesIn), "connection_id": fmt.Sprint(r.ConnectionID),
		"error_number": fmt.Sprint(r.ErrorNumber), "plan_cached": fmt.Sprint(r.PlanCached),
		"start": r.Start.UTC().Format("2006-01-02T15:04:05.000000000Z"),
	}
	for name, w := range want {
		got, ok := m[name]
		if w == "" || w == "0" && !ok {
			continue
		}
		if !ok || fmt.Sprint(got) != w {
			t.Errorf("JSON field %s: got %q, want %q", name, got, w)
		}
		if texts[name] != w {
			t.Errorf("text field %s: got %q, want %q", name, texts[name], w)
		}
	}
	checkBinds(t, r, m["binds"].([]any))
	checkTags(t, r, m["tags"].(map[string]any))
	var nested []any
	if err := json.Unmarshal([]byte(texts["binds"]), &nested); err != nil || len(nested) != len(r.Binds) {
		t.Errorf("binds of the text line: %v: %q", err, texts["binds"])
	}
}

func checkBinds(t *testing.T, r *querylog.Record, binds []any) {
	t.Helper()
	if len(binds) != len(r.Binds) {
		t.Fatalf("got %d binds, want %d", len(binds), len(r.Binds))
	}
	for i, v := range r.Binds {
		m := binds[i].(map[string]any)
		switch {
		case v.Long:
			if m["long"] != true {
				t.Errorf("bind %d: got %v, want long", i, m)
			}
		case v.IsNull():
			if x, ok := m["value"]; !ok || x != nil {
				t.Errorf("bind %d: got %v, want null", i, m)
			}
		case v.Type == mysqlwire.TypeDouble:
			f, _ := v.Float64()
			if got := fmt.Sprint(m["value"]); got != fmt.Sprint(f) && !sameFloat(got, f) {
				t.Errorf("bind %d: got %v, want %v", i, got, f)
			}
		case v.Type >= 0xF6 && v.Type != mysqlwire.TypeNewDecimal || v.Type == mysqlwire.TypeVarString:
			got, ok := m["value"].(string)
			if enc, is := m["value_base64"].(string); is {
				b, err := base64.StdEncoding.DecodeString(enc)
				if err != nil {
					t.Errorf("bind %d: %v", i, err)
				}
				got, ok = string(b), true
			}
			if want := cutAtRune(v.Data, 256); !ok || got != want {
				t.Errorf("bind %d: got %q, want %q", i, got, want)
			}
			if n, cut := m["bytes"]; cut != (len(v.Data) > 256) || cut && fmt.Sprint(n) != fmt.Sprint(len(v.Data)) {
				t.Errorf("bind %d: bytes %v of %d", i, n, len(v.Data))
			}
		}
	}
}

// cutAtRune returns at most limit bytes of b, without a part of a character at the end.
func cutAtRune(b []byte, limit int) string {
	if len(b) <= limit {
		return string(b)
	}
	for n := limit; n >= max(limit-utf8.UTFMax, 0); n-- {
		if utf8.RuneStart(b[n]) {
			return string(b[:n])
		}
	}
	return string(b[:limit])
}

func sameFloat(s string, f float64) bool {
	var got float64
	_, err := fmt.Sscan(s, &got)
	return err == nil && math.Float64bits(got) == math.Float64bits(f)
}

func checkTags(t *testing.T, r *querylog.Record, tags map[string]any) {
	t.Helper()
	seen := map[string]bool{}
	for _, tag := range r.Tags {
		key := string(tag.Key)
		if seen[key] {
			continue
		}
		seen[key] = true
		if !utf8.ValidString(key) {
			key = string(querylog.AppendEscaped(nil, tag.Key))
		}
		if got := jsonString(tags[key]); got != string(tag.Value) {
			t.Errorf("tag %q: got %q, want %q", tag.Key, got, tag.Value)
		}
	}
}

// FuzzUnescape checks that AppendUnescaped reverses appendEscaped, and that accepted values survive a round
// trip.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"", `a\tb`, `\\`, `\x00\xff`, `\`, `\x0`, `\q`, "a\tb", "é\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		escaped := querylog.AppendEscaped(nil, b)
		back, err := querylog.AppendUnescaped(nil, escaped)
		if err != nil || !bytes.Equal(back, b) {
			t.Errorf("escaped %q, back %q: %v", escaped, back, err)
		}
		if v, err := querylog.AppendUnescaped(nil, b); err == nil {
			again, err := querylog.AppendUnescaped(nil, querylog.AppendEscaped(nil, v))
			if err != nil || !bytes.Equal(again, v) {
				t.Errorf("%q: %q and %q: %v", b, v, again, err)
			}
		}
	})
}

// FuzzParseLine parses arbitrary bytes: parsing terminates, with or without an error, and if it accepts a
// JSON line whose nested values are JSON, so does encoding/json.
func FuzzParseLine(f *testing.F) {
	f.Add(line(everything(), querylog.JSON, querylog.RedactNone))
	f.Add(line(everything(), querylog.Text, querylog.RedactNone))
	f.Add([]byte(`{"a":"\ud83d\ude00","b":1e5,"c":[{"d":"]"}],"e":true}`))
	f.Add([]byte(`{"a":"\ud83d"}`))
	f.Add([]byte(`{"a":1`))
	f.Add([]byte("a:b\t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields := querylog.ParseLine(b)
		n, last := 0, true
		for fields.Next() {
			n++
			if _, err := fields.AppendValue(nil); err != nil || fields.Type() == querylog.FieldJSON || fields.Type() == querylog.FieldNumber {
				last = false
			}
		}
		if n > len(b) {
			t.Fatalf("%d fields in %d bytes", n, len(b))
		}
		if fields.Err() == nil && n > 0 && last && bytes.HasPrefix(b, []byte("{")) && utf8.Valid(b) && !json.Valid(b) {
			t.Errorf("accepts %q, which is not JSON", b)
		}
	})
}

// FuzzParseFilter checks that a filter's String parses to a filter with the same String.
func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"", "a=b", `user="a b" total_ns>10ms`, "text!~x a<3", "a!=", "=b", `a="b`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := querylog.ParseFilter(s)
		if err != nil {
			return
		}
		b, err := querylog.ParseFilter(a.String())
		if err != nil || a.String() != b.String() {
			t.Errorf("%q prints %q, which prints %q: %v", s, a, b, err)
		}
	})
}
