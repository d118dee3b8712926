package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

var time0 = time.Unix(1_700_000_000, 0)

func fullTable() *rowstream.Table {
	return &rowstream.Table{
		Schema: "s", Name: "t", KeyName: "k", Create: "CREATE", Engine: "InnoDB", Triggers: []string{"x", "y"}, RowsEstimate: 7, BytesEstimate: 9,
		Columns: []rowstream.Column{
			{Name: "a", Type: "int", FullType: "int unsigned", Unsigned: true, Auto: true},
			{Name: "b", Type: "varchar", FullType: "varchar(9)", Charset: "utf8mb4", Collation: "utf8mb4_bin", Nullable: true, Invisible: true},
		},
		Generated: []rowstream.Column{{Name: "g", Type: "int", FullType: "int", Generated: true, Expression: "a + 1", Stored: true}},
		Key:       []int{1, 0}, Descending: []bool{true, false},
	}
}

// TestTableMessages sends tables, and refuses those that no reader describes.
func TestTableMessages(t *testing.T) {
	for want, change := range map[string]func(*rowpb.Table){
		"":                           func(*rowpb.Table) {},
		"of the type geo are not":    func(m *rowpb.Table) { m.Columns[1].Type, m.Columns[1].FullType = "geo", "geo" },
		"column number 2 of the key": func(m *rowpb.Table) { m.Key[1] = 2 },
		"column number -1 of the":    func(m *rowpb.Table) { m.Key[0] = -1 },
		"directions of 1 columns for the 2 columns of the key": func(m *rowpb.Table) { m.Descending = m.Descending[:1] },
		"directions of 3 columns for the 2 columns of the key": func(m *rowpb.Table) { m.Descending = append(m.Descending, false) },
	} {
		m := tableMessage(fullTable())
		change(m)
		got, err := tableOf(m)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if err == nil {
			if diff := cmp.Diff(fullTable(), got, cmpopts.IgnoreUnexported(rowstream.Table{})); diff != "" {
				t.Error(diff)
			}
		}
	}
	ascending := fullTable()
	ascending.Descending = nil
	if got, err := tableOf(tableMessage(ascending)); err != nil || got.Descending != nil {
		t.Errorf("an ascending key: %v, %v", got, err)
	}
	if m := tableName(fullTable()); m.Schema != "s" || m.Name != "t" || m.Columns != nil {
		t.Errorf("%v", m)
	}
}

// TestChunkMessages sends chunks, and refuses those whose keys do not fit.
func TestChunkMessages(t *testing.T) {
	key := mysqlwire.TextRow{[]byte("1"), []byte("")}
	for _, want := range []rowstream.Chunk{{}, {Number: 3}, {Number: 4, After: key}, {Upto: key}, {Number: 5, After: key, Upto: mysqlwire.TextRow{[]byte("2"), []byte("x")}}} {
		got, err := chunkOf(chunkMessage(want), 2)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v: %s", err, diff)
		}
	}
	for want, m := range map[string]*rowpb.Chunk{
		"there is no chunk -1": {Number: -1},
		"start of chunk 2: ":   {Number: 2, After: rowstream.EncodeKey(key[:1])},
		"end of chunk 3: ":     {Number: 3, Upto: []byte{0xff}},
	} {
		if got, err := chunkOf(m, 2); err == nil || !strings.HasPrefix(err.Error(), want) || got.Number != 0 && !strings.Contains(want, "of chunk") {
			t.Errorf("%+v, %v; want %q", got, err, want)
		}
	}
}

// TestPlanMessages sends plans with each kind of condition and origin, and refuses others.
func TestPlanMessages(t *testing.T) {
	plan := &rowstream.Plan{
		Where:  []rowstream.Condition{{Column: 3, Shard: rowstream.Shard{Index: 1, Count: 2}}, {Column: 1, Equal: []byte("x"), Compare: rowstream.Temporal}},
		Output: []rowstream.Output{{Column: 2}, {From: rowstream.FixedValue, Value: []byte("v")}, {From: rowstream.ShardValue, Column: 1}},
	}
	got, err := planOf(planMessage(plan))
	if diff := cmp.Diff(plan, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	if got, err := planOf(planMessage(nil)); got != nil || err != nil {
		t.Errorf("no plan: %v, %v", got, err)
	}
	for want, m := range map[string]*rowpb.Plan{
		fmt.Sprintf("condition 1: there is no comparison %d", rowstream.Temporal+1): {Where: []*rowpb.Condition{{}, {Compare: uint32(rowstream.Temporal) + 1}}},
		fmt.Sprintf("output 0: there is no origin %d", rowstream.ShardValue+1):      {Output: []*rowpb.Output{{From: uint32(rowstream.ShardValue) + 1}}},
	} {
		if _, err := planOf(m); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// nested returns a predicate within n negations.
func nested(n int) *rowstream.Predicate {
	p := &rowstream.Predicate{Op: rowstream.IsNull}
	for range n {
		p = &rowstream.Predicate{Op: rowstream.Not, Args: []rowstream.Predicate{*p}}
	}
	return p
}

// TestPredicateMessages sends predicates of each form, and refuses terms that are none.
func TestPredicateMessages(t *testing.T) {
	for name, want := range map[string]*rowstream.Predicate{
		"none": nil, "one": nested(0), "deepest": nested(rowstream.MaxPredicateDepth),
		"several": {Op: rowstream.And, Args: []rowstream.Predicate{
			{Op: rowstream.NullSafeEqual, Column: 1, Compare: rowstream.Temporal, Values: [][]byte{nil}},
			{Op: rowstream.Or, Args: []rowstream.Predicate{{Op: rowstream.In, Column: 2, Values: [][]byte{[]byte("a"), []byte("b")}}, *nested(1)}},
			{Op: rowstream.Between, Values: [][]byte{[]byte("1"), []byte("2")}},
		}},
		"empty": {Op: rowstream.And},
	} {
		got, err := predicateOf(termsOf(want, nil))
		if !reflect.DeepEqual(got, want) || err != nil { // cmp takes exponential time
			t.Errorf("%s: %v: %+v", name, err, got)
		}
	}
	leaf := &rowpb.Term{Op: uint32(rowstream.IsNull)}
	for want, terms := range map[string][]*rowpb.Term{
		"a condition with 1 terms too many":                               {leaf, leaf},
		"a condition with 2 terms too many":                               {leaf, leaf, leaf},
		"a condition that lacks terms":                                    {{Op: uint32(rowstream.Not), Args: 1}},
		"there is no operator 0":                                          {{}},
		"there is no comparison":                                          {{Op: uint32(rowstream.Equal), Compare: uint32(rowstream.Temporal) + 1}},
		"the condition is nested deeper":                                  termsOf(nested(rowstream.MaxPredicateDepth+1), nil),
		"there is no operator 4294967295":                                 {{Op: math.MaxUint32}},
		"a condition that lacks terms\x00":                                {{Op: uint32(rowstream.And), Args: math.MaxUint32}, leaf},
		"a condition that lacks terms\x00\x00":                            {{Op: uint32(rowstream.And), Args: 2}, {Op: uint32(rowstream.Not), Args: 1}, leaf},
		fmt.Sprintf("there is no operator %d", rowstream.NullSafeEqual+1): {{Op: uint32(rowstream.NullSafeEqual) + 1}},
	} {
		want = strings.TrimRight(want, "\x00")
		if _, err := predicateOf(terms); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestErrorsAcross sends an error of each kind: its text, code and cause are the same on the other side.
func TestErrorsAcross(t *testing.T) {
	stop := &binlog.StopError{
		Reason: binlog.StopSchema, At: binlog.Position{File: "b.1", Offset: 9}, Table: "s.t", What: "it changed", SQL: "ALTER", Digest: "d", Change: binlog.ChangeTruncate, Try: "again",
		Err: errors.New("a cause"),
	}
	bare := &binlog.StopError{Reason: binlog.StopReason(200), What: "it stops", Change: binlog.ChangeOther}
	server := &mysqlconn.ServerError{Number: 1062, State: "23000", Message: "duplicate"}
	for name, c := range map[string]struct {
		err   error
		code  codes.Code
		text  string // in place of the error's
		cause error
	}{
		"none":      {nil, codes.OK, "", nil},
		"refused":   {fmt.Errorf("a: %w", refuse(codes.InvalidArgument, "no %d", 1)), codes.InvalidArgument, "", nil},
		"stop":      {fmt.Errorf("a: %w", stop), codes.FailedPrecondition, "", stop},
		"bare stop": {bare, codes.FailedPrecondition, "", &binlog.StopError{Reason: binlog.StopUnknown, What: "it stops", Change: binlog.ChangeOther}},
		"server":    {fmt.Errorf("a: %w", server), codes.Unknown, "", server},
		"no table":  {fmt.Errorf("a: %w", rowstream.ErrNoTable), codes.NotFound, "", rowstream.ErrNoTable},
		"altered":   {fmt.Errorf("a: %w", rowstream.ErrAltered), codes.Aborted, "", rowstream.ErrAltered},
		"canceled":  {fmt.Errorf("a: %w", context.Canceled), codes.Canceled, "", nil},
		"late":      {fmt.Errorf("a: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "", nil},
		"other":     {errors.New("other"), codes.Unknown, "", nil},
		"token":     {status.Error(codes.Unauthenticated, "no token"), codes.Unauthenticated, "the server wants another token: no token", nil},
		"old":       {status.Error(codes.Unimplemented, "unknown"), codes.Unimplemented, "the reader is too old for this: update the tare rowstream there (unknown)", nil},
		"away":      {status.Error(codes.Unavailable, "away"), codes.Unavailable, "Unavailable: away", nil},
		"exhausted": {status.Error(codes.ResourceExhausted, "full"), codes.ResourceExhausted, "ResourceExhausted: full", nil},
	} {
		sent := statusOf(c.err)
		if got := status.Code(sent); got != c.code {
			t.Errorf("%s: code %v, want %v", name, got, c.code)
		}
		got := errorOf(t.Context(), "addr", sent)
		if c.err == nil {
			if sent != nil || got != nil {
				t.Errorf("%s: %v, %v", name, sent, got)
			}
			continue
		}
		text := c.text
		if text == "" {
			text = c.err.Error()
		}
		if got.Error() != "addr: "+text {
			t.Errorf("%s: %v, want %s", name, got, text)
		}
		cause := errors.Unwrap(got)
		if diff := cmp.Diff(c.cause, cause, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() && fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) })); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if s, ok := cause.(*binlog.StopError); ok { //nolint:errorlint // the cause itself
			w := c.cause.(*binlog.StopError) //nolint:errorlint // likewise
			if s.Reason != w.Reason || s.At != w.At || s.Change != w.Change || s.SQL != w.SQL || s.Digest != w.Digest || s.Table != w.Table || s.Try != w.Try || (s.Err == nil) != (w.Err == nil) {
				t.Errorf("%s: %+v, want %+v", name, s, w)
			}
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errTermMissing)
	if got := errorOf(ended, "addr", errors.New("x")); !errors.Is(got, errTermMissing) || errorOf(ended, "addr", nil) != nil {
		t.Errorf("with an ended context: %v", got)
	}
	for n, want := range map[uint32]binlog.StopReason{0: binlog.StopUnknown, uint32(binlog.StopSchema): binlog.StopSchema, uint32(binlog.StopSettings): binlog.StopSettings, uint32(binlog.StopSettings) + 1: binlog.StopUnknown, 256 + uint32(binlog.StopSchema): binlog.StopUnknown, math.MaxUint32: binlog.StopUnknown} {
		if got := stopOf(&rowpb.StopError{Reason: n}); got.Reason != want || got.Err != nil {
			t.Errorf("reason %d: %v, want %v", n, got.Reason, want)
		}
	}
	for n, want := range map[uint32]binlog.SchemaChangeKind{0: 0, uint32(binlog.ChangeOther): binlog.ChangeOther, uint32(binlog.ChangeOther) - 1: binlog.ChangeOther - 1, uint32(binlog.ChangeOther) + 1: binlog.ChangeOther, math.MaxUint32: binlog.ChangeOther} {
		if got := schemaChangeKindOf(n); got != want {
			t.Errorf("change %d: %v, want %v", n, got, want)
		}
	}
}

// TestUnpack unpacks batches at their limit, and damaged ones.
func TestUnpack(t *testing.T) {
	packer, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	defer packer.Close()
	const limit = 1 << 20
	unpacker, err := newUnpacker(limit)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacker.Close()
	data := bytes.Repeat([]byte("ab"), limit/2)
	packed, n := pack(data, packer, nil)
	for _, c := range []struct {
		name     string
		data     []byte
		unpacked uint32
		room     int
		want     string
	}{
		{"not packed", data, 0, 0, ""},
		{"at the limit", packed, n, 0, ""},
		{"into room", packed, n, limit, ""},
		{"into too little room", packed, n, limit - 1, ""},
		{"above the limit", packed, n + 1, 0, "a batch of 1048577 bytes; the limit is 1048576"},
		{"shorter than said", packed[:len(packed):len(packed)], n - 1, 0, "unpack a batch: it has 1048576 bytes, its message says 1048575"},
		{"damaged", packed[:len(packed)-1], n, 0, "unpack a batch: "},
	} {
		room := make([]byte, 0, c.room)
		got, kept, err := unpack(c.data, c.unpacked, unpacker, room, limit)
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || got != nil || len(kept) != 0) {
			t.Errorf("%s: %v, %d bytes", c.name, err, len(got))
		}
		if err == nil && !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, want %d", c.name, len(got), len(data))
		}
		if c.room == limit && &kept[:1][0] != &room[:1][0] {
			t.Errorf("%s: the room is not used", c.name)
		}
	}
	if NoCompression.message() != rowpb.Compression_COMPRESSION_NONE || Zstd.message() != rowpb.Compression_COMPRESSION_ZSTD {
		t.Error("compressions")
	}
}

// TestCallFields has the fields of each call: a chunk, rows, rows sent, and the range of the log.
func TestCallFields(t *testing.T) {
	for call, want := range map[string]string{
		"cut": "true false false false", "sum": "true true false false", "read": "true true true false", "sumrows": "true true true false", "follow": "false false false true", "snapshot": "false false false false",
	} {
		e := &LogEntry{Call: call, Table: "s.t", Rows: 3, Client: netip.MustParseAddrPort("10.0.0.1:99"), Start: time0, Total: 5}
		if got := fmt.Sprint(e.hasChunk(), e.hasRows(), e.sendsRows(), e.follows()); got != want {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
		other := *e
		other.Table = "s.u"
		f := e.Facts()
		if f.Failed || f.Rows != 3 || f.Origin != 99 || f.Total != 5 || !f.End.Equal(time0.Add(5)) || f.Digest == other.Facts().Digest || e.Kind() != "rowstream" {
			t.Errorf("%+v", f)
		}
		if e.Err = "x"; !e.Facts().Failed {
			t.Error("a failed call is not")
		}
	}
	s := &Service{}
	tcp := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 7}})
	unix := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "x"}})
	for name, c := range map[string]struct {
		ctx    context.Context
		table  *rowpb.Table
		client bool
		want   string
	}{"TCP": {tcp, &rowpb.Table{Schema: "s", Name: "t"}, true, "s.t"}, "Unix": {unix, nil, false, ""}, "none": {t.Context(), nil, false, ""}} {
		if e := s.startCall(c.ctx, "read", c.table).entry; e.Client.IsValid() != c.client || c.client && e.Client.Port() != 7 || e.Table != c.want || e.Call != "read" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// A call in progress: its counts start again after each record, from its position.
	c := s.startCall(tcp, "follow", nil)
	c.entry.Table, c.entry.From, c.entry.Upto, c.entry.Changes = "s.t,s.u", "1", "2", 9
	start := c.entry.Start
	c.mark()
	if e := c.entry; e.From != "2" || e.Upto != "2" || e.Changes != 0 || e.Table != "s.t,s.u" || e.Call != "follow" || e.Client.Port() != 7 || e.Start.Before(start) || e.Err != "" {
		t.Errorf("%+v", e)
	}
	// The server's message is the end of the text, or all of it is redacted.
	for text, want := range map[string]int{"read: duplicate": len("read: "), "read: duplicate x": 0, "duplicate": 0} {
		e := &LogEntry{Err: text}
		e.setServerError(&mysqlconn.ServerError{Number: 1062, Message: "duplicate"})
		if e.context != want || e.Number != 1062 || e.Server != 0 {
			t.Errorf("%q: %d, %+v", text, e.context, e)
		}
	}
}
