package stmtstats

import (
	"slices"

	"github.com/taredb/tare/querylog"
)

// A Counter is the index of a counter in Counts.
type Counter uint8

// The counters of a Key. Errors is that of the first ErrorClass; those of the others follow.
const (
	Calls Counter = iota
	Nanos
	RowsSent
	RowsAffected
	BytesReceived
	BytesSent
	Warnings
	Errors

	NumCounters = int(Errors) + ErrorClasses
)

// counters describe the counters up to Errors, whose description is that of all classes. A new counter has an index above, a
// description here and a line in addEffects; files, series, API and pages follow.
var counters = [Errors + 1]CounterInfo{
	Calls:         {"calls", "Calls", CountUnit, true, "tare_queries_total", "Finished statements."},
	Nanos:         {"nanoseconds", "Load", NanosUnit, true, "tare_query_duration_seconds", "Statement durations, schema 5: quantiles within 2.2 %."},
	RowsSent:      {"rows_sent", "Rows sent", CountUnit, true, "tare_query_rows_sent_total", "Rows sent to clients."},
	RowsAffected:  {"rows_affected", "Rows changed", CountUnit, true, "tare_query_rows_affected_total", "Rows changed."},
	BytesReceived: {"bytes_received", "Bytes received", BytesUnit, false, "tare_query_bytes_received_total", "Bytes of the commands, packet headers included."},
	BytesSent:     {"bytes_sent", "Bytes sent", BytesUnit, false, "tare_query_bytes_sent_total", "Bytes of the responses, packet headers included."},
	Warnings:      {"warnings", "Warnings", CountUnit, false, "tare_query_warnings_total", "Warnings of statements."},
	Errors:        {"errors", "Errors", CountUnit, true, "tare_query_errors_total", "Failed statements, by class of error."},
}

// addEffects adds the effects of a finished statement. The caller is registered as a writer.
func (e *entry) addEffects(r *querylog.Record) {
	e.add(RowsSent, r.RowsReturned)
	e.add(RowsAffected, r.RowsAffected)
	e.add(BytesReceived, r.BytesIn)
	e.add(BytesSent, r.BytesOut)
	e.add(Warnings, uint64(r.Warnings))
}

// add adds to a counter. It is inlined, so that a counter without increase costs a comparison.
func (e *entry) add(c Counter, n uint64) {
	if n != 0 {
		e.counters[c].Add(n)
	}
}

// A CounterInfo describes a counter.
type CounterInfo struct {
	Name   string // in files, filters and JSON
	Title  string // on pages
	Unit   Unit
	Chart  bool   // the page of a statement has a chart of it
	Metric string // the name of its series, which are native histograms for Nanos and have a label class for Errors
	Help   string // of the series
}

// A Unit is that of a counter.
type Unit uint8

// The units.
const (
	CountUnit Unit = iota
	NanosUnit
	BytesUnit
)

// Base returns Errors for the counter of a class, and c for others.
func (c Counter) Base() Counter { return min(c, Errors) }

// Class returns the class that the counter of an error counts.
func (c Counter) Class() ErrorClass { return ErrorClass(c - Errors) }

// Info returns the description of c. That of the counters of errors is the same.
func (c Counter) Info() CounterInfo { return counters[c.Base()] }

// String returns the name of c, with the class of an error: "errors.deadlock".
func (c Counter) String() string {
	if c >= Errors {
		return counters[Errors].Name + "." + c.Class().String()
	}
	return counters[c].Name
}

// ParseCounter returns the counter with a name that String returns.
func ParseCounter(name string) (Counter, bool) {
	i := slices.IndexFunc(allCounters(), func(c Counter) bool { return c.String() == name })
	return Counter(max(i, 0)), i >= 0
}

func allCounters() []Counter {
	all := make([]Counter, NumCounters)
	for i := range all {
		all[i] = Counter(i)
	}
	return all
}

// Effects returns the counters of effects of calls, which are neither the calls nor their time or errors, in their order.
func Effects() []Counter { return allCounters()[Nanos+1 : Errors] }

// Counts are counters of calls, by Counter.
type Counts [NumCounters]uint64

// Add adds o to c.
func (c *Counts) Add(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Subtract subtracts o from c. Counts below those of o become 0.
func (c *Counts) Subtract(o *Counts) {
	for i, n := range o {
		c[i] -= min(c[i], n)
	}
}

// Any reports whether a call was counted, or time of one in flight.
func (c *Counts) Any() bool { return c[Calls] > 0 || c[Nanos] > 0 }

// Sum returns a count, and of Errors the sum of all classes.
func (c *Counts) Sum(of Counter) (n uint64) {
	if of != Errors {
		return c[of]
	}
	for _, e := range c[Errors:] {
		n += e
	}
	return n
}

// Failed returns the number of errors of all classes.
func (c *Counts) Failed() uint64 { return c.Sum(Errors) }

// Seconds returns the total time of the calls.
func (c *Counts) Seconds() float64 { return float64(c[Nanos]) / 1e9 }
