package statements

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// totalsFields are the fields of Totals in JSON besides the effects, which have the names of their counters.
type totalsFields struct {
	Calls   uint64  `json:"calls"`
	Errors  uint64  `json:"errors"`
	Seconds float64 `json:"seconds"`

	// Quantiles are missing without calls.
	P50  *float64 `json:"p50_us,omitempty"`
	P99  *float64 `json:"p99_us,omitempty"`
	P999 *float64 `json:"p999_us,omitempty"`
}

// TotalsJSON are Totals that are in JSON an object with a member for each counter. It has other members too if it is decoded.
type TotalsJSON Totals

// MarshalJSON implements json.Marshaler.
func (t *TotalsJSON) MarshalJSON() ([]byte, error) {
	f := totalsFields{Calls: t.Calls, Errors: t.Errors, Seconds: t.Seconds}
	if t.Calls > 0 {
		f.P50, f.P99, f.P999 = new(micros(t.P50)), new(micros(t.P99)), new(micros(t.P999))
	}
	object, err := json.Marshal(&f)
	if err != nil {
		return nil, err
	}
	object = object[:len(object)-1]
	for _, c := range stmtstats.Effects() {
		object = fmt.Appendf(object, ",%q:%d", c.String(), t.Counts[c])
	}
	return append(object, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *TotalsJSON) UnmarshalJSON(object []byte) error {
	var f totalsFields
	if err := json.Unmarshal(object, &f); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return err
	}
	*t = TotalsJSON{Calls: f.Calls, Errors: f.Errors, Seconds: f.Seconds, P50: duration(f.P50), P99: duration(f.P99), P999: duration(f.P999)}
	for _, c := range stmtstats.Effects() {
		if n, ok := all[c.String()]; ok {
			if err := json.Unmarshal(n, &t.Counts[c]); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
		}
	}
	return nil
}

// MarshalJSON returns the row as an object that has the members of its Totals too.
func (r *statementRowJSON) MarshalJSON() ([]byte, error) {
	type row statementRowJSON
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode((*row)(r)); err != nil {
		return nil, err
	}
	totals, err := r.Totals.MarshalJSON()
	if err != nil {
		return nil, err
	}
	object := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	return append(append(object, ','), totals[1:]...), nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// duration returns 0 for a quantile that is missing.
func duration(micros *float64) time.Duration {
	if micros == nil {
		return 0
	}
	return time.Duration(math.Round(*micros * 1000))
}
