package frontend

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/fleet/activeseries"
)

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestOptions takes options at each bound, and refuses them beyond.
func TestOptions(t *testing.T) {
	a, b := mustURL(t, "http://a:1"), mustURL(t, "https://b/path")
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // of the error; "": none
	}{
		"a replica":               {func(*Options) {}, ""},
		"two replicas":            {func(o *Options) { o.Downstreams = []*url.URL{a, b} }, ""},
		"members":                 {func(o *Options) { o.Downstreams, o.Members = nil, []*url.URL{a, b} }, ""},
		"no downstream":           {func(o *Options) { o.Downstreams = nil }, "no downstreams"},
		"both":                    {func(o *Options) { o.Members = []*url.URL{b} }, "want either"},
		"a replica twice":         {func(o *Options) { o.Downstreams = []*url.URL{a, b, mustURL(t, "http://a:1")} }, "listed twice"},
		"a member twice":          {func(o *Options) { o.Downstreams, o.Members = nil, []*url.URL{b, b} }, "listed twice"},
		"another scheme":          {func(o *Options) { o.Downstreams = []*url.URL{mustURL(t, "ftp://a")} }, "want a URL such as"},
		"no host":                 {func(o *Options) { o.Downstreams = []*url.URL{mustURL(t, "http:///x")} }, "want a URL such as"},
		"a query":                 {func(o *Options) { o.Downstreams = []*url.URL{mustURL(t, "http://a/?q=1")} }, "ends with its path"},
		"a fragment":              {func(o *Options) { o.Downstreams = []*url.URL{mustURL(t, "http://a/#x")} }, "ends with its path"},
		"the second":              {func(o *Options) { o.Downstreams = []*url.URL{a, mustURL(t, "http://a/#x")} }, "ends with its path"},
		"a shard":                 {func(o *Options) { o.Shards = 1 }, ""},
		"no shard":                {func(o *Options) { o.Shards = 0 }, "at least 1"},
		"as many shards":          {func(o *Options) { o.Shards, o.MaxShards = 8, 8 }, ""},
		"more shards":             {func(o *Options) { o.Shards, o.MaxShards = 9, 8 }, "more than the 8"},
		"shards without a limit":  {func(o *Options) { o.Shards, o.MaxShards = 9, 0 }, ""},
		"no limits":               {func(o *Options) { o.MaxShards, o.MaxRequests, o.ResponseBytes, o.Timeout = 0, 0, 0, 0 }, ""},
		"negative shards":         {func(o *Options) { o.MaxShards = -1 }, "negative"},
		"negative requests":       {func(o *Options) { o.MaxRequests = -1 }, "negative"},
		"negative bytes":          {func(o *Options) { o.ResponseBytes = -1 }, "negative"},
		"negative time":           {func(o *Options) { o.Timeout = -1 }, "negative"},
		"all hedged":              {func(o *Options) { o.Hedge = 1 }, ""},
		"more hedges than all":    {func(o *Options) { o.Hedge = math.Nextafter(1, 2) }, "hedged requests"},
		"negative hedges":         {func(o *Options) { o.Hedge = -1e-9 }, "hedged requests"},
		"no number of hedges":     {func(o *Options) { o.Hedge = math.NaN() }, "hedged requests"},
		"a byte":                  {func(o *Options) { o.MergeBytes = 1 }, ""},
		"no byte":                 {func(o *Options) { o.MergeBytes = 0 }, "more than 0"},
		"gzip":                    {func(o *Options) { o.Encoding = Gzip }, ""},
		"another encoding":        {func(o *Options) { o.Encoding = "br" }, "content encoding"},
		"the other decoder":       {func(o *Options) { o.Decoding.By = activeseries.Stdlib }, ""},
		"an unknown decoder":      {func(o *Options) { o.Decoding.By = activeseries.Stdlib + 1 }, "decoder"},
		"all compared":            {func(o *Options) { o.Decoding.Compare = 1 }, ""},
		"more compared":           {func(o *Options) { o.Decoding.Compare = math.Nextafter(1, 2) }, "compare"},
		"negatively compared":     {func(o *Options) { o.Decoding.Compare = -1e-9 }, "compare"},
		"no number of comparison": {func(o *Options) { o.Decoding.Compare = math.NaN() }, "compare"},
	} {
		o := testOptions()
		o.Downstreams = []*url.URL{a}
		c.change(&o)
		f, err := New(o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			f.Close()
		}
	}
	f, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := Decoding{By: activeseries.Stdlib, Compare: 0.5}
	if err := f.SetDecoding(want); err != nil || f.currentDecoding() != want {
		t.Errorf("%+v (%v)", f.currentDecoding(), err)
	}
	if err := f.SetDecoding(Decoding{Compare: 2}); err == nil || f.currentDecoding() != want {
		t.Errorf("an invalid one: %v, %+v", err, f.currentDecoding())
	}
	if n := len(f.Collectors()); n < 10 {
		t.Errorf("%d metrics", n)
	}
	local := testOptions()
	local.Downstreams, local.Shards = nil, 0
	for name, change := range map[string]func(*Options){
		"downstreams": func(o *Options) { o.Downstreams = []*url.URL{a} },
		"members":     func(o *Options) { o.Members = []*url.URL{a} },
		"a transport": func(o *Options) { o.Transport = http.DefaultTransport },
	} {
		o := local
		if change(&o); o.Shards != 0 {
			t.Fatal(o)
		}
		if _, err := NewLocal(localList{}, o); err == nil {
			t.Errorf("a local frontend with %s", name)
		}
	}
}

// TestStatuses has the status of each kind of error, whatever wraps it.
func TestStatuses(t *testing.T) {
	f := &Frontend{options: Options{Timeout: time.Minute}}
	for name, c := range map[string]struct {
		err  error
		code int
		text string
	}{
		"a status":     {&statusError{Code: http.StatusNotFound, Part: "1_of_2", Text: "gone"}, http.StatusNotFound, "shard 1_of_2: gone"},
		"duplicates":   {&activeseries.BudgetError{What: "duplicates", Allowed: 5}, http.StatusRequestEntityTooLarge, "option merge-bytes"},
		"counts":       {&activeseries.BudgetError{What: "counts", Allowed: 5}, http.StatusRequestEntityTooLarge, "a label with fewer values"},
		"histograms":   {&activeseries.BudgetError{What: "histograms", Allowed: 5}, http.StatusRequestEntityTooLarge, "option merge-bytes"},
		"the response": {&activeseries.BudgetError{What: "response", Allowed: 5}, http.StatusRequestEntityTooLarge, "option response-bytes"},
		"reported":     {&activeseries.ReportedError{Shard: "1", Text: "boom"}, http.StatusBadGateway, "boom"},
		"another":      {errors.New("boom"), http.StatusBadGateway, "boom"},
	} {
		for _, err := range []error{c.err, errors.Join(c.err)} {
			if e := f.statusOf(t.Context(), err); e.Code != c.code || !strings.Contains(e.Error(), c.text) || e.Part == "" && !errors.Is(e, err) && e != err { //nolint:errorlint // the same one
				t.Errorf("%s: %d %v, want %d %s", name, e.Code, e, c.code, c.text)
			}
		}
	}
	for code, want := range map[int]string{
		400: "bad_data", 404: "not_found", 406: "not_acceptable", 413: "too_large", 418: "bad_data", 422: "execution", 429: "too_many_requests",
		499: "canceled", 500: "internal", 501: "internal", 502: "unavailable", 503: "unavailable", 504: "timeout",
	} {
		if got := errorType(code); got != want {
			t.Errorf("status %d has type %s, want %s", code, got, want)
		}
	}
}

// TestTexts truncates foreign texts at the bound, between runes, and makes them safe to display.
func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"a\nb\tc\x00d\x1fe":                 "a\nb\tc d e",
		"\xff":                              "\ufffd",
		strings.Repeat("a", maxErrorText):   strings.Repeat("a", maxErrorText),
		strings.Repeat("a", maxErrorText+1): strings.Repeat("a", maxErrorText) + "…",
		strings.Repeat("a", maxErrorText-1) + "é": strings.Repeat("a", maxErrorText-1) + "…",
		strings.Repeat("é", maxErrorText):         strings.Repeat("é", maxErrorText/2) + "…",
	} {
		if got := truncateText(text); got != want {
			t.Errorf("%.20q of %d bytes: %.20q of %d, want %d", text, len(text), got, len(got), len(want))
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("a", latestText):            strings.Repeat("a", latestText),
		strings.Repeat("a", latestText+1):          strings.Repeat("a", latestText) + "…",
		strings.Repeat("a", latestText-1) + "é":    strings.Repeat("a", latestText-1) + "…",
		"\xff" + strings.Repeat("a", latestText-3): "\ufffd" + strings.Repeat("a", latestText-3),
	} {
		if got := truncate(text); got != want {
			t.Errorf("%.20q of %d bytes: %.20q of %d, want %d", text, len(text), got, len(got), len(want))
		}
	}
	const most = activeseries.MaxWarningText
	for text, want := range map[string]string{
		strings.Repeat("a", most):         strings.Repeat("a", most),
		strings.Repeat("a", most+1):       strings.Repeat("a", most),
		strings.Repeat("a", most-1) + "é": strings.Repeat("a", most-1),
	} {
		if got := truncateWarning(text); got != want {
			t.Errorf("a warning of %d bytes has %d, want %d", len(text), len(got), len(want))
		}
	}
	if got, want := trailerText("a\nb ~\x7fé\x1f"), "a b ~?? "; got != want {
		t.Errorf("a trailer: %q, want %q", got, want)
	}
}

// TestTypes accepts JSON by the weight of the most specific range that contains it.
func TestTypes(t *testing.T) {
	for accept, want := range map[string]bool{
		"*/*":                                 true,
		"application/json":                    true,
		"text/html":                           false,
		"text/html, application/*;q=0.5":      true,
		"application/*, " + jsonType + ";q=0": false,
		"*/*;q=0.1, application/json;q=0":     false,
		"*/*;q=0, application/json;q=0.1":     true,
		"*/*;q=0.5, application/*;q=0":        false,
		"application/*;q=0, */*":              false,
		"*/*;q=0":                             false,
	} {
		if got := acceptsJSON(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("Accept %q accepts JSON: %t, want %t", accept, got, want)
		}
	}
	if !acceptsJSON(http.Header{}) {
		t.Error("a request without Accept accepts no JSON")
	}
	for header, want := range map[string]Encoding{"": Identity, "identity": Identity, " GZIP ": Gzip, "x-gzip": Gzip, "zstd": Zstd, "x-snappy-framed": Snappy} {
		if got, err := encodingOf(header); got != want || err != nil {
			t.Errorf("Content-Encoding %q is %q (%v)", header, got, err)
		}
	}
	if _, err := encodingOf("br"); err == nil {
		t.Error("an unknown encoding is taken")
	}
}

// TestShardsOf parses the number of shards at its bounds.
func TestShardsOf(t *testing.T) {
	for _, c := range []struct {
		header     string
		most, want int // 0: an error
	}{
		{"", 8, 4},
		{" ", 8, 4},
		{"0", 8, 1},
		{"1", 8, 1},
		{" 2 ", 8, 2},
		{"8", 8, 8},
		{"9", 8, 0},
		{"9", 0, 9},
		{"-1", 8, 0},
		{"x", 8, 0},
		{"2147483647", 0, 2147483647},
		{"2147483648", 0, 0},
	} {
		f := &Frontend{options: Options{Shards: 4, MaxShards: c.most}}
		got, err := f.shardsOf(http.Header{shardingHeader: {c.header}})
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q of at most %d: %d (%v), want %d", c.header, c.most, got, err, c.want)
		}
	}
	if names := strings.Join(shardNames(11), " "); names != "1_of_11 2_of_11 3_of_11 4_of_11 5_of_11 6_of_11 7_of_11 8_of_11 9_of_11 10_of_11 11_of_11" {
		t.Error(names)
	}
	for most, want := range map[int]string{0: "shard count too low: ask for more than 4", 5: ", 5 at most", 4: "more shards are not allowed", 3: "more shards are not allowed"} {
		x := &exchange{f: &Frontend{options: Options{MaxShards: most}}, request: request{shards: 4}}
		if got := x.shardAdvice(); !strings.Contains(got, want) {
			t.Errorf("4 shards of at most %d: %s", most, got)
		}
	}
}

// TestRetries retries errors that another replica may not have.
func TestRetries(t *testing.T) {
	for code, want := range map[int]bool{400: false, 429: false, 499: false, 500: true, 501: false, 502: true, 503: true} {
		if got := mayRetry(errors.Join(&statusError{Code: code})); got != want {
			t.Errorf("status %d: %v", code, got)
		}
	}
	if mayRetry(errors.New("boom")) {
		t.Error("an error without a status is retried")
	}
}

// TestHedgeCredit has a hedge for each of the first requests, at most ten saved.
func TestHedgeCredit(t *testing.T) {
	spent := func(b *hedgeBudget) (n int) {
		for b.spend() {
			n++
		}
		return n
	}
	b := newHedgeBudget(1)
	if n := spent(&b); n != 0 {
		t.Errorf("%d hedges of no request", n)
	}
	for requests, want := range map[int]int{1: 1, 10: 10, 11: 10, 1000: 10} {
		if b.earn(requests); spent(&b) != want {
			t.Errorf("%d requests: want %d hedges", requests, want)
		}
	}
	none := newHedgeBudget(0)
	if none.earn(1000); none.spend() {
		t.Error("a hedge of a fraction of 0")
	}
}
