package accept_test

import (
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
