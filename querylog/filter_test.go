package querylog

import (
	"strings"
	"testing"
)

// TestFilterWords tests words and conditions, with and without -, on an entry and on its line.
func TestFilterWords(t *testing.T) {
	r := Record{User: "App", Schema: "shop", Normalized: []byte("SELECT `Größe` FROM orders WHERE id = ?"), Digest: [16]byte{0x02, 0xe6}, Total: 20e6}
	text := line(&r, JSON, RedactNone)
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

func TestFilterErrors(t *testing.T) {
	for filter, want := range map[string]string{
		"usr=report":     "unknown field usr (did you mean user?)",
		"took>10ms":      "unknown field took: the fields of statements are kind, total_ns,",
		"id=5":           "a text with = in it is put in double quotes",
		"-total_ns>10ms": "want no - before a condition with < or >",
		`""`:             "want a text between the quotes",
		`-""`:            "want a text between the quotes",
		"=b":             "want a field's name and an operator, or a text in double quotes",
		"t.id=5":         "want a field's name and an operator, or a text in double quotes",
		"total_ns>fast":  `"fast" is neither a number nor a duration`,
		`user="a`:        "no closing quote",
		`"a"b`:           "want a space after it",
	} {
		f, err := ParseFilter(filter)
		if err == nil {
			err = f.CheckRecord()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", filter, err, want)
		}
	}
	f, err := ParseFilter("orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckFields("request", []string{"query"}); err == nil || !strings.Contains(err.Error(), `requests have no text to look for "orders" in`) {
		t.Errorf("a word on lines without normalized: %v", err)
	}
}
