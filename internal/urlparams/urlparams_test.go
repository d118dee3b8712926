package urlparams

import (
	"net/url"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"", ""},
		{"a=1&c=", ""},
		{"d=1", `unknown parameter "d": want a, b or c`},
		{"=1", `unknown parameter "": want a, b or c`},
		{"A=1", `unknown parameter "A": want a, b or c`},
		{"b=1&b=1", "b is given 2 times: want it once"},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Check(q, "a", "b", "c"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.query, got, c.want)
		}
	}
	if err := Check(url.Values{"x": {""}}, "limit"); err == nil || err.Error() != `unknown parameter "x": want limit` {
		t.Error(err)
	}
}
