package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/taredb/tare/bench/smallblocks"
)

func decoded(t *testing.T, text string) *response {
	t.Helper()
	r := &response{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	r.sort()
	return r
}

const (
	a = `{"metric":{"i":"a"},"values":[[60,"1"],[120,"2"]]}`
	b = `{"metric":{"i":"b"},"values":[[60,"3"]]}`
)

func success(series, warnings string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + series + `]},"warnings":[` + warnings + `]}`
}

func TestJudge(t *testing.T) {
	q := &query{name: "test", raw: true, want: decoded(t, success(a+","+b, "")).Data}
	sums := &query{name: "test", want: q.want}
	for _, test := range []struct {
		name     string
		q        *query
		response string
		want     verdict
		wrong    string // part of the error
	}{
		{"in another order", q, success(b+","+a, ""), complete, ""},
		{"a warning about the expression", q, success(a+","+b, `"PromQL info: x"`), complete, ""},
		{"partial", q, success(a, `"no store"`), marked, ""},
		{"partial without a warning", q, success(a, ""), 0, "no warning"},
		{"a foreign sample", q, success(`{"metric":{"i":"a"},"values":[[60,"7"]]}`, `"no store"`), 0, "does not have"},
		{"a sum of fewer series", sums, success(`{"metric":{"i":"a"},"values":[[60,"7"]]}`, `"no store"`), marked, ""},
		{"an error", q, `{"status":"error","errorType":"execution","error":"no store"}`, refused, ""},
	} {
		got, err := test.q.judge(decoded(t, test.response))
		switch {
		case (err == nil) != (test.wrong == ""), err != nil && !strings.Contains(err.Error(), test.wrong):
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.wrong)
		case got != test.want:
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestOrigin(t *testing.T) {
	for series, want := range map[string]string{
		`tare_store_read_bytes_total{kind="chunks",origin="fetched"}`:                                "fetched",
		`tare_store_read_bytes_total{kind="series",origin="memcached"}`:                              "memcached",
		`tare_store_read_bytes_total{kind="symbols",origin="fetched"}`:                               "",
		`tare_store_read_bytes_total{kind="chunks",origin="wasted"}`:                                 "",
		`tare_store_reads_total{kind="chunks"}`:                                                      "",
		`thanos_bucket_store_series_data_size_fetched_bytes_sum{data_type="chunks",tenant="anonym"}`: "fetched",
	} {
		if got := origin(series); got != want {
			t.Errorf("%s: %q, want %q", series, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-blocks", "3"}, {"-rounds", "0"}, {"-series", "0"}, {"-load", "-1s"}, {"-clients", "0"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestQueries(t *testing.T) {
	o, err := parse([]string{"-blocks", "36"})
	if err != nil {
		t.Fatal(err)
	}
	from, to := smallblocks.Times(o.blocks)
	if to-from != 86400 {
		t.Errorf("36 blocks cover %d s", to-from)
	}
	for _, q := range queriesOf(o) {
		if start := q.form.Get("start"); start != "" && start < "1656000000" || q.form.Get("dedup") != "false" {
			t.Errorf("%s: %v", q.name, q.form)
		}
	}
}
