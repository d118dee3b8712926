package top

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// hostileText has each character that changes what a terminal shows, and sequences that set its title, its clipboard and its colors.
func hostileText() string {
	var b strings.Builder
	b.WriteString("no\n\x1b]0;owned\a\x1b]52;c;b3duZWQ=\a\x1b[2J\x9b31m\xc2\x9b31m\rall is well\n")
	for r := rune(0); r <= 0xffff; r++ {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// poison sets all texts in a value, and gives its lists and pointers an element.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poison(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		poison(v.Index(0), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), text)
			}
		}
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(2)
	case reflect.Int:
		v.SetInt(2)
	}
}

// TestHostileGateway reads a gateway each of whose texts has every hidden character, and shows every page of it: none is shown as it is.
func TestHostileGateway(t *testing.T) {
	text := hostileText()
	responses := make(map[string][]byte)
	for path, response := range map[string]any{"/api/v1/live": &Live{}, "/api/v1/statements": &Statements{}, "/api/v1/sessions": &Sessions{}, "/api/v1/events": &events{}} {
		poison(reflect.ValueOf(response).Elem(), text)
		b, err := json.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		responses[path] = b
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(responses[r.URL.Path]) }))
	defer s.Close()
	c, err := NewClient(ClientOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := ModelOptions{Host: "h", Every: time.Second, Window: time.Minute, By: ByLoad}
	reading, err := c.Read(t.Context(), Ask{By: ByLoad, Limit: 5})
	if err != nil || reading.Sessions == nil || reading.Event == nil {
		t.Fatalf("%+v, %v", reading, err)
	}
	var h History
	check := func(shown, text string) {
		t.Helper()
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
			return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		}) || strings.Contains(text, "\nall is well") {
			t.Errorf("%s: %q", shown, text)
		}
	}
	frame := h.Frame(reading, time.Minute)
	check("plain", plain(o, frame))
	for _, width := range []int{40, 80, 200, 1 << 16} {
		m := NewModel(o)
		m.Resize(width, 60)
		m.Show(frame)
		check("table", m.View())
		for _, keys := range []string{"enter", "esc s", "enter k", "n esc ? esc"} {
			for key := range strings.FieldsSeq(keys) {
				m.Key(key)
				check(key, m.View())
			}
		}
		m.Fail(errors.New(text))
		check("failure", m.View())
		m.Killed(errors.New(text))
		check("kill", m.View())
	}
}
