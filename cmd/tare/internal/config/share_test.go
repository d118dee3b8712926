package config

import (
	"strings"
	"testing"
)

// TestShares accepts fractions from 0 to 1, both included.
func TestShares(t *testing.T) {
	for _, name := range []string{"hedge", "decoder-compare"} {
		for text, want := range map[string]float64{"0": 0, "1": 1, "0.01": 0.01, "1e-3": 0.001, "-0": 0} {
			c := NewFrontend()
			if _, err := c.Load(Input{Flags: map[string]string{"downstream": "http://127.0.0.1:1", name: text}}); err != nil {
				t.Errorf("--%s %s: %v", name, text, err)
			}
			got := c.Options.Hedge
			if name != "hedge" {
				got = c.Options.Decoding.Compare
			}
			if got != want {
				t.Errorf("--%s %s is %v, want %v", name, text, got, want)
			}
		}
		for _, text := range []string{"-0.001", "1.001", "2", "NaN", "Inf", "-Inf", "", "x", "1%"} {
			c := NewFrontend()
			if _, err := c.Load(Input{Flags: map[string]string{"downstream": "http://127.0.0.1:1", name: text}}); err == nil || !strings.Contains(err.Error(), "want a share from 0 to 1") || !strings.Contains(err.Error(), name) {
				t.Errorf("--%s %q: %v", name, text, err)
			}
		}
	}
}
