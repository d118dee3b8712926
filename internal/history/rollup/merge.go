package rollup

import (
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// mergeDay merges the rollups of a day's hours, which are in order.
func mergeDay(start time.Time, hours []*Rollup) (*Rollup, error) {
	day := &Rollup{Start: start.UTC(), Span: Day}
	at := make(map[Print]int)
	var scratch stmtstats.Histogram
	for _, h := range hours {
		day.Last = max(day.Last, h.Last)
		day.Labels = h.Labels
		for i := range h.Rows {
			row := &h.Rows[i]
			n, known := at[row.Print]
			if !known {
				at[row.Print] = len(day.Rows)
				day.Rows = append(day.Rows, *row)
				continue
			}
			to := &day.Rows[n]
			to.Counts.Add(&row.Counts)
			to.Last = max(to.Last, row.Last)
			if to.Text == "" {
				to.Text = row.Text
			}
			scratch.Reset()
			if err := scratch.AddSpread(to.Spread); err != nil {
				return nil, err
			}
			if err := scratch.AddSpread(row.Spread); err != nil {
				return nil, err
			}
			to.Spread = scratch.AppendSpread(nil)
		}
	}
	return day, nil
}
