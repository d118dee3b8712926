package querylog_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/querylog"
)

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
		f, err := querylog.ParseFilter(filter)
		if err == nil {
			err = f.CheckRecord()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", filter, err, want)
		}
	}
	f, err := querylog.ParseFilter("orders")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckFields("request", []string{"query"}); err == nil || !strings.Contains(err.Error(), `requests have no text to look for "orders" in`) {
		t.Errorf("a word on lines without normalized: %v", err)
	}
}
