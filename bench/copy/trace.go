package main

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/taredb/tare/internal/chart"
)

// A trace records a throttled copy and the concurrent traffic, second by second.
type trace struct {
	statement   float64 // the bound, in ms per statement as the gateway reports it
	transaction float64 // twice sysbench's p99 without a copy, ms
	seconds     []second
}

// A second has the values at its end.
type second struct {
	at          time.Duration
	transaction float64 // p99 of sysbench's transactions of this second, ms
	statement   float64 // p99 of the gateway's statements of the last ten, ms
	share       float64 // rate of the copy: fraction of full speed
	bytes       int64   // copied so far
	reason      string  // reason of the throttling
}

func (t *trace) add(s second) { t.seconds = append(t.seconds, s) }

// over returns the number of seconds in which transactions exceeded the bound.
func (t *trace) over() (n int) {
	for _, s := range t.seconds {
		if s.transaction > t.transaction {
			n++
		}
	}
	return n
}

// speed returns MB/s within the five seconds before second i: rows count when their chunk is written.
func (t *trace) speed(i int) float64 {
	from := max(0, i-5)
	took := (t.seconds[i].at - t.seconds[from].at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(t.seconds[i].bytes-t.seconds[from].bytes) / 1e6 / took
}

func (t *trace) writeFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

func (t *trace) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"seconds", "transaction_p99_ms", "statement_p99_ms", "bound_ms", "share", "mb_per_second", "reason"}) // Error returns it
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	for i, s := range t.seconds {
		_ = c.Write([]string{
			number(s.at.Seconds()), number(s.transaction), number(s.statement), number(t.statement), number(s.share), number(t.speed(i)), s.reason,
		})
	}
	c.Flush()
	return c.Error()
}

// writeSVG draws the p99, the rate and the speed, one below the other.
func (t *trace) writeSVG(w io.Writer) error {
	panels := []chart.Panel{
		{Title: "p99 of a statement, ms (last 10 s), and its bound", Level: t.statement},
		{Title: "p99 of a transaction, ms (each second), and twice that of the traffic alone", Level: t.transaction},
		{Title: "fraction of full speed that the copy may use, %"},
		{Title: "copied, MB/s"},
	}
	for p := range panels {
		line := chart.Line{Color: "#0f766e"}
		for i, s := range t.seconds {
			line.X = append(line.X, s.at.Seconds())
			line.Y = append(line.Y, []float64{s.statement, s.transaction, 100 * s.share, t.speed(i)}[p])
		}
		panels[p].Lines = []chart.Line{line}
	}
	c := chart.Chart{
		Title:  "A copy that keeps the p99 of live traffic below a bound",
		Desc:   "Over time: the p99 of statements and of transactions with their bounds, the fraction of full speed that the copy may use, and how fast it copies.",
		XLabel: "seconds", Stacked: true, Panels: panels,
	}
	_, err := w.Write(c.AppendSVG(nil))
	return err
}
