package accept_test

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/taredb/tare/internal/accept"
)

func TestEncoding(t *testing.T) {
	for header, want := range map[string][3]int{ // gzip, zstd, identity
		"":                         {0, 0, 1},
		"gzip":                     {1000, 0, 1},
		"X-Gzip;q=0.25":            {250, 0, 1},
		"gzip;Q=0":                 {0, 0, 1},
		"gzip;x=1;q=0":             {0, 0, 1},
		"gzip;q=":                  {0, 0, 1},
		"gzip;q=1.001":             {0, 0, 1},
		"gzip;q=2":                 {0, 0, 1},
		"gzip;q=-1":                {0, 0, 1},
		"gzip;q=0.1234":            {0, 0, 1},
		"gzip ; q = 0.5 , zstd":    {500, 1000, 1},
		"*;q=0.3":                  {300, 300, 1},
		"*;q=0":                    {0, 0, 0},
		"*;q=0, identity":          {0, 0, 1000},
		"identity;q=0, *":          {1000, 1000, 0},
		",, gzip;;q=0.7;, ;q=0.9,": {700, 0, 1},
	} {
		ranges := accept.Parse([]string{header})
		got := [3]int{accept.Encoding(ranges, "gzip"), accept.Encoding(ranges, "zstd"), accept.Encoding(ranges, accept.Identity)}
		if got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// TestParse has names in lower case without those that are empty, and compares all weights of up to six characters with the grammar of
// RFC 9110, section 12.4.2.
func TestParse(t *testing.T) {
	got := accept.Parse([]string{"", "A;level=1, ,b;q=0.5;x", " , ", ";q=1,C ;Q=0.001"})
	if want := []accept.Range{{"a", 1000}, {"b", 500}, {"c", 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	grammar := regexp.MustCompile(`^(0(\.[0-9]{0,3})?|1(\.0{0,3})?)$`)
	var check func(weight string)
	check = func(weight string) {
		want := 0
		if f, err := strconv.ParseFloat(weight, 64); err == nil && grammar.MatchString(weight) {
			want = int(math.Round(f * 1000))
		}
		if got := accept.Parse([]string{"x;q=" + weight}); len(got) != 1 || got[0].Q != want {
			t.Errorf("weight %q: %v, want %d", weight, got, want)
		}
		for _, c := range "0129.-" {
			if len(weight) < 6 {
				check(weight + string(c))
			}
		}
	}
	check("")
}
