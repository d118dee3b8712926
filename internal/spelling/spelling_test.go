package spelling

import "testing"

func TestSuggest(t *testing.T) {
	known := []string{"user", "schema", "backend", "digest", "normalized"}
	for name, want := range map[string]string{
		"usr": " (did you mean user?)", "shcema": " (did you mean schema?)", "norm": "", "": "", "backends": " (did you mean backend?)", "xyzzy": "",
	} {
		if got := Suggest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Suggest("a", nil); got != "" {
		t.Errorf("of no names: %q", got)
	}
}
