package mysqlwire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// complete are the lengths at which a sample may end early: packets with a text to their end, or whose last fields are
// optional. They are ranges.
var complete = map[string]string{
	"handshake/MariaDB":                                       "68-89",
	"handshake/MySQL 8":                                       "52-73",
	"handshake response/everything":                           "41-68 87",
	"handshake response/MariaDB's capabilities":               "55-60",
	"handshake response/no database, no NUL after the plugin": "35",
	"auth switch/native password":                             "1-43",
	"auth more data/fast path":                                "1",
	"auth next factor/webauthn":                               "32-33",
	"change user/everything":                                  "7-10 12-14",
	"change user/old client":                                  "4",
	"ok/info":                                                 "7-22",
	"ok/info to the end":                                      "7-21",
	"ok/session state":                                        "7-8",
	"err/with state":                                          "3-21",
	"err/before the greeting":                                 "3-22",
	"column definition/default NULL":                          "32",
	"column definition/default 7":                             "32",
	"stmt prepare/plain":                                      "1-8",
	"prepare ok/plain":                                        "9",
	"prepare ok/no definitions":                               "9 12",
	"stmt bulk execute/plain":                                 "7-13",
	"stmt long data/plain":                                    "7-8",
	"binlog dump/file and offset":                             "11-23",
	"query/plain":                                             "1-8",
	"query/no attributes":                                     "3-10",
	"query/an attribute":                                      "18-25",
	"init db/plain":                                           "1-4",
	"local infile/plain":                                      "1-10",
}

// ranges returns increasing numbers as ranges, such as 1-3 7.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); i++ {
		first := numbers[i]
		for i+1 < len(numbers) && numbers[i+1] == numbers[i]+1 {
			i++
		}
		if parts = append(parts, strconv.Itoa(first)); numbers[i] > first {
			parts[len(parts)-1] += "-" + strconv.Itoa(numbers[i])
		}
	}
	return strings.Join(parts, " ")
}

// TestEnds cuts each sample at each byte: the packet is too short, except where it may end, and never invalid in another way.
func TestEnds(t *testing.T) {
	for _, c := range codecs() {
		for _, s := range samples {
			if s.codec != c.name {
				continue
			}
			payload := unhex(t, s.payload)
			var ends, others []int
			for n := range payload {
				switch err := c.decode(payload[:n:n], s.caps); {
				case err == nil:
					ends = append(ends, n)
				case !errors.Is(err, ErrShortPacket):
					others = append(others, n)
				}
			}
			if want := complete[s.codec+"/"+s.title]; ranges(ends) != want || len(others) > 0 && c.name != "stmt execute" { // which has a separate count
				t.Errorf("%s/%s may end after %v bytes, want %v; is invalid after %v", s.codec, s.title, ranges(ends), want, others)
			}
		}
	}
}

// TestBefore41 decodes the response of an old client, cut at each byte: it is too short until its user ends.
func TestBefore41(t *testing.T) {
	payload := unhex(t, "0800 010203 7500 6162630073686f7000")
	var h HandshakeResponse
	for n := range len(payload) + 1 {
		err, want := h.Decode(payload[:n]), ErrPre41
		if n < 7 {
			want = ErrShortPacket
		}
		if !errors.Is(err, want) {
			t.Errorf("cut at %d: %v, want %v", n, err, want)
		}
	}
	if h.Capabilities != CapConnectWithDB || h.MaxPacket != 0x030201 || string(h.User) != "u" || string(h.AuthResponse) != "abc" || string(h.Database) != "shop" {
		t.Errorf("%+v", h)
	}
	payload[0] = 0
	if err := h.Decode(payload); err != ErrPre41 || h.Database != nil { //nolint:errorlint // it is not wrapped
		t.Errorf("without a database: %+v, %v", h, err)
	}
}

// TestManyParams executes a statement with more parameters than a word of bits has: some are NULL, and some are sent as long data. A second
// execution has neither.
func TestManyParams(t *testing.T) {
	const count = 200
	null := func(i int) bool { return i%7 == 3 || i == 64 }
	long := func(i int) bool { return i%63 == 0 || i%64 == 0 || i == count-1 }
	var sent, p StmtParams
	sent.Reset(count)
	p.Reset(count)
	for i := range count {
		v := BinaryValue{ValueType: ValueType{Type: TypeBlob}, Data: []byte{byte(i)}, Long: long(i)}
		if null(i) || v.Long {
			v.Data = nil
		}
		if sent.Values = append(sent.Values, v); v.Long {
			p.MarkLong(uint16(i))
		}
	}
	p.MarkLong(count) // there is no such parameter
	e := StmtExecute{Params: sent.AppendTo(nil, 0, 0, true)}
	if err := p.Decode(&e, 0); err != nil {
		t.Fatal(err)
	}
	for i, v := range p.Values {
		if v.Long != long(i) || v.IsNull() != (null(i) && !long(i)) || !v.Long && !v.IsNull() && !bytes.Equal(v.Data, []byte{byte(i)}) {
			t.Errorf("parameter %d: %+v", i, v)
		}
	}
	for i := range sent.Values {
		sent.Values[i] = BinaryValue{ValueType: ValueType{Type: TypeBlob}, Data: []byte{byte(i)}}
	}
	again := StmtExecute{Params: sent.AppendTo(nil, 0, 0, false)}
	if err := p.Decode(&again, 0); err != nil || len(p.Values) != count || p.Values[0].Long || p.Values[64].IsNull() {
		t.Errorf("again: %v, %d values", err, len(p.Values))
	}
}

// TestDecodeTypes reads the types of an execution without its values, cut at each byte. Types that are not whole are forgotten, as is long data.
func TestDecodeTypes(t *testing.T) {
	const types = "00 01 0380 fe00"
	for _, c := range []struct {
		name, params string
		caps         Capability
		flags        ExecuteFlags
		whole        int
	}{
		{"types", types, 0, 0, 6},
		{"types and values", types + "ffffffff 0161", 0, 0, 6},
		{"with names", "02 00 01 0380 00 fe00 0161 04000000", CapQueryAttributes, ExecuteParamCount, 11 - 1},
	} {
		payload := unhex(t, c.params)
		for n := range len(payload) + 1 {
			var p StmtParams
			p.Reset(2)
			if err := p.DecodeTypes(&StmtExecute{Flags: 0, Params: unhex(t, types)}, 0); err != nil || !p.Typed() {
				t.Fatal(err)
			}
			p.MarkLong(1)
			err := p.DecodeTypes(&StmtExecute{Flags: c.flags, Params: payload[:n]}, c.caps)
			if whole := n >= c.whole; (err == nil) != whole || p.Typed() != whole || len(p.Names) != 0 || p.isLong(1) || !whole && !errors.Is(err, ErrShortPacket) && !errors.Is(err, ErrMalformedPacket) {
				t.Errorf("%s, cut at %d: %v, typed %v, names %q", c.name, n, err, p.Typed(), p.Names)
			}
		}
	}
	var p StmtParams
	p.Reset(2)
	if err := p.DecodeTypes(&StmtExecute{Params: unhex(t, "00 00 01020304")}, 0); err == nil || !strings.HasSuffix(err.Error(), "never sent") {
		t.Errorf("without types: %v", err)
	}
}

// TestQueryAttributes skips attributes of each form, cut at each byte.
func TestQueryAttributes(t *testing.T) {
	for name, attributes := range map[string]string{
		"none": "00 01", "one": "01 01 00 01 fe00 0161 0178", "NULL": "01 01 01 01 fe00 0161", "NULL before another": "02 01 01 01 fe00 0161 0300 0162 2a000000",
		"NULL after another": "02 01 02 01 0300 00 fe00 00 2a000000",
		"nine":               "09 01 00 01 01" + strings.Repeat(" 0100 00", 9) + strings.Repeat("07", 8),
	} {
		payload := unhex(t, "03"+attributes+"444f2031")
		sql, err := Query(payload, CapQueryAttributes)
		if err != nil || string(sql) != "DO 1" {
			t.Errorf("%s: %q, %v", name, sql, err)
		}
		for n := range len(payload) - len("DO 1") {
			if sql, err := Query(payload[:n], CapQueryAttributes); !errors.Is(err, ErrShortPacket) {
				t.Errorf("%s cut at %d: %q, %v", name, n, sql, err)
			}
		}
	}
	for payload, want := range map[string]string{
		"03 01 02 00 01 fe00 0161 0178": "not one set of attributes", "03 01 00 00 01 fe00 0161 0178": "not one set", "03 01 01 00 00 fe00 0161 0178": "no types", "04 00 01": "first byte is 0x04",
		"03 01 01 00 01 f300 0161 0178": "no value of INVALID",
	} {
		if sql, err := Query(unhex(t, payload), CapQueryAttributes); !errors.Is(err, ErrMalformedPacket) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", payload, sql, err, want)
		}
	}
	if sql, err := Query(nil, 0); !errors.Is(err, ErrShortPacket) {
		t.Errorf("nothing: %q, %v", sql, err)
	}
}

// TestBitNames lists bits with names and without.
func TestBitNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		Capability(0): "0", CapProtocol41 | CapLongPassword: "LONG_PASSWORD|PROTOCOL_41", Capability(1) << 63: "bit 63", Capability(1)<<63 | 2: "FOUND_ROWS|bit 63",
		Status(4 | 8): "bit 2|MORE_RESULTS", StatusInTrans: "IN_TRANS", Status(1 << 15): "ANSI_QUOTES",
	} {
		if got := value.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
