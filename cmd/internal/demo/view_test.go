package demo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"github.com/taredb/tare/cmd/internal/demo/workload"
)

// sampleView returns a fixed example of a demo after twelve seconds.
func sampleView() *view {
	return &view{
		elapsed: 12*time.Second + 40*time.Millisecond,
		queries: 14321,
		work:    workload.Report{Statements: 14300, ExpectedErrors: 86},
		table: snapshot{
			calls: 14309, errors: 86, dropped: 12, p50: 1230 * time.Microsecond, p99: 121 * time.Millisecond, statements: 1187.4,
			digests: []digestView{
				{id: "5f0c2d7a9be14c33", text: "select sleep(?)", calls: 52, rows: 52, p50: 120400 * time.Microsecond, p99: 122 * time.Millisecond, share: 0.41, perSecond: 4.1, firstToLast: 4.3},
				{id: "91aa03bc55d2e871", text: "select id, name, email, city from customers where id = ?", calls: 4308, rows: 4308, p50: 912 * time.Microsecond, p99: 4 * time.Millisecond, share: 0.32, perSecond: 365, firstToLast: 357.9},
				{id: "0be4", text: "insert into customers (id, name) values (?, ?)\x1b[31m\n-- Größe 尺寸 over the border", calls: 86, errors: 86, p50: 700 * time.Nanosecond, p99: 2 * time.Second, share: 0.004, perSecond: 7, firstToLast: 7.2},
			},
		},
		weight: WeightResult{CPU: 41.27, Heap: 96.4, Allocs: 0.31, RSS: 31 << 20},
	}
}

// TestGolden draws the sample view as requested by the file: frames of several terminals, the line for output
// without a terminal, and the summary.
func TestGolden(t *testing.T) {
	places := places{mysql: "127.0.0.1:3316", web: "http://127.0.0.1:8316", database: "shop"}
	datadriven.RunTest(t, "testdata/views", func(t *testing.T, d *datadriven.TestData) string {
		width, height := fullWidth, fullWidth
		if d.HasArg("width") {
			d.ScanArgs(t, "width", &width)
		}
		if d.HasArg("height") {
			d.ScanArgs(t, "height", &height)
		}
		var got []byte
		switch d.Cmd {
		case "frame":
			got = appendFrame(nil, sampleView(), places, width, height)
		case "line":
			got = appendPlain(nil, sampleView())
		case "summary":
			got = appendSummary(nil, sampleView(), width)
		default:
			t.Fatalf("unknown command %q", d.Cmd)
		}
		for line := range bytes.Lines(got) {
			if n := utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))); n > width {
				t.Errorf("a line of %d columns on a terminal of %d: %q", n, width, line)
			}
			if bytes.ContainsRune(line, '\x1b') {
				t.Errorf("a line with a terminal's command: %q", line)
			}
		}
		return string(got)
	})
}

// TestScreenKeepsToTheTerminal shows frames of a growing table on a low terminal: each starts at the top, has
// no more lines than fit, and does not end with a line feed, which would scroll.
func TestScreenKeepsToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, size: func() (int, int) { return 40, 5 }}
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := s.show([]byte("one\ntwo\nthree\nfour\nfive\nsix\n"), 5); err != nil {
		t.Fatal(err)
	}
	want := toTop + strings.Join([]string{"one", "two", "three", "four", "five"}, clearLine+"\r\n") + clearLine + clearBelow
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != leaveScreen {
		t.Errorf("at the end got %q, want %q", got, leaveScreen)
	}
}

// TestTableIsBounded adds more digests than the table has rows for: the totals stay right.
func TestTableIsBounded(t *testing.T) {
	table := newDigestTable()
	const digests = maxDigests + 50
	for i := range digests {
		table.add(&logRecord{Kind: kindStatement, Digest: fmt.Sprintf("%032x", i), Normalized: "select ?", Total: time.Millisecond})
	}
	table.add(&logRecord{Kind: kindStatement, Command: "ping", Total: time.Millisecond})
	table.add(&logRecord{Kind: "notice"})
	s := table.snapshot(time.Second, time.Second)
	var calls uint64
	others := uint64(0)
	for _, d := range s.digests {
		calls += d.calls
		if d.id == otherID {
			others = d.calls
		}
	}
	if s.calls != digests+1 || calls != s.calls || others != 51 || len(s.digests) != maxDigests+1 {
		t.Errorf("%d calls, %d over the rows, %d of them other, %d rows; want %d, %d, 51, %d",
			s.calls, calls, others, len(s.digests), digests+1, digests+1, maxDigests+1)
	}
}

// TestErrorsLeaveOutTheProvoked checks that both the gateway's and the clients' counts are taken into
// account.
func TestErrorsLeaveOutTheProvoked(t *testing.T) {
	for _, c := range []struct {
		seen, provoked, clients, want uint64
	}{
		{seen: 20, provoked: 20, clients: 0, want: 0},
		{seen: 23, provoked: 20, clients: 1, want: 3}, // another client's statements failed too
		{seen: 19, provoked: 20, clients: 0, want: 0}, // one record is still outstanding
		{seen: 20, provoked: 20, clients: 2, want: 2}, // connections were refused
	} {
		v := view{table: snapshot{errors: c.seen}, work: workload.Report{ExpectedErrors: c.provoked, Errors: c.clients}}
		if got := v.errors(); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
