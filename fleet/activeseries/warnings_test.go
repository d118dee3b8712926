package activeseries

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestBodyWarnings has bodies that say, in the members that Prometheus, Thanos, Cortex and Mimir have used, that they are
// incomplete: both decoders return the texts, however the body is read.
func TestBodyWarnings(t *testing.T) {
	long := strings.Repeat("é", 400)
	many := `["w"` + strings.Repeat(`,"w"`, 99) + `]`
	for i, c := range []struct {
		members string // beside "data"
		want    []string
	}{
		{`"warnings":["one block is missing"]`, []string{"one block is missing"}},
		{`"status":"success","warnings":["a","b \"q\"\n\u00e9\ud83d\ude00"],"infos":["c"]`, []string{"a", "b \"q\"\né😀", "infos: c"}},
		{`"w\u0061rnings":"a text"`, []string{"a text"}},
		{`"warnings":[{"message":"a","code":7,"more":[{"x":"b"},true]},"c"]`, []string{"a", "7", "b", "true", "c"}},
		{`"warnings":[],"infos":[],"isPartial":false,"partial":null`, nil},
		{`"warnings":null,"infos":{},"missing_blocks":0,"partialResponse":"","truncated":-0.0`, nil},
		{`"isPartial":true`, []string{"isPartial: true"}},
		{`"status":"partial"`, []string{"status: partial"}},
		{`"status":"PARTIAL_RESPONSE"`, []string{"status: PARTIAL_RESPONSE"}},
		{`"status":"\u0070artial"`, []string{"status: partial"}},
		{`"status":"ok"`, nil},
		{`"partial_response":true,"missing_blocks":12,"Warning":"x"`, []string{"partial_response: true", "missing_blocks: 12", "Warning: x"}},
		{`"complete":false,"isComplete":true`, []string{"complete: false"}},
		{`"stats":{"warnings":["of another kind"]},"traceID":"warn"`, nil},
		{`"warnings":["` + long + `"]`, []string{strings.Repeat("é", MaxWarningText/2)}},
		{`"warnings":["` + strings.Repeat("x", 200_000) + `"]`, []string{strings.Repeat("x", MaxWarningText)}},
		{`"warnings":` + many, append(slices.Repeat([]string{"w"}, maxWarnings), strconv.Itoa(100-maxWarnings)+" more warnings")},
	} {
		for _, body := range []string{
			`{"data":[{"a":"b"}],` + c.members + `}`,
			`{` + c.members + `,"data":[{"a":"b"}]}`,
			`{ ` + c.members + " ,\n\"data\" : null }",
		} {
			if o := check(t, []byte(body), uint64(i)); !slices.Equal(o.warnings, c.want) {
				t.Errorf("%.200s\nhas warnings %q, want %q", body, o.warnings, c.want)
			}
			var out bytes.Buffer
			for _, by := range []Implementation{Strict, Stdlib} {
				out.Reset()
				b := NewMerger(MergerOptions{Workers: 2}).Merge([]Source{
					{Shard: "1_of_2", Body: io.NopCloser(strings.NewReader(`{"data":[{"c":"d"}]}`))},
					{Shard: "2_of_2", Body: io.NopCloser(strings.NewReader(body))},
				}, Request{Decoder: by, Compare: func(d Difference) { t.Error(d) }})
				if _, err := b.WriteTo(&out); err != nil {
					t.Fatal(err)
				}
				var want []string
				for _, text := range c.want {
					want = append(want, "shard 2_of_2: "+text)
				}
				if got := decode(t, new(plainScanner), bytes.NewReader(out.Bytes())).warnings; !slices.Equal(b.Warnings(), want) || len(got) != len(want) {
					t.Errorf("%s: merged has %q, its body %q, want %q", by, b.Warnings(), got, want)
				}
			}
		}
	}
}

// TestManyWarnings bounds the warnings of a merged response.
func TestManyWarnings(t *testing.T) {
	text := strings.Repeat("x", 1<<10)
	sources := make([]Source, 100)
	for i := range sources {
		sources[i] = Source{Shard: strconv.Itoa(i), Body: io.NopCloser(strings.NewReader(`{"data":[],"warnings":["` + text + `"` + strings.Repeat(`,"`+text+`"`, 99) + `]}`))}
	}
	var out bytes.Buffer
	b := NewMerger(MergerOptions{Workers: 2}).Merge(sources, Request{})
	_, err := b.WriteTo(&out)
	list := b.Warnings()
	if want := strconv.Itoa(100*(maxWarnings+1)-maxMergedWarnings) + " more warnings"; err != nil || out.Len() > 100<<10 || list[len(list)-1] != want {
		t.Errorf("%d bytes, %d warnings, the last %q, want %q; %v", out.Len(), len(list), list[len(list)-1], want, err)
	}
}
