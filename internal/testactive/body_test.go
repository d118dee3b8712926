package testactive

import (
	"encoding/json"
	"testing"
)

// TestBody compares a body with the encoding of the same labels by encoding/json.
func TestBody(t *testing.T) {
	var want struct {
		Data []map[string]string `json:"data"`
	}
	for _, series := range []string{"series_0", "series_1"} {
		want.Data = append(want.Data, map[string]string{"__name__": "m_7", "job": "prometheus7", "instance": "instance7", "series": series})
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got := Body(7, 2); string(got) != string(text) {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	total := 0
	for _, b := range Bodies(128, 1) {
		total += len(b)
	}
	if total < 12_000 || total > 12_400 {
		t.Errorf("128 bodies of one series have %d bytes, want the 12.2 KB of the original", total)
	}
}
