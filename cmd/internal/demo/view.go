package demo

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/taredb/tare/cmd/internal/demo/workload"
	"github.com/taredb/tare/internal/quantity"
)

// A view is the state that the demo displays.
type view struct {
	elapsed time.Duration
	table   snapshot
	work    workload.Report
	queries uint64
	weight  WeightResult
}

// errors returns the number of unexpected failures: the gateway's count minus the provoked errors, or the
// clients' count if that is higher, because clients also see a gateway that does not respond.
func (v *view) errors() uint64 {
	var unprovoked uint64
	if v.table.errors > v.work.ExpectedErrors {
		unprovoked = v.table.errors - v.work.ExpectedErrors
	}
	return max(unprovoked, v.work.Errors)
}

// Addresses of the demo's parts.
type places struct {
	mysql    string // host:port of the gateway
	web      string // URL of the gateway's pages
	database string
	find     string // hint about the incident; "" before it
}

// frameLines is the number of lines of a frame besides the table's rows.
const frameLines = 14

// appendFrame appends the frame for a terminal of this size.
func appendFrame(dst []byte, v *view, p places, width, height int) []byte {
	line := func(format string, args ...any) { dst = appendCut(dst, fmt.Sprintf(format, args...), width) }
	line("tare demo   %s   %s statements/s   %s queries   %s errors (and %s provoked)%s", v.elapsed.Round(time.Second),
		quantity.Count(uint64(v.table.statements+0.5)), quantity.Count(v.queries), quantity.Count(v.errors()), quantity.Count(v.work.ExpectedErrors), droppedText(v.table.dropped))
	line("")
	dst = appendTable(dst, v.table.digests, false, width, max(1, height-frameLines))
	line("")
	line("Tare's own weight   %s", weightText(v.weight))
	line("%s", sentence(ceilingNote))
	line("")
	dst = appendHints(dst, p, width)
	line("")
	line("Ctrl-C ends the demo.")
	return dst
}

// appendPlain appends one line of progress for output without frames.
func appendPlain(dst []byte, v *view) []byte {
	return fmt.Appendf(dst, "%4s  %s statements/s  p50 %s  p99 %s  %s queries  %s errors (and %s provoked)%s  weight: %s\n",
		v.elapsed.Round(time.Second), quantity.Count(uint64(v.table.statements+0.5)), quantity.Duration(v.table.p50), quantity.Duration(v.table.p99),
		quantity.Count(v.queries), quantity.Count(v.errors()), quantity.Count(v.work.ExpectedErrors), droppedText(v.table.dropped), weightText(v.weight))
}

// appendSummary appends the text that remains after the demo.
func appendSummary(dst []byte, v *view, width int) []byte {
	line := func(format string, args ...any) { dst = appendCut(dst, fmt.Sprintf(format, args...), width) }
	line("%s queries in %s, %.0f a second; %s errors (and %s provoked)%s", quantity.Count(v.queries), v.elapsed.Round(time.Millisecond),
		perSecond(v.queries, v.elapsed), quantity.Count(v.errors()), quantity.Count(v.work.ExpectedErrors), droppedText(v.table.dropped))
	if v.work.LastError != "" {
		line("The latest error: %s", v.work.LastError)
	}
	line("")
	dst = appendTable(dst, v.table.digests, true, width, len(v.table.digests))
	line("")
	line("Tare's own weight   %s", weightText(v.weight))
	line("%s", sentence(ceilingNote))
	return dst
}

// appendHints appends advice on how to inspect the demo.
func appendHints(dst []byte, p places, width int) []byte {
	host, port, err := net.SplitHostPort(p.mysql)
	if err != nil {
		panic("BUG: the gateway's address is " + p.mysql)
	}
	find := "Find it      one statement is slow on purpose: see " + p.web + "/queries?sort=mean"
	if p.find != "" {
		find = p.find
	}
	for _, hint := range []string{
		"Connect      mysql -h " + host + " -P " + port + " -u root " + p.database,
		"Pages        " + p.web + "/",
		find,
		"Your own     tare serve --backend mysql://HOST:3306, then connect your application to 127.0.0.1:3316",
	} {
		dst = appendCut(dst, hint, width)
	}
	return dst
}

func weightText(w WeightResult) string {
	return fmt.Sprintf("%s µs CPU, %s of heap, %s allocations a query; %s resident",
		quantity.Digits(w.CPU), size(w.Heap), quantity.Digits(w.Allocs), size(float64(w.RSS)))
}

func droppedText(n uint64) string {
	if n == 0 {
		return ""
	}
	return "; " + quantity.Count(n) + " log records dropped"
}

// sentence turns a note into a sentence.
func sentence(note string) string { return string(note[0]-'a'+'A') + note[1:] + "." }

// result returns the view in the form of --json.
func (v *view) result() Result {
	r := Result{
		Seconds: v.elapsed.Seconds(), Queries: v.queries, QueriesPerSecond: perSecond(v.queries, v.elapsed),
		Errors: v.errors(), ExpectedErrors: v.work.ExpectedErrors, LastError: v.work.LastError,
		LogDropped: v.table.dropped, P50: micros(v.table.p50), P99: micros(v.table.p99),
		Digests: make([]DigestResult, 0, len(v.table.digests)), Weight: v.weight, Note: ceilingNote,
	}
	for d := range slices.Values(v.table.digests) {
		r.Digests = append(r.Digests, DigestResult{
			Digest: d.id, Text: d.text, Calls: d.calls, CallsPerSecond: d.firstToLast, P50: micros(d.p50), P99: micros(d.p99),
			Rows: d.rows, Errors: d.errors, ShareOfTime: d.share,
		})
	}
	return r
}
