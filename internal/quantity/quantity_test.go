package quantity

import (
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Digits(0.126), "0.13"},
		{Digits(9.996), "10.0"},
		{Digits(1234.4), "1234"},
		{Grouped("-1234567"), "-1,234,567"},
		{Grouped("-123"), "-123"},
		{Count(1000), "1,000"},
		{Duration(999), "999 ns"},
		{Duration(1500 * time.Microsecond), "1.50 ms"},
		{Duration(90 * time.Second), "90.0 s"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
