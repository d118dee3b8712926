//go:build invariants

package activeseries

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/testactive"
)

// TestPoison expects the results of a decoder to be overwritten when they expire.
func TestPoison(t *testing.T) {
	body := testactive.Body(1, 2000)
	for name, c := range map[string]struct {
		d    Decoder
		body []byte
	}{
		"Scanner": {new(Scanner), body},
		"Plain":   {new(plainScanner), body},
	} {
		c.d.Reset(bytes.NewReader(c.body))
		first, _, err := c.d.Next()
		if err != nil {
			t.Fatal(err)
		}
		was := bytes.Clone(first)
		second, _, err := c.d.Next()
		if err != nil {
			t.Fatal(err)
		}
		// Poisoned bytes may have been overwritten by new data.
		if bytes.Equal(first, was) {
			t.Errorf("%s: items are still there after the next call: %.60q", name, first)
		}
		c.d.Reset(noReader{})
		if rest := second[len(second)/2:]; bytes.Count(rest, []byte{poison}) != len(rest) {
			t.Errorf("%s: items are still there after Reset: %.60q", name, rest)
		}
	}
}
