package querylog

import (
	"testing"
)

// TestFilterWords tests words and conditions, with and without -, on an entry and on its line.
func TestFilterWords(t *testing.T) {
	r := Record{User: "App", Schema: "shop", Normalized: []byte("SELECT `Größe` FROM orders WHERE id = ?"), Digest: [16]byte{0x02, 0xe6}, Total: 20e6}
	l := Line{OriginalText: true, MaxBind: 256, MaxText: (1 << 20)}
	l.Begin(nil, r.Kind())
	r.AppendFields(&l)
	text := l.End()
	for filter, want := range map[string]bool{
		"ORDERS":                       true,
		"orders größe":                 true,
		"GRÖSSE":                       false,
		"-orders":                      false,
		"-customers":                   true,
		`"from orders where"`:          true,
		`-"from orders where"`:         false,
		`"id = ?"`:                     true,
		"user=App":                     true,
		"user=app":                     false,
		"-user=app":                    true,
		"-user!=App":                   true,
		"-schema~ho":                   false,
		"-schema!~ho":                  true,
		"digest=02e6":                  true,
		"digest=02E6":                  true,
		"digest=02e7":                  false,
		"digest!=02e7":                 true,
		"-digest=02e6":                 false,
		"digest!=02e6":                 false,
		"orders total_ns>10ms user~pp": true,
		"orders total_ns>30ms user~pp": false,
	} {
		f, err := ParseFilter(filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if err := f.CheckRecord(); err != nil {
			t.Errorf("%s: %v", filter, err)
		}
		if got := f.passEntry(&r); got != want {
			t.Errorf("%s passes the record: %v, want %v", filter, got, want)
		}
		if got, _, err := f.passLine(text, nil); got != want || err != nil {
			t.Errorf("%s passes the line: %v (%v), want %v", filter, got, err, want)
		}
		again, err := ParseFilter(f.String())
		if err != nil || again.String() != f.String() || again.passEntry(&r) != want {
			t.Errorf("%s prints %s, which is another filter (%v)", filter, f, err)
		}
	}
}
