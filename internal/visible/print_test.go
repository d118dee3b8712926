package visible_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/taredb/tare/internal/visible"
)

func TestSprintf(t *testing.T) {
	odd := "a\nb\r\x1b"
	got := visible.Sprintf("%s: %v %d, %s\n%q\n", odd, errors.New(odd), 3, &url.URL{Path: "/c"}, odd)
	if want := "a b ⟨U+001B⟩: a b ⟨U+001B⟩ 3, /c\n\"a b ⟨U+001B⟩\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
