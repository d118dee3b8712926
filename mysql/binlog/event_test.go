package binlog

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A logBuilder writes events as a server does.
type logBuilder struct {
	checksum bool
	offset   uint32
}

// event returns an event at the current offset.
func (l *logBuilder) event(kind eventType, body []byte) []byte {
	size := eventHeaderLen + len(body)
	if l.checksum {
		size += checksumLen
	}
	l.offset += uint32(size)
	b := binary.LittleEndian.AppendUint32(nil, 1_700_000_000)
	b = binary.LittleEndian.AppendUint32(append(b, byte(kind)), 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, l.offset)
	b = append(binary.LittleEndian.AppendUint16(b, 0), body...)
	if l.checksum {
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	return b
}

// formatBody returns the body of a format description of MySQL 8.
func formatBody(checksum bool) []byte {
	b := append(binary.LittleEndian.AppendUint16(nil, 4), make([]byte, 50)...)
	copy(b[2:], "8.0.36")
	b = append(append(b, 0, 0, 0, 0), eventHeaderLen)
	lengths := make([]byte, 41)
	for i := range lengths {
		lengths[i] = 8
	}
	for kind := eventWriteRows; kind <= eventDeleteRows; kind++ {
		lengths[kind-1] = 10
	}
	b = append(b, lengths...)
	algorithm := byte(0)
	if checksum {
		algorithm = 1
	}
	b = append(b, algorithm)
	if !checksum {
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

// tableMapBody returns the body of a table map event of f.t.
func tableMapBody(id byte, name string, types []mysqlwire.ColumnType, meta []byte) []byte {
	b := []byte{id, 0, 0, 0, 0, 0, 1, 0, 1, 'f', 0, byte(len(name))}
	b = append(append(b, name...), 0)
	b = mysqlwire.AppendLenencInt(b, uint64(len(types)))
	for _, t := range types {
		b = append(b, byte(t))
	}
	b = mysqlwire.AppendLenencString(b, meta)
	return append(b, bytes.Repeat([]byte{0xFF}, (len(types)+7)/8)...)
}

// rowsBody returns the body of a rows event in the second version of the format.
func rowsBody(id byte, kind ChangeKind, columns int, rows []byte) []byte {
	b := []byte{id, 0, 0, 0, 0, 0, 1, 0, 2, 0}
	b = mysqlwire.AppendLenencInt(b, uint64(columns))
	all := bytes.Repeat([]byte{0xFF}, (columns+7)/8)
	b = append(b, all...)
	if kind == Update {
		b = append(b, all...)
	}
	return append(b, rows...)
}

// described returns a table f.t with the columns, all of them required.
func described(columns ...rowstream.Column) followedTable {
	f := followedTable{table: &rowstream.Table{Schema: "f", Name: "t", Columns: columns}, schema: "f", name: "t"}
	for i := range columns {
		f.all = append(f.all, i)
	}
	return f
}

// newLogReader returns a reader of the log for a table, after a position, into a batch.
func newLogReader(f followedTable, gtid string) (*logReader, *ChangeBatch) {
	g, err := parseGTIDs(gtid)
	if err != nil {
		panic(err)
	}
	r := &logReader{tables: []followedTable{f}, names: map[string]int{"f\x00t": 0}, tableMaps: tableMaps{maps: map[uint64]*tableMap{}}, gtids: g, uptoFile: "log.1", uptoOffset: 4}
	b := &ChangeBatch{}
	r.startBatch(b, []int{f.columns()}, 1<<20)
	r.resetConnection()
	return r, b
}

func feed(t testing.TB, r *logReader, events ...[]byte) {
	t.Helper()
	for i, e := range events {
		if _, err := r.read(e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
}

func queryBody(schema, sql string) []byte {
	b := append(make([]byte, 8), byte(len(schema)), 0, 0, 0, 0)
	return append(append(append(b, schema...), 0), sql...)
}

var (
	intColumn  = rowstream.Column{Name: "id", Type: "int", FullType: "int(11)"}
	textColumn = rowstream.Column{Name: "s", Type: "varchar", FullType: "varchar(20)"}
)

// TestReadMySQL reads a log of MySQL: GTIDs of two sources, statements, a compressed transaction.
func TestReadMySQL(t *testing.T) {
	const source = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	r, b := newLogReader(described(intColumn, textColumn), source+":1-4:7")
	log := &logBuilder{checksum: true, offset: 4}
	gtid := func(number byte) []byte {
		id, _ := hex.DecodeString(strings.ReplaceAll(source, "-", ""))
		return log.event(eventGTID, append(append([]byte{1}, id...), number, 0, 0, 0, 0, 0, 0, 0))
	}
	types, meta := []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeVarchar}, []byte{20, 0}
	table := tableMapBody(9, "t", types, meta)
	feed(t, r, log.event(eventFormat, formatBody(true)),
		gtid(5), log.event(eventQuery, queryBody("f", "BEGIN")), log.event(eventTableMap, table),
		log.event(eventWriteRows, rowsBody(9, Insert, 2, []byte{0, 1, 0, 0, 0, 2, 'h', 'i', 2, 0xFF, 0xFF, 0xFF, 0xFF})), log.event(eventXID, make([]byte, 8)),
		gtid(6), log.event(eventQuery, queryBody("f", "CREATE TABLE x (t INT)")))

	inner := &logBuilder{}
	plain := inner.event(eventQuery, queryBody("f", "BEGIN"))
	plain = append(plain, inner.event(eventTableMap, table)...)
	plain = append(plain, inner.event(eventUpdateRows, rowsBody(9, Update, 2, []byte{0, 1, 0, 0, 0, 2, 'h', 'i', 0, 1, 0, 0, 0, 0}))...)
	plain = append(plain, inner.event(eventDeleteRows, rowsBody(9, Delete, 2, []byte{2, 0xFF, 0xFF, 0xFF, 0xFF}))...)
	plain = append(plain, inner.event(eventXID, make([]byte, 8))...)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := z.EncodeAll(plain, nil)
	body := []byte{payloadMethod, 1, payloadZstd, payloadInflated, 3, 0xFC, byte(len(plain)), byte(len(plain) >> 8), payloadEnd}
	defer r.unpack.close()
	feed(t, r, gtid(8), log.event(eventPayload, append(body, packed...)))
	r.finishBatch()
	if diff := cmp.Diff("insert 1 hi, insert -1 NULL, update 1 hi 1 , delete -1 NULL", listChanges(t, b)); diff != "" {
		t.Error(diff)
	}
	for i, last := range []bool{false, true, false, true} {
		if c := b.Changes[i]; c.LastOfTransaction != last || c.Table != 0 {
			t.Errorf("change %d: %+v, want the last of its transaction: %v", i, c, last)
		}
	}
	if want := (Position{File: "log.1", Offset: uint64(log.offset), GTID: source + ":1-8"}); b.Upto != want || !b.Boundary || b.Commit.Unix() != 1_700_000_000 {
		t.Errorf("%+v, want %v", b, want)
	}

	bad := log.event(eventXID, make([]byte, 8))
	bad[len(bad)-1]++
	if _, err := r.read(bad); !errors.Is(err, errChecksum) {
		t.Errorf("a wrong checksum: %v", err)
	}
}

func TestReadOtherForm(t *testing.T) {
	for name, body := range map[string][]byte{
		"another type":     tableMapBody(1, "t", []mysqlwire.ColumnType{mysqlwire.TypeLongLong}, nil),
		"one more column":  tableMapBody(1, "t", []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeLong}, nil),
		"an unknown type":  tableMapBody(1, "t", []mysqlwire.ColumnType{mysqlwire.TypeTypedArray}, nil),
		"no meta data":     tableMapBody(1, "t", []mysqlwire.ColumnType{mysqlwire.TypeVarchar}, nil),
		"no such decimal":  tableMapBody(1, "t", []mysqlwire.ColumnType{mysqlwire.TypeNewDecimal}, []byte{3, 4}),
		"a compressed one": tableMapBody(1, "t", []mysqlwire.ColumnType{typeMariaBlobCompressed}, []byte{2}),
	} {
		r, _ := newLogReader(described(intColumn), "")
		log := &logBuilder{}
		var stop *StopError
		if _, err := r.read(log.event(eventTableMap, body)); !errors.As(err, &stop) || stop.Reason != StopSchema || stop.Table != "f.t" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOldForms decodes temporal values in the formats before MySQL 5.6 and MariaDB 10.1.
func TestOldForms(t *testing.T) {
	for _, tt := range []struct {
		column rowstream.Column
		log    mysqlwire.ColumnType
		value  []byte
		want   string
	}{
		{rowstream.Column{Type: "time", FullType: "time"}, mysqlwire.TypeTime, []byte{0x40, 0xE2, 0x01}, "12:34:56"},
		{rowstream.Column{Type: "time", FullType: "time"}, mysqlwire.TypeTime, []byte{0x19, 0x01, 0x80 | 0x7F}, "-06:57:35"},
		{rowstream.Column{Type: "datetime", FullType: "datetime"}, mysqlwire.TypeDatetime, binary.LittleEndian.AppendUint64(nil, 20240229123456), "2024-02-29 12:34:56"},
		{rowstream.Column{Type: "timestamp", FullType: "timestamp"}, mysqlwire.TypeTimestamp, []byte{0, 0, 0, 0}, "0000-00-00 00:00:00"},
		{rowstream.Column{Type: "timestamp", FullType: "timestamp"}, mysqlwire.TypeTimestamp, []byte{0xFF, 0xFF, 0xFF, 0x7F}, "2038-01-19 03:14:07"},
	} {
		var c logColumn
		err := c.set(tt.log, nil)
		if err == nil {
			err = c.describe(&tt.column, tt.log, nil)
		}
		got, n := c.appendValue(nil, tt.value)
		if tt.want[0] == '-' { // independent of its digits
			v := int64(littleEndian(tt.value)<<40) >> 40
			tt.want = string(appendClock([]byte("-"), uint64(-v/10_000), uint64(-v/100%100), uint64(-v%100)))
		}
		if err != nil || n != len(tt.value) || string(got[1:]) != tt.want {
			t.Errorf("%s %x: %q of %d bytes, %v, want %q", tt.column.Type, tt.value, got[1:], n, err, tt.want)
		}
	}
	c := logColumn{}
	fraction := rowstream.Column{Type: "datetime", FullType: "datetime(3)"}
	if err := errors.Join(c.set(mysqlwire.TypeDatetime, nil), c.describe(&fraction, mysqlwire.TypeDatetime, nil)); !errors.Is(err, errColumnType) {
		t.Errorf("fractions in the old form: %v", err)
	}
}

func TestInflate(t *testing.T) {
	want := bytes.Repeat([]byte("rows "), 1000)
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	body := append([]byte{0x82, byte(len(want) >> 8), byte(len(want) & 0xFF)}, packed.Bytes()...)
	var f inflater
	for range 2 {
		if got, err := f.inflate(body); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	for _, bad := range [][]byte{nil, {0x82}, {0x92, 0, 1}, {0x02, 0, 1}, {0x84, 0xFF, 0xFF, 0xFF, 0xFF}, body[:20], append([]byte{0x82, 0xFF, 0xFF}, body[3:]...)} {
		if _, err := f.inflate(bad); err == nil {
			t.Errorf("%.20x was decompressed", bad)
		}
	}
}

func TestGTIDs(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"1-2-7,0-1-5":        "0-1-5,1-2-7",
		"0-1-5,0-2-6":        "0-2-6",
		"18446744073709-1-1": "error",
		"0-1":                "error",
		"3E11FA47-71CA-11E1-9E33-C80AA9429562:7:1-3:5:4":                                             "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7",
		"4e11fa47-71ca-11e1-9e33-c80aa9429562:1, 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:Tag:1-2:4": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:tag:1-2:4,4e11fa47-71ca-11e1-9e33-c80aa9429562:1",
		"3e11fa47:1":                                   "error",
		"3e11fa47-71ca-11e1-9e33-c80aa9429562":         "error",
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:0":       "error",
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:5-4":     "error",
		"3e11fa47-71ca-11e1-9e33-c80aa9429562:1,0-1-1": "error",
	} {
		g, err := parseGTIDs(text)
		if got := g.String(); (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	g, err := parseGTIDs("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7")
	if err != nil {
		t.Fatal(err)
	}
	set := g.appendSet(nil)
	const want = "0100000000000000" + "3e11fa4771ca11e19e33c80aa9429562" + "0200000000000000" + "0100000000000000" + "0600000000000000" + "0700000000000000" + "0800000000000000"
	if hex.EncodeToString(set) != want {
		t.Errorf("%x", set)
	}
	if g, err = parseGTIDs("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag:7"); err != nil {
		t.Fatal(err)
	}
	set = g.appendSet(nil)
	const tagged = "0102000000000001" + "3e11fa4771ca11e19e33c80aa9429562" + "00" + "0100000000000000" + "0100000000000000" + "0600000000000000" +
		"3e11fa4771ca11e19e33c80aa9429562" + "06" + "746167" + "0100000000000000" + "0700000000000000" + "0800000000000000"
	if hex.EncodeToString(set) != tagged {
		t.Errorf("%x", set)
	}
	if _, err := parseGTIDs("3e11fa47-71ca-11e1-9e33-c80aa9429562:" + strings.Repeat("t", 33) + ":1"); err == nil {
		t.Error("a tag of 33 characters was taken")
	}
}

// TestTaggedGTID decodes the body of an event of MySQL 9.
func TestTaggedGTID(t *testing.T) {
	body, err := hex.DecodeString("0270000000029d031a9e790299038622c503dd02d10204f10300000002040c06" + "0674616708080a140c7f020d2333d86006103d041283120b")
	if err != nil {
		t.Fatal(err)
	}
	s, number, ok := taggedGTID(body)
	var g gtids
	g.addMySQL(s, number)
	if got, want := g.String(), "e70d4f9e-e643-11f1-b7b4-02fc00000001:tag:3"; got != want || !ok {
		t.Errorf("%s, %v, want %s", got, ok, want)
	}
	end := bytes.Index(body, []byte("tag")) + len("tag")
	for i := range end {
		if _, _, ok := taggedGTID(body[:i]); ok {
			t.Errorf("its first %d bytes were taken for it", i)
		}
	}
	for _, v := range []uint64{0, 1, 127, 128, 1<<14 - 1, 1 << 14, 1<<56 - 1, 1 << 56, 1<<64 - 1} {
		b := appendSerial(nil, v)
		if got, n := serialInt(b); got != v || n != len(b) {
			t.Errorf("%x: %d of %d bytes, want %d of %d", b, got, n, v, len(b))
		}
	}
}

// appendSerial appends a number in the format that serialInt reads.
func appendSerial(dst []byte, v uint64) []byte {
	n := max(1, (bits.Len64(v)+6)/7)
	if n > 8 {
		return binary.LittleEndian.AppendUint64(append(dst, 0xFF), v)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v<<n|(1<<(n-1)-1))
	return append(dst, b[:n]...)
}

// TestStatements parses statements, in schema f, and checks the table for which they stop the reader.
func TestStatements(t *testing.T) {
	r, _ := newLogReader(described(intColumn), "")
	for sql, want := range map[string]statementKind{
		"begin": statementBegin, "START TRANSACTION": statementBegin, "commit": statementCommit, "ROLLBACK": statementRollback,
		"SAVEPOINT `t`": statementSavepoint, "ROLLBACK TO `t`": statementRollbackTo, "ROLLBACK TO SAVEPOINT t": statementRollbackTo,
		"XA START x'1'": statementXAStart, "XA COMMIT x'1'": statementXACommit, "XA COMMIT 'a',X'',1 ONE PHASE": statementCommit,

		"ALTER TABLE t ADD x INT": statementSchema, "/* a */ alter /*!40000 table */ `t` -- c\n disable keys": statementSchema, "ALTER TABLE IF EXISTS f.t FORCE": statementSchema,
		"ALTER TABLE g.t ADD x INT": statementOther, "ALTER TABLE u ADD t INT, ADD KEY (t)": statementOther, "ALTER TABLE u COMMENT 'TABLE t'": statementOther,
		"ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t": statementSchema, "ALTER TABLE u RENAME TO t": statementSchema, "ALTER ONLINE TABLE `f`.`T` FORCE": statementSchema,
		"DROP TABLE u, `f`.`t`": statementSchema, "DROP TABLE IF EXISTS u": statementOther, "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`": statementOther,
		"DROP DATABASE f": statementSchema, "DROP SCHEMA IF EXISTS `F`": statementSchema, "DROP DATABASE g": statementOther, "ALTER DATABASE f COLLATE utf8mb4_bin": statementOther,
		"RENAME TABLE u TO t": statementSchema, "RENAME USER t TO u": statementOther, "TRUNCATE t": statementSchema, "TRUNCATE TABLE u": statementOther,
		"CREATE TABLE t (a INT)": statementSchema, "CREATE TABLE IF NOT EXISTS t (a INT)": statementOther, "CREATE OR REPLACE TABLE t (a INT)": statementSchema, "CREATE OR REPLACE TABLE u LIKE t": statementOther, "CREATE OR REPLACE TABLE g.u AS SELECT * FROM f.t": statementRows,
		"CREATE UNIQUE INDEX i ON t (a)": statementSchema, "CREATE SPATIAL INDEX i ON t (a)": statementSchema, "DROP INDEX t ON u": statementOther, "DROP INDEX i ON f . t": statementSchema,
		"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1": statementOther, "CREATE DEFINER=`t`@`%` VIEW v AS SELECT * FROM t": statementOther,
		"GRANT SELECT ON f.t TO u": statementOther, "ANALYZE TABLE t": statementOther, "FLUSH TABLES t": statementOther, "": statementOther, "DROP": statementUnknown, "CREATE OR": statementUnknown,

		"INSERT INTO t VALUES (1)": statementRows, "INSERT INTO u VALUES (1)": statementRows, "REPLACE INTO g.sums SELECT COUNT(*) FROM f.t": statementRows,
		"UPDATE g.u JOIN f.t SET t.a = 1": statementRows, "DELETE FROM g.u": statementRows, "LOAD DATA INFILE 'x' INTO TABLE f.t": statementRows,
		"SELECT `f`.`change`()": statementRows,
	} {
		if got := r.classify(&query{schema: []byte("f"), text: []byte(sql)}); got.kind != want {
			t.Errorf("%q is of kind %d, want %d", sql, got.kind, want)
		}
	}
	if s := r.classify(&query{schema: []byte("g"), text: []byte("DROP TABLE t")}); s.kind != statementOther {
		t.Errorf("another schema's: %+v", s)
	}
}

func TestFollowAllocs(t *testing.T) {
	columns := []rowstream.Column{
		intColumn, textColumn,
		{Name: "d", Type: "decimal", FullType: "decimal(20,5)"},
		{Name: "f", Type: "double", FullType: "double"},
		{Name: "ts", Type: "timestamp", FullType: "timestamp(3)"},
		{Name: "e", Type: "enum", FullType: "enum('a')"},
	}
	types := []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeVarchar, mysqlwire.TypeNewDecimal, mysqlwire.TypeDouble, mysqlwire.TypeTimestamp2, mysqlwire.TypeString}
	meta := []byte{20, 0, 20, 5, 8, 3, byte(mysqlwire.TypeEnum), 1}
	image := append([]byte{0, 7, 0, 0, 0, 3, 'a', 'b', 'c'}, 0x80, 0, 0, 0, 1, 0, 0, 0, 2)
	image = image[:9]
	image = append(image, make([]byte, decimalSize(20, 5))...)
	image[9] = 0x80
	image = append(image, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0xF6, 0x3F) // 1.4
	image = append(image, 0x65, 0, 0, 0, 0x03, 0xE8, 1)
	filtered := described(columns...)
	var err error
	filtered.filter, err = rowstream.NewFilter(&rowstream.Plan{Match: &rowstream.Predicate{Op: rowstream.Greater, Column: 0, Compare: rowstream.Number, Values: [][]byte{[]byte("5")}}, Output: []rowstream.Output{{Column: 1}, {Column: 4}}}, len(columns))
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuilder{checksum: true, offset: 4}
	format := log.event(eventFormat, formatBody(true))
	gtid := log.event(eventMariaGTID, []byte{9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	table := log.event(eventTableMap, tableMapBody(5, "t", types, meta))
	rows := log.event(eventUpdateRows, rowsBody(5, Update, len(types), bytes.Repeat(image, 20)))
	end := log.event(eventXID, make([]byte, 8))
	var cases []alloctest.Case
	for name, f := range map[string]followedTable{"a transaction of ten updates": described(columns...), "a transaction of ten updates, filtered": filtered} {
		r, b := newLogReader(f, "0-1-5")
		feed(t, r, format)
		columns := []int{f.columns()}
		cases = append(cases, alloctest.Case{Name: name, Op: func() error {
			r.startBatch(b, columns, 1<<20)
			for _, e := range [...][]byte{gtid, table, rows, end} {
				if _, err := r.read(e); err != nil {
					return err
				}
			}
			if len(b.Changes) != 10 || b.Changes[9].Kind != Update || !b.Changes[9].LastOfTransaction {
				return errFiltered
			}
			return b.Tables[0].Check()
		}})
	}
	alloctest.Run(t, cases)
}

var errFiltered = errors.New("rows are missing")
