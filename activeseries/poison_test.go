//go:build invariants

package activeseries

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/testactive"
)

// TestPoison overwrites what a decoder has returned, once it is no longer to be looked at.
func TestPoison(t *testing.T) {
	body := testactive.Body(1, 2000)
	for name, c := range map[string]struct {
		d    Decoder
		body []byte
	}{
		"Scanner":      {new(Scanner), body},
		"Plain":        {new(Plain), body},
		"FrameScanner": {NewFrameScanner(FormFramedEnd), frames(t, body, FormFramedEnd)},
		"PlainFrames":  {NewPlainFrames(FormFramedEnd), frames(t, body, FormFramedEnd)},
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
		// What was poisoned may have been read over since.
		if bytes.Equal(first, was) {
			t.Errorf("%s: items are still there after the next call: %.60q", name, first)
		}
		c.d.Reset(noReader{})
		if rest := second[len(second)/2:]; bytes.Count(rest, []byte{poison}) != len(rest) {
			t.Errorf("%s: items are still there after Reset: %.60q", name, rest)
		}
	}
}
