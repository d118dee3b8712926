package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

func app(s *testmysql.Server) Config {
	return Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password, Database: "test", Capabilities: mysqlwire.CapLocalFiles}
}

// rowsOf streams a statement and returns the first column of each row.
func rowsOf(t *testing.T, c *Client, sql string) []string {
	t.Helper()
	r, err := c.Stream(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var row mysqlwire.TextRow
	for {
		payload, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := row.Decode(payload, r.Columns); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row[0]))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStream(t *testing.T) {
	c := dial(t, app(testmysql.Start(t)))
	numbers := rowsOf(t, c, "SELECT seq, REPEAT('x', seq % 100) FROM seq_1_to_20000")
	for i, n := range numbers {
		if n != fmt.Sprint(i+1) {
			t.Fatalf("row %d is %s", i, n)
		}
	}
	if len(numbers) != 20000 {
		t.Errorf("%d rows", len(numbers))
	}
	if got := rowsOf(t, c, "DO 1"); got != nil {
		t.Errorf("a statement without rows has %d", len(got))
	}
	var refused *ServerError
	if _, err := c.Stream(t.Context(), "SELECT * FROM nowhere"); !errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	if got := rowsOf(t, c, "SELECT 'still here'"); len(got) != 1 || got[0] != "still here" {
		t.Errorf("after a refusal: %q", got)
	}

	// An error among the rows.
	r, err := c.Stream(t.Context(), "SELECT seq FROM seq_1_to_3 WHERE EXP(seq * 400) > 0 OR seq")
	if err == nil {
		for err == nil {
			_, err = r.Next()
		}
		if closeErr := r.Close(); errors.Is(err, io.EOF) != (closeErr == nil) {
			t.Errorf("rows ended by %v, Close says %v", err, closeErr)
		}
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStreamWide streams rows of more than a packet among narrow ones: the buffer shrinks again.
func TestStreamWide(t *testing.T) {
	c := dial(t, app(testmysql.Start(t, testmysql.WithArgs("--max-allowed-packet=64M"))))
	const wide = "SELECT REPEAT('x', 17000000), 'end' UNION ALL SELECT REPEAT('y', 1000000), 'end'"
	got := rowsOf(t, c, wide)
	if len(got) != 2 || got[0] != strings.Repeat("x", 17000000) || got[1] != strings.Repeat("y", 1000000) {
		t.Fatalf("%d rows", len(got))
	}
	if c.Size() < 17000000 {
		t.Fatalf("buffer of %d bytes held a larger row", c.Size())
	}
	if n := len(rowsOf(t, c, "SELECT REPEAT('z', 1000) FROM seq_1_to_200000")); n != 200000 {
		t.Errorf("%d rows", n)
	}
	if c.Size() != streamBuffer {
		t.Errorf("the buffer kept %d bytes", c.Size())
	}
}

func TestStreamInterrupted(t *testing.T) {
	s := testmysql.Start(t)
	c := dial(t, app(s))
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := c.Stream(ctx, "SELECT REPEAT('x', 100000), SLEEP(seq > 2) FROM seq_1_to_1000000")
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	cancel(stop)
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, stop) {
		t.Errorf("the rows ended by %v", err)
	}
	if err := r.Close(); !errors.Is(err, stop) {
		t.Errorf("Close says %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("the connection is usable: %v", err)
	}

	c = dial(t, app(s))
	if r, err = c.Stream(t.Context(), "SELECT seq FROM seq_1_to_1000000"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("a connection with rows on their way is usable: %v", err)
	}
}

func TestLoad(t *testing.T) {
	s := testmysql.Start(t)
	c := dial(t, app(s))
	exec := func(sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE OR REPLACE TABLE loaded (a INT PRIMARY KEY, b LONGTEXT)")
	const load = "LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE loaded CHARACTER SET binary (a, b)"
	long := strings.Repeat("x", 3*loadPacket)
	res, err := c.Load(t.Context(), load, func(write func([]byte) error) error {
		return errors.Join(write([]byte("1\tone\n2\t")), write([]byte(long)), write(nil), write([]byte("\n")))
	})
	if err != nil || res.Records != 2 || res.Skipped != 0 || res.Deleted != 0 || res.Warnings != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := scalar(t, c, "SELECT CONCAT(a, ':', LENGTH(b)) FROM loaded WHERE a = 2"); got != fmt.Sprintf("2:%d", len(long)) {
		t.Error(got)
	}
	if res, err = c.Load(t.Context(), load, func(func([]byte) error) error { return nil }); err != nil || res.Records != 0 {
		t.Errorf("an empty file: %+v, %v", res, err)
	}

	var refused *ServerError
	_, err = c.Load(t.Context(), "LOAD DATA LOCAL INFILE 'rows' INTO TABLE nowhere", func(func([]byte) error) error { return nil })
	if !errors.As(err, &refused) {
		t.Errorf("no such table: %v", err)
	}
	if _, err = c.Load(t.Context(), "DO 1", nil); err == nil || !strings.Contains(err.Error(), "no LOAD DATA") {
		t.Errorf("another statement: %v", err)
	}

	if _, err = c.EndLoad(t.Context()); err == nil {
		t.Error("a load was ended that had not begun")
	}
	c = dial(t, app(s))
	for i := range 2 { // in parts, one statement after the other
		part := fmt.Appendf(nil, "%d\tpart\n", 10+i)
		err := errors.Join(c.BeginLoad(t.Context(), load), c.WriteLoad(t.Context(), part))
		if res, err2 := c.EndLoad(t.Context()); err != nil || err2 != nil || res.Records != 1 {
			t.Errorf("in parts: %+v, %v, %v", res, err, err2)
		}
	}
	stop := errors.New("no more rows")
	if _, err = c.Load(t.Context(), load, func(write func([]byte) error) error {
		return errors.Join(write([]byte("3\tthree\n")), stop)
	}); !errors.Is(err, stop) {
		t.Errorf("a file that fails: %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrBroken) {
		t.Errorf("the connection is usable: %v", err)
	}
}

// TestStreamBreaks makes a connection break within the rows: Next never reports that as the end of the rows.
func TestStreamBreaks(t *testing.T) {
	first, seq := mysqlwire.AppendPacket(nil, mysqlwire.TextRow{[]byte("1")}.AppendTo(nil), 0)
	second, _ := mysqlwire.AppendPacket(nil, mysqlwire.TextRow{[]byte("2")}.AppendTo(nil), seq)
	late, _ := mysqlwire.AppendPacket(nil, mysqlwire.TextRow{[]byte("2")}.AppendTo(nil), seq+1)
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, tt := range []struct {
		name string
		sent [][]byte // one per read
		err  error    // of the following read
		want error
		rows int
	}{
		{"closed", [][]byte{first}, io.EOF, io.ErrUnexpectedEOF, 1},
		{"reset", [][]byte{first}, reset, io.ErrUnexpectedEOF, 1},
		{"reset in a header", [][]byte{first, second[:2]}, reset, io.ErrUnexpectedEOF, 1},
		{"reset in a row", [][]byte{first, second[:5]}, reset, io.ErrUnexpectedEOF, 1},
		{"a row left out", [][]byte{first, late}, io.EOF, ErrSequence, 1},
		{"a row twice, in the buffer", [][]byte{append(first[:len(first):len(first)], first...)}, io.EOF, ErrSequence, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{Conn: NewBuffer(&scriptedReads{chunks: tt.sent, err: tt.err}, make([]byte, 1<<10)), maxPacket: 1 << 10}
			r := Rows{c: c, ctx: t.Context(), Columns: 1}
			n := 0
			_, err := r.Next()
			for ; err == nil; _, err = r.Next() {
				n++
			}
			if !errors.Is(err, tt.want) || errors.Is(err, io.EOF) || n != tt.rows {
				t.Errorf("%d rows, then %v, want %d and %v", n, err, tt.rows, tt.want)
			}
		})
	}
	c := NewBuffer(&scriptedReads{err: reset}, make([]byte, 10))
	if err := c.Fill(); err != io.EOF { //nolint:errorlint // callers compare it
		t.Errorf("a reset is %v, want io.EOF", err)
	}
}

// scriptedReads returns the next chunk from each Read, then an error.
type scriptedReads struct {
	net.Conn
	chunks [][]byte
	err    error
}

func (s *scriptedReads) Read(b []byte) (int, error) {
	if len(s.chunks) == 0 {
		return 0, s.err
	}
	n := copy(b, s.chunks[0])
	s.chunks = s.chunks[1:]
	return n, nil
}

// BenchmarkStream reads rows from the buffer: header, payload, views of the values. Its plain twin is in
// bench/baseline/rows.
func BenchmarkStream(b *testing.B) {
	c := &Client{Conn: NewBuffer(nil, make([]byte, 1<<20)), maxPacket: 1 << 20}
	payload := mysqlwire.TextRow{[]byte("4711"), []byte("4711"), bytes.Repeat([]byte{'x'}, 119), bytes.Repeat([]byte{'x'}, 59)}.AppendTo(nil)
	packets, seq := []byte(nil), uint8(0)
	for range 1000 {
		packets, seq = mysqlwire.AppendPacket(packets, payload, seq)
	}
	fill := func() {
		if c.r == c.w {
			c.r, c.w, c.Seq = 0, copy(c.buf, packets), 0
		}
	}
	rows := Rows{c: c, ctx: b.Context(), Columns: 4}
	for name, views := range map[string]bool{"packet": false, "packet and views": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			var view mysqlwire.TextRow
			for b.Loop() {
				fill()
				p, err := rows.Next()
				if err == nil && views {
					err = view.Decode(p, rows.Columns)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStreamAllocs reads rows that a scripted server has already sent.
func TestStreamAllocs(t *testing.T) {
	c := &Client{Conn: NewBuffer(nil, make([]byte, 1<<20)), maxPacket: 1 << 20}
	payload := mysqlwire.TextRow{[]byte("4711"), nil, bytes.Repeat([]byte{'x'}, 100)}.AppendTo(nil)
	rows := Rows{c: c, ctx: t.Context(), Columns: 3}
	packets, seq := []byte(nil), uint8(0)
	for range 1000 {
		packets, seq = mysqlwire.AppendPacket(packets, payload, seq)
	}
	var view mysqlwire.TextRow
	alloctest.Run(t, []alloctest.Case{{Name: "a row read and split into views", Op: func() error {
		if c.r == c.w {
			c.r, c.w, c.Seq = 0, copy(c.buf, packets), 0
		}
		b, err := rows.Next()
		if err != nil {
			return err
		}
		return view.Decode(b, rows.Columns)
	}}})
}
