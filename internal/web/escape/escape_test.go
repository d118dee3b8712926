package escape

import (
	"bytes"
	"html/template"
	"math/rand/v2"
	"testing"
)

// TestEscape compares both functions with html/template.
func TestEscape(t *testing.T) {
	text := template.Must(template.New("").Parse(`{{.}}`))
	attribute := template.Must(template.New("").Parse(`<p title="{{.}}">`))
	url := template.Must(template.New("").Parse(`<a href="{{.}}">`))
	compare := func(s string) {
		t.Helper()
		var escaped, link bytes.Buffer
		HTML(&escaped, s)
		URL(&link, s)
		for _, c := range []struct {
			tmpl *template.Template
			got  string
		}{{text, escaped.String()}, {attribute, `<p title="` + escaped.String() + `">`}, {url, `<a href="` + link.String() + `">`}} {
			var want bytes.Buffer
			if err := c.tmpl.Execute(&want, s); err != nil {
				t.Fatal(err)
			}
			if c.got != want.String() {
				t.Fatalf("%q becomes %q, want %q", s, c.got, want.String())
			}
		}
	}
	for c := range 256 {
		compare("a" + string([]byte{byte(c)}) + "b")
	}
	words := []string{"", "a", "%", "41", "zZ", "http", "HTTPS", "mailto", "javascript", ":", "/", "//", "?", "&", "'", "\"", "<", "+", "\x00", "é", "\u2028", "\uffff", "\xff", " "}
	for seed := range uint64(3000) {
		r, s := rand.New(rand.NewPCG(seed, 1)), ""
		for range r.IntN(7) {
			s += words[r.IntN(len(words))]
		}
		compare(s)
	}
}
