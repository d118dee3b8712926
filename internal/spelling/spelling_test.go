package spelling

import "testing"

func TestSuggest(t *testing.T) {
	flags := []string{"over", "every", "once", "json", "by"}
	for name, want := range map[string]string{"onec": " (did you mean once?)", "evrey": " (did you mean every?)", "hi": "", "z": "", "yb": " (did you mean by?)"} {
		if got := Suggest(name, flags); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
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
