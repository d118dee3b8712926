package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/querylog"
)

// describe describes the table d.t.
func describe(t testing.TB, s rowstream.Server) *rowstream.Table {
	t.Helper()
	table, err := s.Describe(t.Context(), "d", "t")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// view takes a view of the table d.t.
func view(t testing.TB, s rowstream.Server, workers int) (rowstream.View, *rowstream.Table) {
	t.Helper()
	table := describe(t, s)
	v, err := s.Snapshot(t.Context(), workers, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	return v, table
}

func TestToken(t *testing.T) {
	_, addr := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(1, testrows.Row("1")), Token: "secret"})
	for _, token := range []string{"", "other", "secre", "secret ", "secretsecret"} {
		_, err := wire.OpenRemote(t.Context(), wire.RemoteOptions{Addr: addr, Token: token})
		if err == nil || !strings.Contains(err.Error(), "wants another token") || strings.Contains(err.Error(), "secret") {
			t.Errorf("token %q: %v", token, err)
		}
	}
	r := open(t, wire.RemoteOptions{Addr: addr, Token: "secret"})
	v, _ := view(t, r, 1)
	if v.Position() != "binlog.1 4" || v.How() != "memory" {
		t.Errorf("%q, %q", v.How(), v.Position())
	}
	// Streams are checked separately.
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := rowpb.NewRowsClient(conn).Read(t.Context(), &rowpb.ReadRequest{}, grpc.ForceCodecV2(vtcodec.Codec{}))
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stream without a token: %v", err)
	}
	// A call is refused before its request, which never comes.
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	for _, method := range []string{"Describe", "Read"} {
		held, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+rowpb.Rows_ServiceDesc.ServiceName+"/"+method)
		if err == nil {
			err = held.RecvMsg(&rowpb.ReadRequest{})
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a token and a request: %v", method, err)
		}
	}
}

func TestOpenRemoteFails(t *testing.T) {
	serverTLS, clientTLS := selfSigned(t)
	_, plain := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(1, testrows.Row("1"))})
	_, encrypted := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(1, testrows.Row("1"))}, grpc.Creds(credentials.NewTLS(serverTLS)))
	for name, o := range map[string]wire.RemoteOptions{
		"nobody":         {Addr: "127.0.0.1:1"},
		"no TLS":         {Addr: plain, TLS: clientTLS},
		"TLS":            {Addr: encrypted},
		"who is it":      {Addr: encrypted, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
		"too large":      {Addr: plain, MaxMessage: 1 << 40},
		"no such server": {Addr: "nowhere.invalid:1"},
	} {
		if r, err := wire.OpenRemote(t.Context(), o); err == nil {
			t.Errorf("%s: it opened", name)
			_ = r.Close()
		}
	}
	if _, err := wire.NewService(wire.ServiceOptions{}); err == nil {
		t.Error("a service of nothing was made")
	}
	if _, err := wire.NewService(wire.ServiceOptions{Server: testrows.NewMemory(1, testrows.Row("1")), MaxWorkers: -1}); err == nil {
		t.Error("a service of -1 workers was made")
	}
}

func TestLimits(t *testing.T) {
	m := testrows.NewMemory(1, testrows.Row("1", "2"))
	s, addr := serve(t, wire.ServiceOptions{Server: m, MaxSnapshots: 2, MaxWorkers: 3})
	r := open(t, wire.RemoteOptions{Addr: addr})
	first, table := view(t, r, 3)
	refused := func(want string, workers int, tables ...*rowstream.Table) {
		t.Helper()
		if _, err := r.Snapshot(t.Context(), workers, tables); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("a snapshot of 4 workers: the server allows 1 to 3 (option max-workers)", 4, table)
	refused("a snapshot of 0 workers", 0, table)
	refused("has been altered since it was described", 1, &rowstream.Table{Schema: "d", Name: "t", Columns: table.Columns[:1], Key: table.Key, KeyName: "PRIMARY"})
	refused("the type blurb are not known", 1, &rowstream.Table{Schema: "d", Name: "t", Columns: []rowstream.Column{{Name: "a", Type: "blurb", FullType: "blurb"}}})
	second, _ := view(t, r, 1)
	refused("2 snapshots are open, which is the limit (option max-snapshots)", 1, table)
	if got := s.Stats().Snapshots; got != 2 {
		t.Errorf("%d snapshots", got)
	}

	ctx, reader := t.Context(), first.Reader(0)
	for want, err := range map[string]error{
		"table d.other is not of the snapshot":   readErr(ctx, reader, &rowstream.Table{Schema: "d", Name: "other", Columns: table.Columns}, rowstream.Chunk{}),
		"there is no worker 3: the snapshot has": readErr(ctx, first.Reader(3), table, rowstream.Chunk{}),
		"there is no worker -1":                  readErr(ctx, first.Reader(-1), table, rowstream.Chunk{}),
		"decode a key of 1 columns":              readErr(ctx, reader, table, rowstream.Chunk{After: testrows.Row("1", "2")}),
		"a key column is NULL":                   readErr(ctx, reader, table, rowstream.Chunk{Upto: testrows.Row(nil)}),
		"refuse it":                              whereErr(ctx, reader, table, "refuse it"),
		"chunks of 0 bytes":                      cutErr(ctx, reader, table, 0, rowstream.Chunk{}),
		"there is no chunk -1":                   cutErr(ctx, reader, table, 1, rowstream.Chunk{Number: -1}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := readErr(ctx, second.Reader(0), table, rowstream.Chunk{}); err == nil {
		t.Error("a view that is closed was read")
	}
	testwait.Receive(t, "the view to be closed", m.Closed)
	stranger := wire.DetachedReader(ctx, r, 7)
	if err := readErr(ctx, stranger, table, rowstream.Chunk{}); err == nil || !strings.Contains(err.Error(), "the snapshot has ended") {
		t.Error(err)
	}
}

func readErr(ctx context.Context, r rowstream.Reader, t *rowstream.Table, c rowstream.Chunk) error {
	return drop(r.Read(ctx, t, c, rowstream.ReadOptions{}))
}

func whereErr(ctx context.Context, r rowstream.Reader, t *rowstream.Table, where string) error {
	return drop(r.Read(ctx, t, rowstream.Chunk{}, rowstream.ReadOptions{Where: where}))
}

// drop reads batches to their end.
func drop(batches iter.Seq2[*rowstream.Batch, error]) error {
	for _, err := range batches {
		if err != nil {
			return err
		}
	}
	return nil
}

func cutErr(ctx context.Context, r rowstream.Reader, t *rowstream.Table, bytes int64, from rowstream.Chunk) error {
	_, err := r.Cut(ctx, t, bytes, from)
	return err
}

// TestVanishedClient has a client disconnect while it reads: its view is closed.
func TestVanishedClient(t *testing.T) {
	m := testrows.NewMemory(1<<30, testrows.Row(strings.Repeat("x", 1000)))
	s, addr := serve(t, wire.ServiceOptions{Server: m})
	r, err := wire.OpenRemote(t.Context(), wire.RemoteOptions{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	v, table := view(t, r, 1)
	for _, err = range v.Reader(0).Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{}) {
		if err == nil {
			_ = r.Close()
		}
	}
	if err == nil {
		t.Error("a closed connection was read to its end")
	}
	testwait.Receive(t, "the view to be closed", m.Closed)
	if left := s.Drain(t.Context()); left != 0 {
		t.Errorf("%d snapshots are left", left)
	}
}

// TestEndedView ends a view that a stalled client reads.
func TestEndedView(t *testing.T) {
	m := testrows.NewMemory(1<<30, testrows.Row(strings.Repeat("x", 100_000)))
	_, addr := serve(t, wire.ServiceOptions{Server: m})
	r := open(t, wire.RemoteOptions{Addr: addr})
	v, table := view(t, r, 1)
	stalled := wire.DetachedReader(t.Context(), r, wire.SnapshotID(v)) // its stream continues after the view's end
	ended := false
	var err error
	for _, err = range stalled.Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{}) {
		if !ended {
			ended = true
			_ = v.Close()
			testwait.Receive(t, "the view to be closed though its rows are not read", m.Closed)
		}
	}
	if err == nil {
		t.Error("a view that ended was read to its end")
	}
}

// TestFlowControl has a slow client: the source is never far ahead of it.
func TestFlowControl(t *testing.T) {
	const size = 64 << 10
	m := testrows.NewMemory(500, testrows.Row(strings.Repeat("x", size)))
	_, addr := serve(t, wire.ServiceOptions{Server: m})
	v, table := view(t, open(t, wire.RemoteOptions{Addr: addr}), 1)
	const most = 3*wire.StreamWindow/size + 10 // the window, its growth for one message, buffers
	taken := int64(0)
	for _, err := range v.Reader(0).Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		taken++
		for range 20 {
			if ahead := m.Handed.Load() - taken; ahead > most {
				t.Fatalf("the source is %d batches ahead", ahead)
			}
		}
	}
	if taken != 500 {
		t.Errorf("%d batches", taken)
	}
}

func TestDrain(t *testing.T) {
	s, addr := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(3, testrows.Row("1"))})
	r := open(t, wire.RemoteOptions{Addr: addr})
	v, table := view(t, r, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left := s.Drain(ctx); left != 1 {
		t.Errorf("%d snapshots are left", left)
	}
	if _, err := r.Snapshot(t.Context(), 1, []*rowstream.Table{table}); err == nil || !strings.Contains(err.Error(), "Unavailable: the server is shutting down") {
		t.Error(err)
	}
	if err := readErr(t.Context(), v.Reader(0), table, rowstream.Chunk{}); err != nil { // an open reader continues
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := s.Drain(t.Context()); left != 0 {
		t.Errorf("%d snapshots are left", left)
	}
	if got, want := s.Stats(), (wire.ServiceStats{Reads: 1, Rows: 3, Bytes: 6, Sent: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestServiceLog(t *testing.T) {
	log, err := querylog.New(querylog.Options{RingBytes: 1 << 20, RingRedaction: querylog.RedactLiterals})
	if err != nil {
		t.Fatal(err)
	}
	_, addr := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(3, testrows.Row("1", "it's")), Log: log})
	v, table := view(t, open(t, wire.RemoteOptions{Addr: addr, Compression: wire.Zstd}), 1)
	if _, err := v.Reader(0).Cut(t.Context(), table, 1, rowstream.Chunk{Number: 4}); err != nil {
		t.Error(err)
	}
	if err := readErr(t.Context(), v.Reader(0), table, rowstream.Chunk{Number: 4}); err != nil {
		t.Error(err)
	}
	if err := whereErr(t.Context(), v.Reader(0), table, "refuse 'me'"); err == nil {
		t.Error("it was not refused")
	}
	if _, err := v.Reader(0).SumChunk(t.Context(), table, rowstream.Chunk{Number: 5}, rowstream.SumOptions{Columns: []int{7}}); err == nil {
		t.Error("a column that does not exist was summed up")
	}
	for _, err := range v.Reader(0).SumRows(t.Context(), table, rowstream.Chunk{Number: 6}, rowstream.SumOptions{Columns: []int{7}}) {
		if err == nil {
			t.Error("a column that does not exist was summed up")
		}
	}
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	log.ServeHTTP(got, httptest.NewRequest("GET", "/debug/querylog?limit=6", nil))
	var lines []map[string]any
	for b := range bytes.Lines(got.Body.Bytes()) {
		var line map[string]any
		if err := json.Unmarshal(b, &line); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		lines = append(lines, line)
	}
	for i, want := range []map[string]any{
		{"call": "describe", "table": "d.t", "code": "OK"},
		{"call": "cut", "table": "d.t", "code": "OK", "chunk": 4.0},
		{"call": "read", "table": "d.t", "code": "OK", "chunk": 4.0, "rows": 3.0, "rows_read": 3.0, "bytes": 21.0},
		{"call": "read", "table": "d.t", "code": "Unknown", "rows": 0.0, "error_text": "refuse '?'"},
		{"call": "sum", "table": "d.t", "chunk": 5.0},
		{"call": "sumrows", "table": "d.t", "chunk": 6.0},
	} {
		if i >= len(lines) {
			t.Fatalf("%d lines: %s", len(lines), got.Body)
		}
		if lines[i]["kind"] != "rowstream" || lines[i]["client"] == nil || lines[i]["total_ns"] == nil {
			t.Errorf("line %d: %v", i, lines[i])
		}
		for name, v := range want {
			if lines[i][name] != v {
				t.Errorf("line %d, %s: %v, want %v", i, name, lines[i][name], v)
			}
		}
	}
	e := &wire.LogEntry{Call: "read", Table: "d.t", Chunk: 1, From: "a 1", Upto: "a 2", Changes: 3, Rows: 2, Err: "no", Number: 5, Code: "Unknown"}
	for _, name := range wire.LogFields() {
		if v := e.FieldValue(name); v.IsText && len(v.Text) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// An impostor returns the given responses.
type impostor struct {
	rowpb.UnimplementedRowsServer
	table   *rowpb.Table
	cut     *rowpb.Chunk
	batches []*rowpb.Batch
}

func (i *impostor) Describe(context.Context, *rowpb.DescribeRequest) (*rowpb.Table, error) {
	return i.table, nil
}

func (i *impostor) Snapshot(_ *rowpb.SnapshotRequest, s rowpb.Rows_SnapshotServer) error {
	if err := s.Send(&rowpb.SnapshotReply{Id: 1}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (i *impostor) Cut(context.Context, *rowpb.CutRequest) (*rowpb.CutReply, error) {
	return &rowpb.CutReply{Chunk: i.cut}, nil
}

func (i *impostor) Read(_ *rowpb.ReadRequest, s rowpb.Rows_ReadServer) error {
	for _, b := range i.batches {
		if err := s.Send(b); err != nil {
			return err
		}
	}
	return nil
}

// sent returns the table d.t and a compressed batch of rows as a service sends them.
func sent(t testing.TB, rows ...mysqlwire.TextRow) (*rowpb.Table, *rowpb.Batch) {
	t.Helper()
	_, addr := serve(t, wire.ServiceOptions{Server: testrows.NewMemory(1, rows...)})
	_, conn, err := wire.OpenUnchecked(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := rowpb.NewRowsClient(conn)
	table, err := client.Describe(t.Context(), &rowpb.DescribeRequest{Schema: "d", Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := client.Snapshot(t.Context(), &rowpb.SnapshotRequest{Workers: 1, Tables: []*rowpb.Table{table}})
	if err != nil {
		t.Fatal(err)
	}
	taken, err := snapshot.Recv()
	if err != nil {
		t.Fatal(err)
	}
	read, err := client.Read(t.Context(), &rowpb.ReadRequest{Snapshot: taken.Id, Table: table, Chunk: &rowpb.Chunk{}, Compression: rowpb.Compression_COMPRESSION_ZSTD})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := read.Recv()
	if err != nil || batch.Unpacked == 0 {
		t.Fatalf("a batch of %d bytes, %v", batch.GetUnpacked(), err)
	}
	return table, batch
}

// TestImpostor has a server return invalid responses: each is refused.
func TestImpostor(t *testing.T) {
	i := &impostor{}
	g := grpc.NewServer(grpc.ForceServerCodecV2(vtcodec.Codec{}))
	rowpb.RegisterRowsServer(g, i)
	r := open(t, wire.RemoteOptions{Addr: testgrpc.Serve(t, withHealth(g)), MaxMessage: 1 << 20})
	good, packed := sent(t, testrows.Row("1", "2"))
	for _, change := range []func(*rowpb.Table){
		func(m *rowpb.Table) { m.Name = "u" },
		func(m *rowpb.Table) { m.Key = []int32{2} },
		func(m *rowpb.Table) { m.Key = []int32{-1} },
		func(m *rowpb.Table) { m.Columns[0].Type = "blurb" },
	} {
		i.table = proto.Clone(good).(*rowpb.Table)
		change(i.table)
		if _, err := r.Describe(t.Context(), "d", "t"); err == nil {
			t.Errorf("%v was taken", i.table)
		}
	}
	i.table = proto.Clone(good).(*rowpb.Table)
	v, table := view(t, r, 1)
	for _, c := range []*rowpb.Chunk{nil, {Number: 4}, {Number: 5, Upto: []byte{9}}, {Number: 5, Upto: []byte{mysqlwire.MarkLocalInfile}}} {
		i.cut = c
		if _, err := v.Reader(0).Cut(t.Context(), table, 1, rowstream.Chunk{Number: 5}); err == nil {
			t.Errorf("chunk %v was taken", c)
		}
	}
	rowBytes := testrows.BatchOf(testrows.Row("1", "2")).Bytes
	for name, b := range map[string]*rowpb.Batch{
		"short":           {Columns: 2, Rows: 1, Read: 1, Bytes: rowBytes[:3]},
		"long":            {Columns: 2, Rows: 1, Read: 1, Bytes: append(rowBytes[:len(rowBytes):len(rowBytes)], 0)},
		"columns":         {Columns: 1, Rows: 2, Read: 2, Bytes: rowBytes},
		"negative":        {Columns: 2, Rows: -1, Read: 1, Bytes: rowBytes},
		"no rows":         {Columns: 2, Read: 1, Bytes: rowBytes},
		"read too little": {Columns: 2, Rows: 1, Bytes: rowBytes},
		"not packed":      {Columns: 2, Rows: 1, Read: 1, Bytes: rowBytes, Unpacked: 4},
		"packed size":     {Columns: 2, Rows: 1, Read: 1, Bytes: packed.Bytes, Unpacked: 5},
		"packed limit":    {Columns: 2, Rows: 1, Read: 1, Bytes: packed.Bytes, Unpacked: 1 << 30},
		"too large":       {Columns: 2, Rows: 1, Read: 1, Bytes: make([]byte, 2<<20)},
	} {
		i.batches = []*rowpb.Batch{{Columns: 2, Rows: 1, Read: 1, Bytes: rowBytes}, b}
		if err := readErr(t.Context(), v.Reader(0), table, rowstream.Chunk{}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	i.batches = []*rowpb.Batch{packed, {Read: 5}}
	var rows int64
	if err := drop(v.Reader(0).Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{Count: &rows})); rows != 5 || err != nil {
		t.Errorf("what is right: %d, %v", rows, err)
	}
}

// withHealth adds the health service, which clients query first.
func withHealth(g *grpc.Server) *grpc.Server {
	healthpb.RegisterHealthServer(g, health.NewServer())
	return g
}

// TestRemoteAllocs reads the same bytes as few rows and as many: both sides together allocate per message and
// not per row.
func TestRemoteAllocs(t *testing.T) {
	const batches, size = 20, 64 << 10
	reading := func(b *rowstream.Batch, c wire.Compression) float64 {
		m := testrows.NewMemory(batches, testrows.Row("1"))
		m.Batch = *b
		_, addr := serve(t, wire.ServiceOptions{Server: m})
		v, table := view(t, open(t, wire.RemoteOptions{Addr: addr, Compression: c}), 1)
		defer func() { _ = v.Close() }()
		r := v.Reader(0)
		read := func() {
			var n int64
			if err := drop(r.Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{Count: &n})); n != int64(batches*b.Rows) || err != nil {
				t.Errorf("%d rows, %v", n, err)
			}
		}
		got := testing.AllocsPerRun(5, read)
		for range 4 { // garbage collections empty the pools in between: up to 70 allocations a batch
			got = min(got, testing.AllocsPerRun(5, read))
		}
		return got
	}
	few, many := testrows.BatchOf(testrows.Row("1", strings.Repeat("x", size))), new(rowstream.Batch)
	many.Reset(2)
	for len(many.Bytes) < size {
		many.AppendRow(testrows.Row("1", "some text"))
	}
	for _, c := range []wire.Compression{wire.NoCompression, wire.Zstd} {
		base, got := reading(few, c), reading(many, c)
		t.Logf("%d rows: %v allocations, %d rows: %v", batches, base, batches*many.Rows, got)
		if perRow := (got - base) / float64(batches*many.Rows); perRow > 0.01 {
			t.Errorf("%.3f allocations a row", perRow)
		}
	}
}
