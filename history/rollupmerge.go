package history

import (
	"time"

	"github.com/taredb/tare/stmtstats"
)

// mergeDay makes the rollup of a day out of those of its hours, which are in order.
func mergeDay(start time.Time, hours []*rollup) (*rollup, error) {
	day := &rollup{start: start.UTC(), span: rollupDay}
	at := make(map[keyPrint]int)
	var scratch stmtstats.Histogram
	for _, h := range hours {
		day.last = max(day.last, h.last)
		day.labels = h.labels
		for i := range h.rows {
			row := &h.rows[i]
			n, known := at[row.print]
			if !known {
				at[row.print] = len(day.rows)
				day.rows = append(day.rows, *row)
				continue
			}
			to := &day.rows[n]
			to.counts.add(&row.counts)
			to.last = max(to.last, row.last)
			if to.text == "" {
				to.text = row.text
			}
			scratch.Reset()
			if err := scratch.AddSpread(to.spread); err != nil {
				return nil, err
			}
			if err := scratch.AddSpread(row.spread); err != nil {
				return nil, err
			}
			to.spread = scratch.AppendSpread(nil)
		}
	}
	return day, nil
}
