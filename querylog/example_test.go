package querylog_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)

// A session fills its record and logs it; the next statement reuses the record.
func ExampleLogger() {
	l, err := querylog.New(querylog.Options{
		Boot:  "5f3c",
		Sinks: []querylog.SinkOptions{{Path: "-", Redaction: querylog.RedactLiterals}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := querylog.Record{
		Start:      start,
		Total:      1500 * time.Microsecond,
		Client:     netip.MustParseAddrPort("192.0.2.7:50123"),
		User:       "app",
		Command:    mysqlwire.ComQuery,
		Normalized: []byte("insert into users values (?)"),
		Text:       []byte("INSERT INTO users VALUES ('ann')"),

		ErrorNumber: 1062,
		SQLState:    "23000",
		ErrorText:   []byte("Duplicate entry 'ann' for key 'users.name'"),
	}
	l.Log(&r)
	if err := l.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"kind":"statement","boot":"5f3c","seq":1,"start":"2026-03-04T05:06:07.000008000Z","end":"2026-03-04T05:06:07.001508000Z","total_ns":1500000,"user":"app","client":"192.0.2.7:50123","connection_id":0,"command":"Query","normalized":"insert into users values (?)","bytes_in":0,"bytes_out":0,"error_number":1062,"sqlstate":"23000","error_text":"Duplicate entry '?' for key 'users.name'","plan_cached":false}
}

// The line builder without a logger, in both formats.
func ExampleLine() {
	for _, format := range []querylog.Format{querylog.JSON, querylog.Text} {
		l := querylog.Line{Format: format}
		l.Begin(nil, "job")
		l.Time("start", start)
		l.String("name", "nightly\tcopy")
		l.Bytes("key", []byte("\xff\x00"))
		l.Uint("rows", 1_000_000)
		_, _ = os.Stdout.Write(l.End())
	}
	// Output:
	// {"kind":"job","start":"2026-03-04T05:06:07.000008000Z","name":"nightly\tcopy","key_base64":"/wA=","rows":1000000}
	// kind:job	start:2026-03-04T05:06:07.000008000Z	name:nightly\tcopy	key:\xff\x00	rows:1000000
}

// A request is a record kind of another server.
type request struct {
	start  time.Time
	took   time.Duration
	series uint64
	err    string
}

func (r *request) Kind() string { return "request" }

func (r *request) Facts() querylog.Facts {
	return querylog.Facts{End: r.start.Add(r.took), Total: r.took, Rows: r.series, Failed: r.err != ""}
}

func (r *request) AppendFields(l *querylog.Line) {
	l.Time("start", r.start)
	l.Duration("total_ns", r.took)
	l.Uint("series", r.series)
	if r.err != "" {
		l.String("error_text", r.err)
	}
}

// Other servers log records of their kinds with the same sampling and sinks.
func ExampleLogger_LogEntry() {
	l, err := querylog.New(querylog.Options{
		Boot:     "5f3c",
		Sampling: querylog.Sampling{SlowerThan: time.Second, Errors: true},
		Sinks:    []querylog.SinkOptions{{Path: "-", Format: querylog.Text}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l.LogEntry(&request{start: start, took: time.Millisecond, series: 7}) // not logged
	l.LogEntry(&request{start: start, took: time.Minute, series: 900})
	if err := l.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(l.Stats().Sinks[0].Written)
	// Output:
	// kind:request	boot:5f3c	seq:1	start:2026-03-04T05:06:07.000008000Z	total_ns:60000000000	series:900	emit_reason:slow
	// 1
}

func ExampleLogger_ServeHTTP() {
	l, err := querylog.New(querylog.Options{Boot: "5f3c"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		l.LogEntry(&request{start: start, series: uint64(i)})
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest("GET", "/debug/querylog?format=text&for=0s&filter=series%3E0", nil))
	fmt.Print(w.Body)
	if err := l.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// kind:request	boot:5f3c	seq:2	start:2026-03-04T05:06:07.000008000Z	total_ns:0	series:1
	// kind:request	boot:5f3c	seq:3	start:2026-03-04T05:06:07.000008000Z	total_ns:0	series:2
}

// ParseLine reads lines in either format.
func ExampleParseLine() {
	for _, line := range []string{
		`{"kind":"job","name":"a\tb","key_base64":"/wA=","rows":3}`,
		`kind:job	name:a\tb	key:\xff\x00	rows:3`,
	} {
		f := querylog.ParseLine([]byte(line))
		for f.Next() {
			v, err := f.AppendValue(nil)
			if err != nil {
				fmt.Println(err)
			}
			fmt.Printf("%s=%q ", f.Name(), v)
		}
		fmt.Println(f.Err())
	}
	// Output:
	// kind="job" name="a\tb" key="\xff\x00" rows="3" <nil>
	// kind="job" name="a\tb" key="\xff\x00" rows="3" <nil>
}

func ExampleParseFilter() {
	f, err := querylog.ParseFilter(`user=app total_ns>10ms normalized~"from orders"`)
	fmt.Println(f, err)
	_, err = querylog.ParseFilter("total_ns>fast")
	fmt.Println(err)
	// Output:
	// user=app total_ns>10ms normalized~"from orders" <nil>
	// filter: field total_ns: "fast" is neither a number nor a duration
}

func ExampleAppendUnescaped() {
	escaped := querylog.AppendEscaped(nil, []byte("tab\t, nul \x00, \xff and \\"))
	fmt.Printf("%s\n", escaped)
	b, err := querylog.AppendUnescaped(nil, escaped)
	fmt.Printf("%q %v\n", b, err)
	// Output:
	// tab\t, nul \x00, \xff and \\
	// "tab\t, nul \x00, \xff and \\" <nil>
}
