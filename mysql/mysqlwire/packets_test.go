package mysqlwire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

// A codec decodes one kind of packet into a value and encodes it again.
type codec struct {
	name   string
	value  any // the target of decode, for comparison
	decode func(payload []byte, caps Capability) error
	encode func(dst []byte, caps Capability) []byte
}

// plain returns the codec of a type whose packet does not depend on capabilities.
func plain[T any, P interface {
	*T
	Decode([]byte) error
	AppendTo([]byte) []byte
}](name string) codec {
	v := P(new(T))
	return codec{
		name: name, value: v,
		decode: func(payload []byte, _ Capability) error { return v.Decode(payload) },
		encode: func(dst []byte, _ Capability) []byte { return v.AppendTo(dst) },
	}
}

// byCaps returns the codec of a type whose packet depends on capabilities.
func byCaps[T any, P interface {
	*T
	Decode([]byte, Capability) error
	AppendTo([]byte, Capability) []byte
}](name string) codec {
	v := P(new(T))
	return codec{name: name, value: v, decode: v.Decode, encode: v.AppendTo}
}

// rowTypes are the columns of the binary rows in these tests, one of each form.
var rowTypes = []ValueType{
	{Type: TypeLong},
	{Type: TypeLongLong, Unsigned: true},
	{Type: TypeVarString},
	{Type: TypeDatetime},
	{Type: TypeTime},
	{Type: TypeDouble},
	{Type: TypeTiny},
	{Type: TypeShort},
	{Type: TypeFloat},
	{Type: TypeNull},
	{Type: TypeBlob},
}

// textColumns is the number of columns of the text rows in these tests.
const textColumns = 3

// executeParams is the number of parameters of the statements in these tests.
const executeParams = 2

func codecs() []codec {
	textRow, binaryRow := new(TextRow), new(BinaryRow)
	execute, params := new(StmtExecute), new(StmtParams)
	var sql []byte
	return []codec{
		plain[Handshake]("handshake"),
		plain[HandshakeResponse]("handshake response"),
		plain[SSLRequest]("ssl request"),
		plain[AuthSwitchRequest]("auth switch"),
		plain[AuthMoreData]("auth more data"),
		plain[AuthNextFactor]("auth next factor"),
		byCaps[ChangeUser]("change user"),
		byCaps[OK]("ok"),
		plain[Err]("err"),
		plain[Progress]("progress"),
		byCaps[EOF]("eof"),
		byCaps[ResultHeader]("result header"),
		byCaps[ColumnDefinition]("column definition"),
		{
			name: "text row", value: textRow,
			decode: func(p []byte, _ Capability) error { return textRow.Decode(p, textColumns) },
			encode: func(dst []byte, _ Capability) []byte { return textRow.AppendTo(dst) },
		},
		{
			name: "binary row", value: binaryRow,
			decode: func(p []byte, _ Capability) error { return binaryRow.Decode(p, rowTypes) },
			encode: func(dst []byte, _ Capability) []byte { return binaryRow.AppendTo(dst) },
		},
		plain[StmtPrepare]("stmt prepare"),
		byCaps[PrepareOK]("prepare ok"),
		{
			name: "stmt execute", value: params,
			decode: func(p []byte, caps Capability) error {
				params.Reset(executeParams)
				if err := execute.Decode(p); err != nil {
					return err
				}
				return params.Decode(execute, caps)
			},
			encode: func(dst []byte, caps Capability) []byte {
				header := *execute
				header.Params = nil
				return params.AppendTo(header.AppendTo(dst), execute.Flags, caps, true)
			},
		},
		plain[StmtBulkExecute]("stmt bulk execute"),
		plain[StmtLongData]("stmt long data"),
		plain[StmtFetch]("stmt fetch"),
		plain[StmtClose]("stmt close"),
		plain[RegisterReplica]("register replica"),
		plain[BinlogDump]("binlog dump"),
		plain[BinlogDumpGTID]("binlog dump gtid"),
		plain[StmtReset]("stmt reset"),
		{
			name: "query", value: &sql,
			decode: func(p []byte, caps Capability) (err error) {
				sql, err = Query(p, caps)
				return err
			},
			encode: func(dst []byte, caps Capability) []byte { return AppendQuery(dst, sql, caps) },
		},
		plain[InitDB]("init db"),
		plain[FieldList]("field list"),
		plain[SetOption]("set option"),
		plain[ProcessKill]("process kill"),
		plain[LocalInfile]("local infile"),
	}
}

const (
	caps41    = CapProtocol41 | CapSecureConnection | CapTransactions
	capsTrack = caps41 | CapSessionTrack
	capsAttrs = caps41 | CapQueryAttributes | CapPluginAuth | CapConnectAttrs
)

// samples are well-formed payloads in hex, by the codec's name. AppendTo reproduces each of them, except
// those marked loose, which are only accepted.
var samples = []struct {
	codec   string
	title   string
	caps    Capability
	payload string
	loose   bool
}{
	{codec: "handshake", title: "MariaDB", payload: "0a 352e352e352d31302e31312e31392d4d61726961444200 2a000000 4141414141414141 00 fef7 2d 0200 ff81 15 000000000000 1d000000 424242424242424242424242 00 6d7973716c5f6e61746976655f70617373776f726400"},
	{codec: "handshake", title: "MySQL 8", payload: "0a 382e302e333600 2a000000 4141414141414141 00 ffff ff 0200 ffdf 15 00000000000000000000 424242424242424242424242 00 63616368696e675f736861325f70617373776f726400"},
	{codec: "handshake", title: "no auth plugin", payload: "0a 352e3100 01000000 4141414141414141 00 01a2 08 0200 0000 00 00000000000000000000 424242424242424242424242 00"},
	{codec: "handshake", title: "before 4.1", payload: "0a 342e3000 01000000 4141414141414141 00 0100", loose: true},
	{codec: "handshake response", title: "everything", payload: "8da6ff15 00000001 2d 00000000000000000000000000000000000000 00000000 726f6f7400 03616263 73686f7000 6d7973716c5f6e61746976655f70617373776f726400 12 0c5f636c69656e745f6e616d65 0474617265 05"},
	{codec: "handshake response", title: "MariaDB's capabilities", payload: "8ca23a00 00000001 2d 00000000000000000000000000000000000000 1d000000 7500 14 0101010101010101010101010101010101010101 646200 7000 00"},
	{codec: "handshake response", title: "no database, no NUL after the plugin", payload: "01820800 00000001 21 0000000000000000000000000000000000000000000000 7500 00 70", loose: true},
	{codec: "ssl request", title: "plain", payload: "018a0800 00000001 21 0000000000000000000000000000000000000000000000"},
	{codec: "auth switch", title: "native password", payload: "fe 6d7973716c5f6e61746976655f70617373776f726400 4141414141414141414141414141414141414141 00"},
	{codec: "auth switch", title: "from before 4.1", payload: "fe"},
	{codec: "auth more data", title: "fast path", payload: "01 03"},
	{codec: "auth next factor", title: "webauthn", payload: "02 61757468656e7469636174696f6e5f776562617574686e5f636c69656e7400 aabb"},
	{codec: "change user", title: "everything", caps: capsAttrs, payload: "11 7500 03616263 646200 2d00 7000 05 0178 02 797a"},
	{codec: "change user", title: "old client", caps: caps41, payload: "11 7500 00 00", loose: true},
	{codec: "ok", title: "plain", caps: caps41, payload: "00 01 fce803 0200 0100"},
	{codec: "ok", title: "info", caps: caps41, payload: "00 01 00 0200 0000 0f526f7773206d6174636865643a2031"},
	{codec: "ok", title: "info to the end", caps: caps41, payload: "00 01 00 0200 0000 526f7773206d6174636865643a2031", loose: true},
	{codec: "ok", title: "session state", caps: capsTrack, payload: "00 00 00 0240 0000 00 07 01 05 0473686f70"},
	{codec: "ok", title: "after rows", caps: capsTrack, payload: "fe 00 00 2200 0000"},
	{codec: "err", title: "with state", payload: "ff 1504 23 3238303030 4163636573732064656e696564"},
	{codec: "err", title: "before the greeting", payload: "ff 1004 546f6f206d616e7920636f6e6e656374696f6e73"},
	{codec: "progress", title: "stage 1 of 2", payload: "ff ffff 01 01 02 50c300 07 636f7079696e67"},
	{codec: "eof", title: "4.1", caps: caps41, payload: "fe 0000 0200"},
	{codec: "eof", title: "bare", payload: "fe"},
	{codec: "result header", title: "300 columns", payload: "fc 2c01"},
	{codec: "result header", title: "cached definitions", caps: CapMariaCacheMetadata, payload: "02 00"},
	{codec: "result header", title: "optional definitions", caps: CapOptionalMetadata, payload: "02 01"},
	{codec: "column definition", title: "plain", payload: "03646566 0473686f70 0174 0174 026964 026964 0c 3f00 0b000000 03 0342 00 0000"},
	{codec: "column definition", title: "uuid", caps: CapMariaExtendedTypeInfo, payload: "03646566 00 00 00 0175 00 06 00 04 75756964 0c 2d00 90000000 fe 0000 00 0000"},
	{codec: "column definition", title: "default NULL", payload: "03646566 0473686f70 0174 0174 026964 026964 0c 3f00 0b000000 03 0000 00 0000 fb"},
	{codec: "column definition", title: "default 7", payload: "03646566 0473686f70 0174 0174 026964 026964 0c 3f00 0b000000 03 0000 00 0000 0137"},
	{codec: "text row", title: "value, NULL, empty", payload: "0161 fb 00"},
	{codec: "binary row", title: "all there", payload: "00 0008 ffffffff 0100000000000080 03616263 0b ea07 0b 15 01 2a 14 40420f00 0c 01 01000000 02 03 04 05000000 000000000000f83f fe 0180 0000c03f 00"},
	{codec: "binary row", title: "all NULL", payload: "00 fc1f"},
	{codec: "stmt prepare", title: "plain", payload: "16 73656c656374203f"},
	{codec: "prepare ok", title: "plain", payload: "00 01000000 0100 0200 00 0000"},
	{codec: "prepare ok", title: "no definitions", caps: CapOptionalMetadata, payload: "00 01000000 0100 0200 00 0000 00"},
	{codec: "stmt execute", title: "int and NULL", payload: "17 01000000 00 01000000 02 01 0300 fe00 2a000000"},
	{codec: "stmt execute", title: "an attribute", caps: capsAttrs, payload: "17 01000000 08 01000000 03 02 01 0300 00 fe00 00 fe00 05 7472616365 2a000000 0178"},
	{codec: "stmt bulk execute", title: "plain", payload: "fa 01000000 8000 0300 00 2a000000"},
	{codec: "stmt long data", title: "plain", payload: "18 01000000 0100 6162"},
	{codec: "stmt fetch", title: "plain", payload: "1c 01000000 64000000"},
	{codec: "stmt close", title: "plain", payload: "19 01000000"},
	{codec: "stmt reset", title: "plain", payload: "1a 01000000"},
	{codec: "register replica", title: "no names", payload: "15 01000080 00 00 00 0000 0000000000000000"},
	{codec: "register replica", title: "names", payload: "15 01000080 0474617265 0175 00 ea0c 0000000000000000"},
	{codec: "binlog dump", title: "file and offset", payload: "12 04000000 0000 01000080 62696e6c6f672e303030303031"},
	{codec: "binlog dump gtid", title: "an empty set", payload: "1e 0400 01000080 00000000 0400000000000000 08000000 0000000000000000"},
	{codec: "query", title: "plain", payload: "03 73656c6563742031"},
	{codec: "query", title: "no attributes", caps: capsAttrs, payload: "03 00 01 73656c6563742031"},
	{codec: "query", title: "an attribute", caps: capsAttrs, payload: "03 02 01 02 01 fe00 05 7472616365 0600 00 0178 73656c6563742031", loose: true},
	{codec: "init db", title: "plain", payload: "02 73686f70"},
	{codec: "field list", title: "all", payload: "04 7400"},
	{codec: "set option", title: "off", payload: "1b 0100"},
	{codec: "process kill", title: "plain", payload: "0c 2a000000"},
	{codec: "local infile", title: "plain", payload: "fb 2f746d702f612e637376"},
}

// unhex decodes hex with spaces.
func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestSamplesRoundTrip(t *testing.T) {
	byName := map[string]codec{}
	for _, c := range codecs() {
		byName[c.name] = c
	}
	seen := map[string]bool{}
	for _, s := range samples {
		seen[s.codec] = true
		t.Run(s.codec+"/"+s.title, func(t *testing.T) {
			c, ok := byName[s.codec]
			if !ok {
				t.Fatal("no such codec")
			}
			payload := unhex(t, s.payload)
			if err := c.decode(payload, s.caps); err != nil {
				t.Fatal(err)
			}
			if got := c.encode(nil, s.caps); !s.loose && !bytes.Equal(got, payload) {
				t.Errorf("encoded again:\n got %x\nwant %x\nvalue %+v", got, payload, c.value)
			}
			checkRoundTrip(t, c, s.caps)
		})
	}
	for name := range byName {
		if !seen[name] {
			t.Errorf("no sample of %s", name)
		}
	}
}

// TestTruncatedSamples truncates each sample at each byte: no prefix may panic, and prefixes that decode must
// survive a round trip.
func TestTruncatedSamples(t *testing.T) {
	for _, c := range codecs() {
		for _, s := range samples {
			if s.codec != c.name {
				continue
			}
			payload := unhex(t, s.payload)
			for n := range payload {
				err := c.decode(payload[:n:n], s.caps)
				switch {
				case err == nil:
					checkRoundTrip(t, c, s.caps)
				case !errors.Is(err, ErrShortPacket) && !errors.Is(err, ErrMalformedPacket):
					t.Errorf("%s/%s cut at %d: error of no kind: %v", s.codec, s.title, n, err)
				}
			}
		}
	}
}

// TestOtherMarks changes the first byte of each sample, its mark: it is refused, unless a packet of the kind has none.
func TestOtherMarks(t *testing.T) {
	without := map[string]bool{"handshake response": true, "ssl request": true, "result header": true, "column definition": true, "text row": true}
	for _, c := range codecs() {
		for _, s := range samples {
			if s.codec != c.name || without[c.name] {
				continue
			}
			payload := unhex(t, s.payload)
			payload[0] ^= 0x55
			if err := c.decode(payload, s.caps); !errors.Is(err, ErrMalformedPacket) {
				t.Errorf("%s/%s with the first byte 0x%02x: %v", s.codec, s.title, payload[0], err)
			}
		}
	}
}

// checkRoundTrip encodes the value that c has just decoded and decodes the result: value and bytes must be
// the same.
func checkRoundTrip(t *testing.T, c codec, caps Capability) {
	t.Helper()
	value := fmt.Sprintf("%+v", c.value)
	first := c.encode(nil, caps)
	if err := c.decode(first, caps); err != nil {
		t.Fatalf("%s: decode what AppendTo made (%x) of %s: %v", c.name, first, value, err)
	}
	if again := fmt.Sprintf("%+v", c.value); again != value {
		t.Fatalf("%s: a round trip changes the value:\n got %s\nwant %s", c.name, again, value)
	}
	if second := c.encode(nil, caps); !bytes.Equal(second, first) {
		t.Fatalf("%s: a round trip changes the bytes:\n got %x\nwant %x", c.name, second, first)
	}
}

func TestAllocsPackets(t *testing.T) {
	var cases []alloctest.Case
	for _, c := range codecs() {
		for _, s := range samples {
			if s.codec != c.name {
				continue
			}
			payload, buf := unhex(t, s.payload), make([]byte, 0, 512)
			cases = append(cases, alloctest.Case{Name: s.codec + "/" + s.title, Op: func() error {
				if err := c.decode(payload, s.caps); err != nil {
					return err
				}
				if len(c.encode(buf, s.caps)) == 0 {
					return errors.New("nothing encoded")
				}
				return nil
			}})
		}
	}
	alloctest.Run(t, cases)
}

// TestStateChangesOfServers reads the states that MariaDB 10.11 and MySQL 9.7 send.
func TestStateChangesOfServers(t *testing.T) {
	changed := StateChange{Type: StateChanged, Value: []byte("1")}
	tests := []struct {
		state string
		want  []StateChange
	}{
		{"\x02\x011", []StateChange{changed}},
		{"\x00\x10\x0cstatement_id\x0214\x02\x011", []StateChange{{Type: StateSystemVariable, Name: []byte("statement_id"), Value: []byte("14")}, changed}},
		{"\x02\x011\x05\x09\x08T_______", []StateChange{changed, {Type: StateTransaction, Value: []byte("T_______")}}},
	}
	for _, tt := range tests {
		var got []StateChange
		it := stateChanges([]byte(tt.state))
		for it.Next() {
			got = append(got, it.Change())
		}
		if !reflect.DeepEqual(got, tt.want) || it.Err() != nil {
			t.Errorf("%q: %v, %v; want %v", tt.state, got, it.Err(), tt.want)
		}
	}
}
